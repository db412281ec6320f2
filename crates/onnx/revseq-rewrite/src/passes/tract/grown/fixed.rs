//! A list of as many tensors in all iterations, to as many states.

use crate::model::{self, BEFORE_STATES};
use crate::pass::{At, Verdict};
use crate::passes::loop_edit::{LoopEdit, NewState};
use crate::passes::tract::list::{self, Segment, write_element};
use crate::scope::Scope;

/// The Loop with a state for each tensor of a list, if no iteration changes their number.
pub(super) fn replaced(at: &At<'_>, state: usize, initial: &[Segment<'_>]) -> Option<Verdict> {
    let initial = list::elements(initial).filter(|all| !all.is_empty())?;
    let body = at.node.graph("body")?;
    let old = body.input.get(BEFORE_STATES + state)?.name();
    let new = body.output.get(1 + state)?.name();
    let result = at.node.output.get(state).filter(|it| !it.is_empty());
    let emit = at.emit(result.map_or(old, String::as_str));
    let mut edit = LoopEdit::new(&emit, at.node).ok()?;
    let states = initial.iter();
    let states = states.map(|it| NewState::new(&emit, write_element(&emit, it)));
    let states: Vec<NewState> = states.collect();
    let names = |of: fn(&NewState) -> &String| states.iter().map(of).cloned().collect::<Vec<_>>();
    let before = names(|state| &state.before);
    edit.first = emit.within(|| emit.write(&[old], "SequenceConstruct", &before, []));
    let mut first = body.clone();
    first.node.splice(0..0, edit.first.iter().cloned());
    first.input.remove(BEFORE_STATES + state);
    first
        .input
        .extend(before.iter().map(|it| model::untyped(it)));
    let inner = Scope::graph(&first, Some(at.scope), at.scope.opset);
    let updated = list::segments(&inner, new).and_then(|all| list::elements(&all))?;
    if updated.len() != states.len() {
        return None;
    }
    edit.behind = emit.within(|| {
        for (element, state) in std::iter::zip(&updated, &states) {
            let element = write_element(&emit, element);
            emit.write(&[&state.after], "Identity", element, []);
        }
    });
    edit.remove_state(state);
    states.iter().for_each(|state| edit.add_state(state));
    edit.finish();
    if let Some(result) = result {
        emit.write(&[result], "SequenceConstruct", names(|it| &it.last), []);
    }
    Some(emit.finish("the same with each tensor of a list of fixed length as a state"))
}
