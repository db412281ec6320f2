//! Writes a Loop without a list among its states.

use std::collections::HashSet;

use crate::emit::Emit;
use crate::model::{self, GraphProto, NodeProto};
use crate::scope::Scope;
use crate::sizes::Size;
use crate::types;

use super::BEFORE_STATES;
use super::body::{Added, List};
use super::conditional::Conditional;
use super::reads::Reads;
use crate::passes::tract::list::{
    Segment, write_join, write_last, write_length, write_parts_of, write_stack,
};

/// A Loop that is being rewritten.
pub(super) struct Write<'w, 'n> {
    emit: &'w mut Emit<'n>,
    scope: &'w Scope<'w>,
    list: &'w List<'w>,
    node: NodeProto,
    body: GraphProto,
    /// Nodes before and behind the body's.
    first: Vec<NodeProto>,
    behind: Vec<NodeProto>,
    /// The body's nodes that are replaced.
    gone: HashSet<usize>,
}

/// A state of a Loop: its initial value, its names before and after an iteration, and the last value.
struct State {
    initial: String,
    before: String,
    after: String,
    last: String,
}

impl<'w, 'n> Write<'w, 'n> {
    pub(super) fn new(
        emit: &'w mut Emit<'n>,
        scope: &'w Scope<'w>,
        node: &NodeProto,
        list: &'w List<'w>,
    ) -> Result<Self, String> {
        let body = node.graph("body").ok_or("its body is missing")?.clone();
        let mut write = Self {
            emit,
            scope,
            list,
            node: node.clone(),
            body,
            first: Vec::new(),
            behind: Vec::new(),
            gone: HashSet::new(),
        };
        // All states and scan outputs have their places. ONNX Runtime takes no empty names of states.
        let outputs = write.body.output.len().saturating_sub(1);
        write.node.output.resize(outputs, String::new());
        for output in &mut write.node.output {
            if output.is_empty() {
                *output = write.emit.name("unread");
            }
        }
        Ok(write)
    }

    /// The list as a scan output. If the tensors are only counted, it stacks the iterations' numbers.
    pub(super) fn scan(mut self, given: &str, is_counted: bool) -> Result<(), String> {
        let list = self.list;
        let added = list.added_alone()?;
        self.replace_reads(added);
        // A body must not output a value twice.
        let scan = self.emit.name("added");
        let source = match is_counted {
            true => self.step(),
            false => added.value.to_owned(),
        };
        let hand_on = model::node("Identity", &[&source], &[&scan], Vec::new());
        self.behind.push(hand_on);
        self.remove_state();
        let all = self.add_scan(&scan, "stacked");
        let emit = (self.scope, self.finish());
        write_list(emit, list, all, given)
    }

    /// The same if an If adds the tensor in one branch. An iteration that adds none gives zeros, which
    /// are dropped.
    pub(super) fn scan_where(
        mut self,
        given: &str,
        conditional: &Conditional<'_>,
        sizes: &[Size<'_>],
    ) -> Result<(), String> {
        let list = self.list;
        let zeros = self.zeros(sizes)?;
        let piece = list.added_alone()?.value;
        let adder = &mut self.body.node[conditional.node];
        adder.output[conditional.output] = piece.to_owned();
        for branch in adder.graphs_mut() {
            let tensor = conditional
                .take_tensor(branch)
                .unwrap_or_else(|| zeros.clone());
            let own = self.emit.name("piece");
            let hand_on = model::node("Identity", &[&tensor], &[&own], Vec::new());
            branch.node.push(hand_on);
            branch.output[conditional.output] = model::untyped(&own);
        }
        let keeps = self.emit.name("keeps");
        self.behind = self.emit.within(|emit| {
            let no_sizes = emit.ints(&[]);
            match conditional.holds {
                true => emit.write(
                    &[&keeps],
                    "Reshape",
                    &[conditional.condition, &no_sizes],
                    Vec::new(),
                ),
                false => {
                    let condition = emit.plain("Reshape", &[conditional.condition, &no_sizes]);
                    emit.write(&[&keeps], "Not", &[&condition], Vec::new());
                }
            }
        });
        let scan = self.emit.name("added");
        let hand_on = model::node("Identity", &[piece], &[&scan], Vec::new());
        self.behind.push(hand_on);
        self.remove_state();
        let all = self.add_scan(&scan, "stacked");
        let keeps = self.add_scan(&keeps, "kept");
        let (scope, emit) = (self.scope, self.finish());
        let along = vec![model::int("axis", 0)];
        let all = emit.op("Compress", &[&all, &keeps], along);
        write_list((scope, emit), list, all, given)
    }

    /// Makes a value of the body a scan output, and returns its name.
    fn add_scan(&mut self, value: &str, hint: &str) -> String {
        let name = self.emit.name(hint);
        self.node.output.push(name.clone());
        self.body.output.push(model::untyped(value));
        name
    }

    /// The list as a state that holds its tensors stacked.
    pub(super) fn carry(mut self, sizes: &[Size<'_>], given: &str) -> Result<(), String> {
        let list = self.list;
        let initial = match list.initial.is_empty() {
            true => {
                let empty = std::iter::once(Size::Known(0));
                self.zeros(&empty.chain(sizes.iter().copied()).collect::<Vec<_>>())?
            }
            false => write_stack(self.emit, self.scope, &list.initial)?,
        };
        let state = self.state(initial);
        self.first = self
            .emit
            .within(|emit| write_parts_of(emit, &state.before, list.old));
        self.behind = self.emit.within(|emit| {
            let mut parts = vec![state.before.clone()];
            for added in &list.added {
                let tensor = emit.unsqueeze(added.value, &[0]);
                let place = if added.is_front { 0 } else { parts.len() };
                parts.insert(place, tensor);
            }
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            emit.write(
                &[&state.after],
                "Concat",
                &parts,
                vec![model::int("axis", 0)],
            );
        });
        self.remove_state();
        self.add_state(&state);
        let emit = self.finish();
        if !given.is_empty() {
            write_parts_of(emit, &state.last, given);
        }
        Ok(())
    }

    /// The list as a state that holds its tensors joined along an axis.
    pub(super) fn join(
        mut self,
        sizes: &[Option<Size<'_>>],
        axis: usize,
        reads: &Reads<'_>,
    ) -> Result<(), String> {
        let list = self.list;
        let added = list.added_alone()?;
        let initial = if list.initial.is_empty() {
            let mut sizes = sizes.to_vec();
            sizes[axis] = Some(Size::Known(0));
            let sizes: Option<Vec<Size<'_>>> = sizes.into_iter().collect();
            self.zeros(&sizes.ok_or("its sizes are not known")?)?
        } else {
            let joined = self.emit.name("begins");
            write_join(
                self.emit,
                self.scope,
                &list.initial,
                (axis as i64, false),
                &joined,
            )?;
            joined
        };
        let state = self.state(initial);
        self.replace_reads(added);
        let mut both = [state.before.as_str(), added.value];
        if added.is_front {
            both.reverse();
        }
        let along = vec![model::int("axis", axis as i64)];
        self.behind
            .push(model::node("Concat", &both, &[&state.after], along));
        self.remove_state();
        self.add_state(&state);
        let emit = self.finish();
        for (&index, node) in reads.here.iter().zip(&reads.nodes) {
            let output = node.output.first().map_or("", String::as_str);
            emit.write(&[output], "Identity", &[&state.last], Vec::new());
            emit.also(index);
        }
        Ok(())
    }

    /// The body's input for the number of the iteration.
    fn step(&self) -> String {
        self.body.inputs().next().unwrap_or_default().to_owned()
    }

    /// A state that takes the list's place.
    fn state(&mut self, initial: String) -> State {
        let [before, after, last] = ["before", "after", "all"].map(|it| self.emit.name(it));
        State {
            initial,
            before,
            after,
            last,
        }
    }

    /// Replaces reads of the list in the body: its length by the iteration's number and the length at
    /// first, and the tensor that the last iteration added by a state.
    fn replace_reads(&mut self, added: &Added<'_>) {
        let list = self.list;
        self.gone.insert(added.node);
        self.gone
            .extend(list.lengths.iter().map(|&(index, _)| index));
        self.gone.extend(&list.lasts);
        if !list.lengths.is_empty() {
            self.replace_lengths();
        }
        let Some((&first, rest)) = list.lasts.split_first() else {
            return;
        };
        let read = |index: usize| self.body.node[index].output[0].clone();
        let before = read(first);
        for &index in rest {
            let same = model::node("Identity", &[&before], &[&read(index)], Vec::new());
            self.first.push(same);
        }
        let after = self.emit.name("last");
        let hand_on = model::node("Identity", &[added.value], &[&after], Vec::new());
        self.behind.push(hand_on);
        if let Some(Segment::One(element)) = list.initial.last() {
            let state = State {
                initial: write_last(self.emit, element),
                before,
                after,
                last: self.emit.name("unread"),
            };
            self.add_state(&state);
        }
    }

    fn replace_lengths(&mut self) {
        let list = self.list;
        let begins = self.emit.name("length");
        write_length(self.emit, self.scope, &list.initial, &begins);
        let step = self.step();
        let read = |&(index, added): &(usize, usize)| (&self.body.node[index].output[0], added);
        let lengths: Vec<(&String, usize)> = list.lengths.iter().map(read).collect();
        let nodes = self.emit.within(|emit| {
            // Runtimes may number iterations by vectors of one element.
            let no_sizes = emit.ints(&[]);
            let step = emit.plain("Reshape", &[&step, &no_sizes]);
            let length = emit.plain("Add", &[&step, &begins]);
            for (output, added) in lengths {
                let added = emit.scalar(added as i64);
                emit.write(&[output], "Add", &[&length, &added], Vec::new());
            }
        });
        self.first.extend(nodes);
    }

    /// A tensor of zeros, of these sizes and the list's type.
    fn zeros(&mut self, sizes: &[Size<'_>]) -> Result<String, String> {
        let name = self
            .node
            .input(BEFORE_STATES + self.list.state)
            .unwrap_or_default();
        let maker = self.scope.producer(name).map(|(_, node, _)| node);
        let code = maker.and_then(|node| match node.op() {
            "SequenceEmpty" => i32::try_from(node.int("dtype").or(model::FLOAT.into())?).ok(),
            "SequenceConstruct" => types::of(self.scope, node.input(0)?),
            _ => None,
        });
        let mut zero = code
            .and_then(model::zero)
            .ok_or("the type of its tensors is not known")?;
        zero.dims = vec![1];
        let mut parts = Vec::new();
        for &size in sizes {
            parts.push(match size {
                Size::Known(size) => self.emit.ints(&[size]),
                Size::Axis { scope, value, axis } => {
                    if !self.scope.sees(scope, value) {
                        return Err(format!("the sizes of {value} are not seen before it"));
                    }
                    let shape = self.emit.plain("Shape", &[value]);
                    self.emit.range(&shape, 0, axis as i64, axis as i64 + 1)
                }
            });
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let shape = match parts.is_empty() {
            true => self.emit.ints(&[]),
            false => self.emit.op("Concat", &parts, vec![model::int("axis", 0)]),
        };
        let value = vec![model::tensor("value", zero)];
        Ok(self.emit.op("ConstantOfShape", &[&shape], value))
    }

    fn remove_state(&mut self) {
        let state = self.list.state;
        self.node.input.remove(BEFORE_STATES + state);
        self.node.output.remove(state);
        self.body.input.remove(BEFORE_STATES + state);
        self.body.output.remove(1 + state);
    }

    /// Adds a state behind the others.
    fn add_state(&mut self, state: &State) {
        let count = self.node.input.len() - BEFORE_STATES;
        self.node.input.push(state.initial.clone());
        self.node.output.insert(count, state.last.clone());
        let input = model::untyped(&state.before);
        self.body.input.insert(BEFORE_STATES + count, input);
        self.body
            .output
            .insert(1 + count, model::untyped(&state.after));
    }

    /// Writes the Loop, and hands on what writes the nodes behind it.
    fn finish(self) -> &'w mut Emit<'n> {
        let Self {
            emit,
            mut node,
            mut body,
            first,
            behind,
            gone,
            ..
        } = self;
        let own = std::mem::take(&mut body.node).into_iter().enumerate();
        let own = own.filter(|(index, _)| !gone.contains(index));
        body.node = first
            .into_iter()
            .chain(own.map(|(_, node)| node))
            .chain(behind)
            .collect();
        for graph in node.graphs_mut() {
            *graph = body.clone();
        }
        emit.copy(node);
        emit
    }
}

/// Writes a list: the tensors that it begins with, and those that a Loop has added, one after another
/// along the first axis of `all`.
fn write_list(
    (scope, emit): (&Scope<'_>, &mut Emit<'_>),
    list: &List<'_>,
    mut all: String,
    given: &str,
) -> Result<(), String> {
    if given.is_empty() {
        return Ok(());
    }
    let is_front = list.added_alone()?.is_front;
    if is_front {
        let flipped = emit.name("flipped");
        emit.flip_into(&flipped, &all, 0);
        all = flipped;
    }
    if !list.initial.is_empty() {
        let begins = write_stack(emit, scope, &list.initial)?;
        let mut both = [begins.as_str(), &all];
        if is_front {
            both.reverse();
        }
        all = emit.op("Concat", &both, vec![model::int("axis", 0)]);
    }
    write_parts_of(emit, &all, given);
    Ok(())
}
