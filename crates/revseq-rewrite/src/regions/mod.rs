//! The regions of a graph that a rewrite replaces, for hosts that hand out nodes instead of models.
//!
//! The model is rewritten as ever, and what changed is found by comparing the nodes. Nodes that are new and
//! read one another are one replacement, but for constants and sizes: each replacement has its own. The
//! nodes that made the same values before are its region, with those that nothing else needs. A replacement
//! may read only what its region reads, so a region grows by a reader of each such value, by the way that
//! takes along the fewest nodes that the rewrite left as they were. Where others read what these make, the
//! replacement makes it too. Regions that meet while they grow become one.
//!
//! ```text
//! x → Transpose → t → Loop → y             x → LSTM → y
//!                 └→ Relu → r
//! the Loop's region is {Transpose, Loop}, and its replacement {Transpose, LSTM}: x → t, y
//! ```

mod change;
mod growth;

use std::collections::BTreeSet;

use change::{Before, Change};
use growth::{Growth, Stop};

use crate::model::ModelProto;
use crate::report::Report;
use crate::{Error, Options, rewrite};

/// A part of a model's main graph, and what computes the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// The nodes, by their indices in the graph, in order. No path leads out of them and back.
    pub nodes: Vec<usize>,
    /// The values that the replacement reads and the nodes do too, but for constants.
    pub inputs: Vec<String>,
    /// The values that the nodes make and others read.
    pub outputs: Vec<String>,
    /// A model with these inputs and outputs, with their element types as far as the whole model says.
    /// Initializers that it takes over are those of the graph.
    pub replacement: ModelProto,
}

/// Nodes that could be replaced, and stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staying {
    /// The nodes, by their indices in the graph, in order.
    pub nodes: Vec<usize>,
    /// The reason, as a clause.
    pub reason: String,
}

/// The regions of a graph that a rewrite replaces.
#[derive(Clone, Debug)]
pub struct Regions<T> {
    /// Regions without a common node, each with what was made of it. The graph has no circle if each
    /// region is one node.
    pub regions: Vec<(Region, T)>,
    /// The nodes that could be replaced and belong to no region.
    pub staying: Vec<Staying>,
    /// The report of the rewrite.
    pub report: Report,
}

/// Finds what a [`rewrite`] of a model replaces in its main graph.
///
/// `reads_captured` says whether a node counts as reading what its own graphs capture. If it does not, a
/// replacement that reads such a value takes over a node that reads it by itself, or the one that makes it.
/// `make` is called for each region, and returns what the caller makes of it or why it cannot: the nodes
/// then stay. What it made of regions that later became one is dropped.
///
/// # Errors
/// As [`rewrite`].
pub fn regions<T>(
    mut model: ModelProto,
    options: &Options,
    reads_captured: bool,
    make: impl FnMut(&Region) -> Result<T, String>,
) -> Result<Regions<T>, Error> {
    let before = model.graph.as_option().map(Before::new);
    let before = before.unwrap_or_default();
    let report = rewrite(&mut model, options)?;
    let graph = model.graph.as_option();
    let graph = graph.filter(|_| report.rewritten().next().is_some());
    let mut found = Regions {
        regions: Vec::new(),
        staying: Vec::new(),
        report,
    };
    if let Some(graph) = graph {
        let change = Change::new(&before, graph, reads_captured);
        let mut search = Search {
            change: &change,
            model: &model,
            make,
            taken: Vec::new(),
        };
        found.staying = search.run();
        let taken = search.taken.into_iter();
        found.regions = taken.map(|it| (it.region, it.made)).collect();
    }
    Ok(found)
}

/// A search for regions.
struct Search<'c, 'a, T, F> {
    change: &'c Change<'a>,
    /// The rewritten model.
    model: &'a ModelProto,
    make: F,
    taken: Vec<Taken<T>>,
}

/// Parts that are one region, and its nodes.
type Grown = (BTreeSet<usize>, BTreeSet<usize>);

/// A region that is taken.
struct Taken<T> {
    grown: Grown,
    region: Region,
    made: T,
}

impl<T, F: FnMut(&Region) -> Result<T, String>> Search<'_, '_, T, F> {
    /// Takes a region for each part, and returns the nodes of those that have none.
    fn run(&mut self) -> Vec<Staying> {
        let mut staying = Vec::new();
        for parts in plan(self.change) {
            match self.take(parts.clone()) {
                // Some of them may do.
                Err(_) if parts.len() > 1 => {
                    let parts = parts.into_iter().map(|part| BTreeSet::from([part]));
                    staying.extend(parts.filter_map(|part| self.take(part).err()));
                }
                taken => staying.extend(taken.err()),
            }
        }
        staying
    }

    /// Takes the region of parts, and of those that it meets.
    fn take(&mut self, parts: BTreeSet<usize>) -> Result<(), Staying> {
        if self.taken.iter().any(|it| parts.is_subset(&it.grown.0)) {
            return Ok(());
        }
        let others: Vec<&Grown> = self.taken.iter().map(|it| &it.grown).collect();
        let grown = grow(self.change, parts.clone(), &others);
        let taken = grown.and_then(|(grown, growth)| {
            let region = growth.region(self.model)?;
            let made = (self.make)(&region)?;
            Ok(Taken {
                grown,
                region,
                made,
            })
        });
        match taken {
            Ok(taken) => {
                let (parts, _) = &taken.grown;
                self.taken.retain(|it| it.grown.0.is_disjoint(parts));
                self.taken.push(taken);
                Ok(())
            }
            Err(reason) => {
                let nodes = Growth::new(self.change, &parts, Vec::new()).nodes;
                let nodes = nodes.into_iter().collect();
                Err(Staying { nodes, reason })
            }
        }
    }
}

/// The parts that are to be regions together: those that meet, and those of loops that are beside each other,
/// since each region is a call of the host.
fn plan(change: &Change<'_>) -> Vec<BTreeSet<usize>> {
    let mut sets: Vec<Grown> = Vec::new();
    for part in 0..change.parts.len() {
        if sets.iter().any(|(parts, _)| parts.contains(&part)) {
            continue;
        }
        let others: Vec<&Grown> = sets.iter().collect();
        // One that does not grow says why when it is taken.
        let grown = grow(change, BTreeSet::from([part]), &others);
        let grown = grown.map_or_else(|_| ([part].into(), BTreeSet::new()), |(grown, _)| grown);
        sets.retain(|(parts, _)| parts.is_disjoint(&grown.0));
        sets.push(grown);
    }
    let has_loop = |(_, nodes): &Grown| nodes.iter().any(|&node| change.replaces_graph(node));
    let mut next = 1;
    while next < sets.len() {
        let [one, other] = [&sets[next - 1], &sets[next]];
        let parts = &one.0 | &other.0;
        let others: Vec<&Grown> = sets.iter().collect();
        let joined = match has_loop(one) && has_loop(other) {
            true => grow(change, parts, &others).ok(),
            false => None,
        };
        match joined {
            // It takes along what the rewrite leaves out, and nothing else.
            Some((joined, _)) if change.are_gone(&joined.1 - &(&one.1 | &other.1)) => {
                sets[next - 1] = joined;
                sets.remove(next);
            }
            _ => next += 1,
        }
    }
    sets.into_iter().map(|(parts, _)| parts).collect()
}

/// The region of parts and of those that it meets, beside others.
fn grow<'c, 'a>(
    change: &'c Change<'a>,
    mut parts: BTreeSet<usize>,
    others: &[&'c Grown],
) -> Result<(Grown, Growth<'c, 'a>), String> {
    loop {
        let others = others.iter().copied();
        let others = others.filter(|(it, _)| it.is_disjoint(&parts)).collect();
        let mut growth = Growth::new(change, &parts, others);
        match growth.run() {
            Ok(()) => return Ok(((parts, growth.nodes.clone()), growth)),
            Err(Stop::Meets(met)) => parts.extend(met),
            Err(Stop::Stays(reason)) => return Err(reason),
        }
    }
}
