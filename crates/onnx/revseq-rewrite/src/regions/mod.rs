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
use growth::{Grown, beginning};

use crate::model::ModelProto;
use crate::report::Report;
use crate::{Error, Options, rewrite_messages};

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

/// Finds what a [`rewrite`](crate::rewrite()) of a model replaces in its main graph.
///
/// `reads_captured` says whether a node counts as reading what its own graphs capture. If it does not, a
/// replacement that reads such a value takes over a node that reads it by itself, or the one that makes it.
/// `make` is called for each region, and returns what the caller makes of it or why it cannot: the nodes
/// then stay. What it made of regions that later became one is dropped.
///
/// # Errors
/// As [`rewrite`](crate::rewrite()).
pub fn regions<T>(
    mut model: ModelProto,
    options: &Options,
    reads_captured: bool,
    make: impl FnMut(&Region) -> Result<T, String>,
) -> Result<Regions<T>, Error> {
    let before = model.graph.as_option().map(Before::new);
    let before = before.unwrap_or_default();
    let report = rewrite_messages(&mut model, options)?;
    let graph = model.graph.as_option();
    let graph = graph.filter(|_| report.rewritten().next().is_some());
    let mut all = Regions {
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
        all.staying = search.run();
        let taken = search.taken.into_iter();
        all.regions = taken.map(|it| (it.region, it.made)).collect();
    }
    Ok(all)
}

/// A search for regions.
struct Search<'c, 'a, T, F> {
    change: &'c Change<'a>,
    /// The rewritten model.
    model: &'a ModelProto,
    make: F,
    taken: Vec<Taken<'a, T>>,
}

/// A region that is taken.
struct Taken<'a, T> {
    grown: Grown<'a>,
    region: Region,
    made: T,
}

impl<'a, T, F: FnMut(&Region) -> Result<T, String>> Search<'_, 'a, T, F> {
    /// Takes a region for each part, and returns the nodes of those that have none.
    fn run(&mut self) -> Vec<Staying> {
        let mut staying = Vec::new();
        let (planned, mut rest) = plan(self.change);
        for grown in planned {
            let parts = grown.parts.clone();
            match (self.take(grown), parts.first()) {
                (Err(reason), Some(&part)) if parts.len() == 1 => {
                    staying.push(self.stay(part, reason));
                }
                // Some of them may do.
                (Err(_), _) => rest.extend(parts),
                (Ok(()), _) => {}
            }
        }
        for part in rest {
            if let Err(reason) = self.take_part(part) {
                staying.push(self.stay(part, reason));
            }
        }
        staying
    }

    /// Takes a region, in place of those that it has met.
    fn take(&mut self, grown: Grown<'a>) -> Result<(), String> {
        let region = grown.region(self.change, self.model)?;
        let made = (self.make)(&region)?;
        let parts = &grown.parts;
        self.taken.retain(|it| it.grown.parts.is_disjoint(parts));
        self.taken.push(Taken {
            grown,
            region,
            made,
        });
        Ok(())
    }

    /// Takes the region of a part, and of those that it meets, unless one of these has it by now.
    fn take_part(&mut self, part: usize) -> Result<(), String> {
        let taken: Vec<&Grown<'a>> = self.taken.iter().map(|it| &it.grown).collect();
        if taken.iter().any(|it| it.parts.contains(&part)) {
            return Ok(());
        }
        let grown = Grown::of(self.change, BTreeSet::from([part]), &taken)?;
        self.take(grown)
    }

    fn stay(&self, part: usize, reason: String) -> Staying {
        let nodes = beginning(self.change, part);
        Staying { nodes, reason }
    }
}

/// The regions of parts, of which those that meet are one, and so are those of loops that are beside each
/// other, since each region is a call of the host; and the parts that do not grow beside them.
fn plan<'a>(change: &Change<'a>) -> (Vec<Grown<'a>>, Vec<usize>) {
    let mut regions: Vec<Grown<'a>> = Vec::new();
    let mut rest = Vec::new();
    for part in 0..change.parts.len() {
        if regions.iter().any(|it| it.parts.contains(&part)) {
            continue;
        }
        let others: Vec<&Grown<'a>> = regions.iter().collect();
        match Grown::of(change, BTreeSet::from([part]), &others) {
            Ok(grown) => {
                regions.retain(|it| it.parts.is_disjoint(&grown.parts));
                regions.push(grown);
            }
            Err(_) => rest.push(part),
        }
    }
    let has_loop = |it: &Grown<'_>| it.nodes.iter().any(|&node| change.replaces_graph(node));
    let mut next = 1;
    while next < regions.len() {
        let [one, other] = [&regions[next - 1], &regions[next]];
        let others: Vec<&Grown<'a>> = regions.iter().collect();
        let joined = match has_loop(one) && has_loop(other) {
            true => Grown::of(change, &one.parts | &other.parts, &others).ok(),
            false => None,
        };
        match joined {
            // It takes along what the rewrite leaves out, and nothing else.
            Some(joined) if change.are_gone(&joined.nodes - &(&one.nodes | &other.nodes)) => {
                let is_beside = |it: &Grown<'_>| it.parts.is_disjoint(&joined.parts);
                let place = regions[..next].iter().filter(|it| is_beside(it)).count();
                regions.retain(is_beside);
                regions.insert(place, joined);
                next = place + 1;
            }
            _ => next += 1,
        }
    }
    (regions, rest)
}
