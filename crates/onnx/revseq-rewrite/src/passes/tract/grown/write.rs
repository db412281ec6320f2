//! Writes a Loop without a list among its states.

use crate::emit::{Emit, NO_SIZES};
use crate::model::{self, BEFORE_STATES, GraphProto, NodeProto};
use crate::rename::identity;
use crate::scope::Scope;
use crate::sizes::Size;
use crate::types;

use super::body::{List, reads_length};
use super::reads::ListReads;
use crate::passes::loop_edit::{LoopEdit, NewState};
use crate::passes::tract::list::{
    Added, Segment, write_element, write_join, write_length, write_parts_of, write_stack,
};

/// A Loop whose list is being replaced.
pub(super) struct Write<'w> {
    pub(super) edit: LoopEdit<'w>,
    scope: &'w Scope<'w>,
    node: &'w NodeProto,
    list: &'w List<'w>,
}

impl<'w> Write<'w> {
    pub(super) fn new(
        emit: &'w Emit<'w>,
        scope: &'w Scope<'w>,
        node: &'w NodeProto,
        list: &'w List<'w>,
    ) -> Result<Self, String> {
        Ok(Self {
            edit: LoopEdit::new(emit, node)?,
            scope,
            node,
            list,
        })
    }

    /// The list as a scan output. If the tensors are only counted, it stacks the iterations' numbers.
    pub(super) fn scan(mut self, result: &str, is_counted: bool) -> Result<(), String> {
        let added = self.list.added_alone()?;
        self.replace_reads(added);
        let source = match is_counted {
            true => self.step(),
            false => added.tensor.to_owned(),
        };
        self.stack(&source, result, None)
    }

    /// The same with the iterations in which a condition holds, or does not.
    pub(super) fn scan_where(
        mut self,
        result: &str,
        condition: &str,
        holds: bool,
    ) -> Result<(), String> {
        let emit = self.edit.emit;
        let mut keeps = String::new();
        self.edit.behind = emit.within(|| {
            keeps = emit.op("Reshape", (condition, NO_SIZES));
            if !holds {
                keeps = emit.op("Not", &keeps);
            }
        });
        let tensor = self.list.added_alone()?.tensor;
        self.stack(tensor, result, Some(&keeps))
    }

    /// A value of the body as a scan output in place of the list, from all iterations or from those that keep
    /// it.
    fn stack(mut self, value: &str, result: &str, keeps: Option<&str>) -> Result<(), String> {
        let emit = self.edit.emit;
        let scan = self.edit.hand_on(value, "added");
        self.edit.remove_state(self.list.state);
        let mut all = self.edit.add_scan(&scan, "stacked");
        let keeps = keeps.map(|keeps| self.edit.add_scan(keeps, "kept"));
        self.edit.finish();
        if let Some(keeps) = keeps {
            all = emit.with("Compress", (all, keeps), [model::int("axis", 0)]);
        }
        write_list(emit, self.scope, self.list, all, result)
    }

    /// The list as a state that holds its tensors stacked.
    pub(super) fn carry(mut self, sizes: &[Size<'_>], result: &str) -> Result<(), String> {
        let (list, emit) = (self.list, self.edit.emit);
        let initial = match list.initial.is_empty() {
            true => self.zeros(&[&[Size::Known(0)], sizes].concat())?,
            false => write_stack(emit, self.scope, &list.initial)?,
        };
        let state = NewState::new(emit, initial);
        self.edit.first = emit.within(|| emit.give(list.old, write_parts_of(emit, &state.before)));
        self.edit.behind = emit.within(|| {
            let mut parts = vec![state.before.clone()];
            for added in &list.added {
                let tensor = emit.unsqueeze(added.tensor, &[0]);
                let place = if added.is_front { 0 } else { parts.len() };
                parts.insert(place, tensor);
            }
            emit.give(&state.after, emit.concat(parts, 0));
        });
        self.edit.remove_state(list.state);
        self.edit.add_state(&state);
        self.edit.finish();
        if !result.is_empty() {
            emit.give(result, write_parts_of(emit, &state.last));
        }
        Ok(())
    }

    /// The list as a state that holds its tensors joined along an axis.
    pub(super) fn join(
        mut self,
        sizes: &[Option<Size<'_>>],
        axis: usize,
        reads: &ListReads<'_>,
    ) -> Result<(), String> {
        let (list, emit) = (self.list, self.edit.emit);
        let added = list.added_alone()?;
        let initial = if list.initial.is_empty() {
            let mut sizes = sizes.to_vec();
            sizes[axis] = Some(Size::Known(0));
            let sizes: Option<Vec<Size<'_>>> = sizes.into_iter().collect();
            self.zeros(&sizes.ok_or("its sizes are not known")?)?
        } else {
            write_join(emit, self.scope, &list.initial, (axis as i64, false))?
        };
        let state = NewState::new(emit, initial);
        self.replace_reads(added);
        let mut both = [&*state.before, added.tensor];
        if added.is_front {
            both.reverse();
        }
        let along = vec![model::int("axis", axis as i64)];
        let joined = model::node("Concat", &both, &[&state.after], along);
        self.edit.behind.push(joined);
        self.edit.remove_state(list.state);
        self.edit.add_state(&state);
        self.edit.finish();
        for (&index, node) in reads.here.iter().zip(&reads.nodes) {
            let output = node.output.first().map_or("", String::as_str);
            emit.write(&[output], "Identity", &state.last, []);
            emit.also(index);
        }
        Ok(())
    }

    /// The body's input for the number of the iteration.
    fn step(&self) -> String {
        let step = self.edit.body.inputs().next();
        step.unwrap_or_default().to_owned()
    }

    /// Replaces reads of the list in the body: its length by the iteration's number and the length at
    /// first, and the tensor that the last iteration added by a state.
    fn replace_reads(&mut self, added: &Added<'_>) {
        let list = self.list;
        self.edit.gone.insert(added.node);
        self.edit
            .gone
            .extend(list.lengths.iter().map(|&(index, _)| index));
        self.edit.gone.extend(&list.lasts);
        if !list.lengths.is_empty() || !list.inner_lengths.is_empty() {
            self.replace_lengths();
        }
        let Some((&first, rest)) = list.lasts.split_first() else {
            return;
        };
        let read = |index: usize| self.edit.body.node[index].output[0].clone();
        let before = read(first);
        for &index in rest {
            self.edit.first.push(identity(&before, &read(index)));
        }
        let after = self.edit.hand_on(added.tensor, "last");
        if let Some(Segment::One(element)) = list.initial.last() {
            let state = NewState {
                initial: write_element(self.edit.emit, element),
                before,
                after,
                last: self.edit.emit.name("unread"),
            };
            self.edit.add_state(&state);
        }
    }

    fn replace_lengths(&mut self) {
        let list = self.list;
        let emit = self.edit.emit;
        let begins = write_length(emit, self.scope, &list.initial);
        let step = self.step();
        let read =
            |&(index, added): &(usize, usize)| (&self.edit.body.node[index].output[0], added);
        let lengths: Vec<(&String, usize)> = list.lengths.iter().map(read).collect();
        let mut inner = Vec::new();
        let nodes = emit.within(|| {
            // Runtimes may number iterations by vectors of one element.
            let step = emit.op("Reshape", (step, NO_SIZES));
            let length = emit.op("Add", (step, begins));
            for (output, added) in lengths {
                emit.give(output, emit.op("Add", (&length, added as i64)));
            }
            for &(name, added) in &list.inner_lengths {
                inner.push((name, emit.op("Add", (&length, added as i64))));
            }
        });
        self.edit.first.extend(nodes);
        for (name, length) in inner {
            let graphs = self.edit.body.node.iter_mut();
            for graph in graphs.flat_map(NodeProto::graphs_mut) {
                measure(graph, name, &length);
            }
        }
    }

    /// A tensor of zeros, of these sizes and the list's type.
    pub(super) fn zeros(&self, sizes: &[Size<'_>]) -> Result<String, String> {
        let name = self.node.input(BEFORE_STATES + self.list.state);
        zeros(self.edit.emit, self.scope, name.unwrap_or_default(), sizes)
    }
}

/// A tensor of zeros, of these sizes and the type of a list.
pub(super) fn zeros(
    emit: &Emit<'_>,
    scope: &Scope<'_>,
    list: &str,
    sizes: &[Size<'_>],
) -> Result<String, String> {
    let maker = scope.producer(list).map(|(_, node, _)| node);
    let code = maker.and_then(|node| match node.op() {
        "SequenceEmpty" => i32::try_from(node.int("dtype").or(model::FLOAT.into())?).ok(),
        "SequenceConstruct" => types::of(scope, node.input(0)?),
        _ => None,
    });
    let mut zero = code
        .and_then(model::zero)
        .ok_or("the type of its tensors is not known")?;
    zero.dims = vec![1];
    let mut hidden = sizes.iter().filter(|size| !is_outer(scope, size));
    if let Some(Size::Axis { value, .. }) = hidden.next() {
        return Err(format!("the sizes of {value} are not seen before it"));
    }
    let parts = sizes.iter().map(|&size| emit.size_of(scope, size));
    let parts: Vec<String> = parts.collect();
    let shape = match parts.is_empty() {
        true => emit.ints(&[]),
        false => emit.concat(parts, 0),
    };
    Ok(emit.with("ConstantOfShape", shape, [model::tensor("value", zero)]))
}

/// Replaces the reads of a list's length in a graph and those in it.
fn measure(graph: &mut GraphProto, list: &str, length: &str) {
    for node in &mut graph.node {
        if reads_length(node, list) {
            let output = node.output.first().map_or("", String::as_str);
            *node = identity(length, output);
        }
        for inner in node.graphs_mut() {
            measure(inner, list, length);
        }
    }
}

/// Writes a list: the tensors that it begins with, and those that a Loop has added, one after another
/// along the first axis of `all`.
fn write_list(
    emit: &Emit<'_>,
    scope: &Scope<'_>,
    list: &List<'_>,
    mut all: String,
    result: &str,
) -> Result<(), String> {
    if result.is_empty() {
        return Ok(());
    }
    let is_front = list.added_alone()?.is_front;
    if is_front {
        all = emit.flip(&all, 0);
    }
    if !list.initial.is_empty() {
        let mut both = [write_stack(emit, scope, &list.initial)?, all];
        if is_front {
            both.reverse();
        }
        all = emit.concat(&both[..], 0);
    }
    emit.give(result, write_parts_of(emit, &all));
    Ok(())
}

/// Whether a size is the same in all iterations, as it is one of the graphs around the Loop.
pub(super) fn is_outer(outer: &Scope<'_>, size: &Size<'_>) -> bool {
    match size {
        Size::Known(_) => true,
        Size::Axis { scope, value, .. } => outer.sees(scope, value),
    }
}
