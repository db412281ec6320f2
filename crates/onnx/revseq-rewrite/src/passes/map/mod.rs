//! Loops and Scans that map every step on its own, to their body over all steps at once.
//!
//! Keras' TimeDistributed, `tf.map_fn`, `vectorized_map` and `jax.lax.map` become such loops: they
//! carry nothing but counters, read a step of each sequence and output a value for each step. The
//! steps become a leading axis of every value, so that each operator runs once.
//!
//! ```text
//! now = Gather(x, step)              x: [steps, batch, 3]
//! y = Tanh(MatMul(now, w))      =>   y = Tanh(MatMul(x, w))
//! ```
//!
//! `values` knows which values of the body depend on the step, and brings them into the forms that
//! operators need. `operators` has the operators, with `products`, `shapes` and `windows`.

mod operators;
pub(super) mod partial;
mod products;
mod refusal;
mod shapes;
mod values;
mod windows;

use std::collections::HashSet;

use crate::constant::normal_axis;
use crate::emit::Emit;
use crate::model::NodeProto;
use crate::pass::{At, Other, Pass, Verdict};
use crate::passes::steps::body::{Body, ScanOutput};
use crate::passes::steps::{self, trips};
use crate::scope::Scope;

use values::{Stepped, Values};

pub(super) const PASS: Pass = Pass::rounding(
    "map",
    "Loops and Scans that map each step on its own, to their body over all steps",
    find,
)
.fast();

/// The first opset in which all operators broadcast as they do since.
const OPSET: i64 = 9;

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    // The pass of recurrent layers reports what holds for all loops.
    let graph = steps::graph_of(scope, node).map_err(|_| Other)?;
    let inner = Scope::form_of_body(&graph, scope, node);
    let mut body = Body::of(scope, node, &inner).map_err(|_| Other)?;
    let results = body.scanned.iter().copied();
    let results: Vec<ScanOutput<'_>> = results.filter(|it| scope.uses(it.result) > 0).collect();
    let is_read = body.states.iter().any(|it| scope.uses(it.last) > 0);
    let needed = needed(&inner, results.iter().map(|it| it.value));
    let is_carried = body.states.iter().any(|it| needed.contains(it.carried));
    if is_read || is_carried || results.is_empty() {
        return Err(Other);
    }
    let opset = scope.opset;
    if opset < OPSET {
        return Err(format!("version {opset} of ONNX's operators is below {OPSET}").into());
    }
    body.steps = trips::count(&body, node)?;
    let emit = at.emit(results[0].result);
    write(&body, &results, &needed, &emit)?;
    emit.finish("its body over all steps at once")
}

/// The names of the body's values from which others follow.
fn needed<'a>(inner: &Scope<'a>, values: impl Iterator<Item = &'a str>) -> HashSet<&'a str> {
    let mut needed: HashSet<&str> = values.collect();
    for node in inner.nodes.iter().rev() {
        if node.outputs().any(|output| needed.contains(output)) {
            needed.extend(node.inputs());
        }
    }
    needed
}

/// Writes the body over all steps.
fn write<'a>(
    body: &'a Body<'a>,
    results: &[ScanOutput<'a>],
    needed: &HashSet<&str>,
    emit: &Emit<'_>,
) -> Result<(), String> {
    let mut values = Values::new(body, emit, operators::write);
    let is_needed = |node: &&NodeProto| node.outputs().any(|output| needed.contains(output));
    for node in body.inner.nodes.iter().filter(is_needed) {
        // A counter is written only where its numbers are computed with.
        if !node.outputs().any(|output| body.counter(output).is_some()) {
            operators::write(&mut values, node)?;
        }
    }
    for result in results {
        let value = values.stepped(result.value)?;
        emit.same(result.result, &in_place(emit, value, result)?);
    }
    for state in &body.unchanged {
        if body.outer.uses(state.last) > 0 {
            emit.same(state.last, state.initial);
        }
    }
    Ok(())
}

/// A value of all steps with the steps where a scan output has them.
fn in_place(emit: &Emit<'_>, value: Stepped, result: &ScanOutput<'_>) -> Result<String, String> {
    let Stepped { mut name, rank } = value;
    let axis = normal_axis(result.axis, rank + 1)
        .ok_or_else(|| format!("its output {} has no axis {}", result.result, result.axis))?;
    if result.backwards {
        name = emit.flip(&name, 0);
    }
    Ok(emit.move_axis(&name, rank + 1, 0, axis))
}
