//! The integers that a model accepts: lengths within their axis, indices within the indexed axis.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::Result;
use revseq_onnx::model::{GraphProto, NodeProto};

use super::report;
use crate::model::walk::{self, Site};
use crate::model::{Bindings, Model};

/// The greatest value that each input of lengths or indices may hold: the least bound of the
/// nodes that read it. The least value is 0.
///
/// # Errors
/// The errors of [`walk`](walk::walk).
pub(super) fn highest(model: &Model, bindings: &Bindings) -> Result<BTreeMap<String, u64>> {
    // A function's names are its own.
    let mut nodes = HashSet::new();
    collect(model.graph(), &mut nodes);
    let inputs = model.inputs().into_iter();
    // The inputs whose elements, and no others, a value holds.
    let mut origins: HashMap<&str, BTreeSet<String>> = HashMap::new();
    let inputs: Vec<String> = inputs.map(|input| input.name).collect();
    for input in &inputs {
        origins.insert(input, BTreeSet::from([input.clone()]));
    }
    let mut highest: BTreeMap<String, u64> = BTreeMap::new();
    walk::walk(model, bindings, |site| {
        if !nodes.contains(&std::ptr::from_ref(site.node)) {
            return;
        }
        if let Some((index, most)) = limit(&site)
            && let Some(name) = site.node.input.get(index)
        {
            for input in origins.get(name.as_str()).into_iter().flatten() {
                let entry = highest.entry(input.clone()).or_insert(most);
                *entry = most.min(*entry);
            }
        }
        let moved = moved_inputs(site.node);
        let moved = moved.iter().filter_map(|name| origins.get(name.as_str()));
        let moved: BTreeSet<String> = moved.flatten().cloned().collect();
        if !moved.is_empty() {
            for output in site.node.outputs() {
                origins.insert(output, moved.clone());
            }
        }
    })?;
    Ok(highest)
}

/// The nodes of a graph and of the graphs in it.
fn collect(graph: &GraphProto, nodes: &mut HashSet<*const NodeProto>) {
    for node in &graph.node {
        nodes.insert(std::ptr::from_ref(node));
        node.graphs().for_each(|inner| collect(inner, nodes));
    }
}

/// The inputs of a node whose elements its outputs hold, if it does nothing else with them.
fn moved_inputs(node: &NodeProto) -> &[String] {
    let inputs = node.input.as_slice();
    if !node.domain().is_empty() {
        return &[];
    }
    match node.op() {
        "Cast" | "CastLike" | "Expand" | "Flatten" | "Gather" | "Identity" | "Reshape"
        | "Slice" | "Split" | "Squeeze" | "Tile" | "Transpose" | "Unsqueeze" => {
            inputs.get(..1).unwrap_or_default()
        }
        "Concat" => inputs,
        "Where" => inputs.get(1..).unwrap_or_default(),
        _ => &[],
    }
}

/// The input of a node that holds lengths or indices, and their greatest value, if that is known.
fn limit(site: &Site<'_>) -> Option<(usize, u64)> {
    let attribute = |name: &str, default: i64| {
        let mut attributes = site.attributes.iter();
        let found = attributes.find(|(found, _)| *found == name);
        found.map_or(default, |(_, attribute)| attribute.i.unwrap_or_default())
    };
    let data = site.inputs.first()?.shape.as_ref()?;
    // The size of the data's axis; a negative one counts from the end.
    let size = |axis: i64| {
        let axis = match axis < 0 {
            true => data
                .len()
                .checked_sub(usize::try_from(axis.unsigned_abs()).ok()?)?,
            false => usize::try_from(axis).ok()?,
        };
        data.get(axis)?.size()
    };
    if let Some(operator) = report::operator(site) {
        let (axis, _) = operator.ok()?.axes();
        return Some((1, data.get(axis)?.size()?));
    }
    if !site.node.domain().is_empty() {
        return None;
    }
    match site.node.op() {
        "Gather" | "GatherElements" | "ScatterElements" | "Scatter" => {
            Some((1, size(attribute("axis", 0))?.checked_sub(1)?))
        }
        "GatherND" | "ScatterND" => {
            let first = attribute("batch_dims", 0);
            let indices = site.inputs.get(1)?.shape.as_ref()?;
            let count = i64::try_from(indices.last()?.size()?).ok()?;
            let sizes = (first..first.checked_add(count)?).map(&size);
            let least = sizes.collect::<Option<Vec<u64>>>()?.into_iter().min()?;
            Some((1, least.checked_sub(1)?))
        }
        "LSTM" | "GRU" | "RNN" => Some((4, size(attribute("layout", 0))?)),
        _ => None,
    }
}
