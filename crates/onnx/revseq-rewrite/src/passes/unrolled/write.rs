//! Writes the layer of a chain.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::constant;
use crate::emit::Emit;
use crate::pass::Verdict;
use crate::passes::recurrent_loop::form::Form;
use crate::passes::recurrent_loop::layer::{Input, Layer, Layers, LoopOutput};
use crate::passes::recurrent_loop::rows::BroadcastRows;
use crate::passes::recurrent_loop::shape;
use crate::passes::recurrent_loop::write;
use crate::scope::{Names, Scope};
use crate::sizes::{self, Size};

use super::chain::Chain;
use super::slices::Step;
use super::{Graph, Host, MINIMUM_STEPS, is_product};

/// The verdict about a chain, and the node that it is about: the one that makes the first output.
pub(super) fn chain(
    graph: &Graph<'_>,
    chain: &Chain<'_, '_>,
    names: &Names,
    host: Host,
    replaced: &mut HashSet<usize>,
) -> (usize, Verdict) {
    let first = chain.cells[0].index;
    let verdict = plan(graph, chain, host, replaced).map(|plan| {
        replaced.extend(&plan.gone);
        plan.write(graph, chain, names, host)
    });
    (first, verdict.unwrap_or_else(|why| Err(why.into())))
}

/// Nodes that a chain becomes.
struct Plan<'a> {
    /// Its initial states, unless they are 0.
    hidden: Option<&'a str>,
    memory: Option<&'a str>,
    /// Their rows that may be more than those of the input.
    rows: Vec<BroadcastRows<'a>>,
    /// The nodes that go.
    gone: BTreeSet<usize>,
    /// The outputs that others read, by their place in the chain.
    outputs: Vec<(&'a str, usize)>,
    /// The last cell state, if others read it.
    last_memory: Option<&'a str>,
}

fn plan<'a>(
    graph: &Graph<'a>,
    chain: &Chain<'_, 'a>,
    host: Host,
    replaced: &HashSet<usize>,
) -> Result<Plan<'a>, String> {
    let scope = graph.scope;
    let (first, last) = (chain.cells[0], chain.cells[chain.cells.len() - 1]);
    if chain.cells.len() < MINIMUM_STEPS {
        let why = chain.end.clone().unwrap_or_else(|| {
            format!(
                "no cell with the same weights takes {} as its state",
                last.cell.output
            )
        });
        let count = chain.cells.len();
        return Err(format!(
            "only {count} steps follow each other, too few for a layer: {why}"
        ));
    }
    let Step { sequence, axis, .. } = first.step;
    let batch = sizes::axis(scope, sequence, 1 - axis)
        .ok_or_else(|| format!("the batch of its input {sequence} is not provable"))?;
    let mut rows = Vec::new();
    let mut begin = |name: &'a str| {
        rows.extend(begins(scope, name, batch, first.cell.units(), host)?);
        Ok::<_, String>((!constant::is_zero(scope, name)).then_some(name))
    };
    let hidden = begin(first.cell.hidden)?;
    let memory = match first.cell.memory {
        Some((old, _)) => begin(old)?,
        None => None,
    };
    let mut removed = Removed::default();
    let outputs: BTreeSet<usize> = chain.cells.iter().map(|cell| cell.index).collect();
    let last_memory = last.cell.memory.map(|(_, new)| new);
    let made_memory = last_memory.and_then(|new| Some(graph.scope.maker(new)?.0));
    let nodes: BTreeSet<usize> = chain
        .cells
        .iter()
        .flat_map(|cell| cell.nodes.iter().copied())
        .collect();
    for &index in nodes.iter().rev() {
        let node = &scope.nodes[index];
        let is_replaced = outputs.contains(&index) || Some(index) == made_memory;
        let mut values = node.outputs();
        if is_replaced || values.all(|value| removed.of(value) == scope.uses(value)) {
            removed.add(index, node.inputs());
        }
    }
    let kept = |index: &&usize| !removed.nodes.contains(index);
    if let Some(&kept) = nodes
        .iter()
        .find(|it| kept(it) && is_state_product(graph, chain, **it))
    {
        let node = &scope.nodes[kept];
        return Err(format!(
            "other nodes read what its step computes, so that {} has to stay",
            node.label(kept)
        ));
    }
    if removed.nodes.iter().any(|index| replaced.contains(index)) {
        return Err("its nodes are part of another layer".to_owned());
    }
    let is_read = |value: &str| scope.uses(value) > removed.of(value);
    let cells = chain.cells.iter().enumerate();
    let outputs = cells.filter_map(|(place, cell)| {
        let output = cell.cell.output;
        is_read(output).then_some((output, place))
    });
    Ok(Plan {
        hidden,
        memory,
        rows,
        outputs: outputs.collect(),
        last_memory: last_memory.filter(|value| is_read(value)),
        gone: removed.nodes,
    })
}

/// The nodes that go, and how often they read each value.
#[derive(Default)]
struct Removed<'a> {
    nodes: BTreeSet<usize>,
    values: HashMap<&'a str, usize>,
}

impl<'a> Removed<'a> {
    fn add(&mut self, index: usize, inputs: impl Iterator<Item = &'a str>) {
        self.nodes.insert(index);
        for input in inputs {
            *self.values.entry(input).or_default() += 1;
        }
    }

    fn of(&self, value: &str) -> usize {
        self.values.get(value).copied().unwrap_or(0)
    }
}

/// Whether a node multiplies a state of the chain.
fn is_state_product(graph: &Graph<'_>, chain: &Chain<'_, '_>, index: usize) -> bool {
    let node = &graph.scope.nodes[index];
    let reads = |value: Option<&str>| {
        value.is_some_and(|value| chain.cells.iter().any(|it| it.cell.hidden == value))
    };
    is_product(node) && reads(node.input(0))
}

/// Proves that an initial state is one row of units for each sequence, or for all. Returns its rows if
/// they may be more than those of the input.
fn begins<'a>(
    scope: &Scope<'_>,
    name: &'a str,
    batch: Size<'_>,
    units: usize,
    host: Host,
) -> Result<Option<BroadcastRows<'a>>, String> {
    let rows = BroadcastRows::beside(scope, name, 0, batch);
    if shape::may_begin(scope, name, batch, units) && (host != Host::Tract || rows.is_none()) {
        return Ok(rows);
    }
    Err(format!(
        "its state {name} does not provably begin with a row of units for each sequence"
    ))
}

impl Plan<'_> {
    fn write(
        &self,
        graph: &Graph<'_>,
        chain: &Chain<'_, '_>,
        names: &Names,
        host: Host,
    ) -> Verdict {
        let scope = graph.scope;
        let first = chain.cells[0];
        let prefix = scope.nodes[first.index].label(first.index);
        let emit = Emit::new(&prefix, scope.opset, names);
        let input = LayerInput::write(&emit, scope, chain);
        let outputs = self.outputs.iter().map(|&(value, place)| {
            let at = input.places[place];
            let is_last_alone = self.outputs.len() == 1 && place + 1 == chain.cells.len();
            let what = match is_last_alone {
                true => LoopOutput::Hidden(0),
                false => LoopOutput::Step { layer: 0, at },
            };
            (value, what)
        });
        let memory = self.last_memory.map(|value| (value, LoopOutput::Memory(0)));
        let layers = Layers {
            layers: vec![Layer {
                cell: first.cell.clone(),
                input: Input::Sequence {
                    value: &input.value,
                    time: first.step.axis,
                },
                hidden: self.hidden,
                memory: self.memory,
                rows: self.rows.clone(),
            }],
            backwards: input.backwards,
            steps: None,
            blends: Some(false),
            batch: sizes::axis(scope, first.step.sequence, 1 - first.step.axis),
            length: Some(Size::Known(chain.cells.len() as i64)),
            outputs: outputs.chain(memory).collect(),
        };
        let form = Form::Lengths {
            needs_batch: matches!(host, Host::Any { needs_batch: true }),
        };
        write::write(&emit, &layers, form);
        self.gone.iter().for_each(|&index| emit.also(index));
        let direction = if input.backwards {
            "reverse"
        } else {
            "forward"
        };
        let operator = first.cell.kind.operator();
        let end = match &chain.end {
            Some(why) => format!("; {why}"),
            None => String::new(),
        };
        emit.finish(format!(
            "{operator}, {direction}, of {} steps{}{end}",
            chain.cells.len(),
            layers.says_empty(form)
        ))
    }
}

/// The sequence that a layer reads.
struct LayerInput {
    value: String,
    backwards: bool,
    /// The place of each step in it.
    places: Vec<i64>,
}

impl LayerInput {
    fn write(emit: &Emit<'_>, scope: &Scope<'_>, chain: &Chain<'_, '_>) -> Self {
        let Step { sequence, axis, .. } = chain.cells[0].step;
        let steps: Vec<i64> = chain.cells.iter().map(|cell| cell.step.at).collect();
        let count = steps.len() as i64;
        let (first, last) = (steps[0], steps[steps.len() - 1]);
        let goes = |by: i64| steps.windows(2).all(|pair| pair[1] - pair[0] == by);
        let size = sizes::axis(scope, sequence, axis);
        let along = axis as i64;
        let (backwards, start) = match (goes(1), goes(-1)) {
            (true, _) => (false, first),
            (_, true) => (true, last),
            _ => {
                return Self {
                    value: emit.gather(sequence, &*steps, along),
                    backwards: false,
                    places: (0..count).collect(),
                };
            }
        };
        let value = match size {
            Some(Size::Known(size)) if start == 0 && size == count => sequence.to_owned(),
            Some(Size::Known(_)) => emit.range(sequence, along, start, start + count),
            // A shorter sequence stays an error.
            _ => emit.gather(sequence, &*Vec::from_iter(start..start + count), along),
        };
        let places = steps.iter().map(|step| step - start).collect();
        Self {
            value,
            backwards,
            places,
        }
    }
}
