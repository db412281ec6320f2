//! A list that a loop only appends to and that is concatenated after it, to a scan output.
//!
//! tract has no sequences. A scan output stacks the same values, but all of one shape, so this has
//! to be proved of the body: no size may depend on the step. The list may have no reader but
//! ConcatFromSequence, which becomes a Transpose and a Reshape of the stacked values, as far as
//! needed.
//!
//! ```text
//! list = Loop { list = SequenceInsert(list, h) }, y = ConcatFromSequence(list, axis 0)
//!   → all = Loop { scan output h }, y = Reshape(all, [steps * rows, columns])
//! ```

use crate::constant;
use crate::emit::Emit;
use crate::model::{self, GraphProto, NodeProto};
use crate::pass::{Context, Pass, PassInfo, Verdict};
use crate::report::Exactness;
use crate::scope::{Names, Scope};
use crate::sizes::{self, Size};

use super::list;

pub(super) const PASS: Pass = Pass {
    info: PassInfo {
        name: "appended-list",
        exactness: Exactness::Exact,
        about: "A list that a Loop only appends to, to a scan output",
        portable: false,
        fast: false,
    },
    find,
};

/// The inputs of a Loop, and of its body, before the loop-carried states.
const BEFORE_STATES: usize = 2;

/// A list among a Loop's states.
struct List {
    state: usize,
    /// The value appended in each iteration.
    appended: String,
    /// The body's node that appends.
    insert: usize,
}

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let Some(body) = node.graph("body").filter(|_| node.is("Loop")) else {
        return Verdict::Other;
    };
    let Some(list) = grown(scope, node, body) else {
        return Verdict::Other;
    };
    let given = node.output.get(list.state).map_or("", String::as_str);
    let readers: Vec<usize> = (0..scope.nodes.len())
        .filter(|&reader| scope.nodes[reader].inputs().any(|input| input == given))
        .collect();
    let joins = |&reader: &usize| scope.nodes[reader].is("ConcatFromSequence");
    if given.is_empty() || readers.len() != scope.uses(given) || !readers.iter().all(joins) {
        return Verdict::Left(
            "a sequence that it appends to has readers other than ConcatFromSequence: tract has no sequences"
                .to_owned(),
        );
    }
    let Some(rank) = one_rank(scope, node, body, &list.appended) else {
        return Verdict::Left(format!(
            "the tensors {} that it appends to a sequence are not provably of one shape: tract has no sequences",
            list.appended
        ));
    };
    let mut emit = Emit::new(given, scope.opset, names);
    let stacked = emit.name("stacked");
    write_loop(&mut emit, node, body, &list, &stacked);
    for reader in readers {
        if let Err(why) = join(&mut emit, &scope.nodes[reader], &stacked, rank) {
            return Verdict::Left(why);
        }
        emit.also(reader);
    }
    emit.finish("the same with a list that it appends to as a scan output".to_owned())
}

/// A list that a Loop starts empty and that its body only appends to, once per iteration.
fn grown(scope: &Scope<'_>, node: &NodeProto, body: &GraphProto) -> Option<List> {
    let states = node.input.len().checked_sub(BEFORE_STATES)?;
    let name = |value: Option<&model::ValueInfoProto>| value?.name.clone();
    (0..states).find_map(|state| {
        let initial = node.input(BEFORE_STATES + state)?;
        if !list::is_empty(scope, initial) {
            return None;
        }
        let old = name(body.input.get(BEFORE_STATES + state))?;
        let new = name(body.output.get(1 + state))?;
        let insert = body
            .node
            .iter()
            .position(|it| it.output.first() == Some(&new))?;
        let inner = Scope::graph(body, Some(scope), scope.opset);
        let inserting = &body.node[insert];
        let appends = inserting.is("SequenceInsert")
            && inserting.input(0) == Some(&old)
            && inserting.input(2).is_none()
            && inner.uses(&old) == 1
            && inner.uses(&new) == 1;
        let appended = inserting.input(1).filter(|_| appends)?.to_owned();
        Some(List {
            state,
            appended,
            insert,
        })
    })
}

/// The rank of a value of a Loop's body, if it provably has the same shape in all iterations.
fn one_rank(scope: &Scope<'_>, node: &NodeProto, body: &GraphProto, value: &str) -> Option<usize> {
    let inner = with_ranks(scope, node, body);
    let rank = sizes::rank(&inner, value)?;
    let is_fixed = |axis: usize| {
        let size = sizes::axis(&inner, value, axis);
        size.is_some_and(|size| is_fixed(scope, node, &inner, size))
    };
    (0..rank).all(is_fixed).then_some(rank)
}

/// A Loop's body, in which every state has the rank that it begins with, if each iteration keeps it.
fn with_ranks<'a>(scope: &'a Scope<'a>, node: &'a NodeProto, body: &'a GraphProto) -> Scope<'a> {
    let carried = body.inputs().skip(BEFORE_STATES);
    let states = carried.zip(body.outputs().skip(1));
    let initial = node.input.iter().skip(BEFORE_STATES);
    let mut assumed: Vec<(&str, &str, usize)> = std::iter::zip(states, initial)
        .filter_map(|((carried, updated), initial)| {
            Some((carried, updated, sizes::rank(scope, initial)?))
        })
        .collect();
    loop {
        let inner = Scope::graph(body, Some(scope), scope.opset);
        for &(carried, _, rank) in &assumed {
            inner.assume_rank(carried, rank);
        }
        let count = assumed.len();
        assumed.retain(|&(_, updated, rank)| sizes::rank(&inner, updated) == Some(rank));
        if assumed.len() == count {
            return inner;
        }
    }
}

/// Whether a size in a Loop's body is the same in all iterations: that of an outer value, or of a
/// state that no iteration resizes.
fn is_fixed<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    inner: &'a Scope<'a>,
    size: Size<'a>,
) -> bool {
    let Size::Axis {
        scope: own,
        value,
        axis,
    } = size
    else {
        return true;
    };
    if !own.is(inner) {
        return true;
    }
    let place = inner.inputs.iter().position(|&input| input == value);
    let size_after = || {
        let updated = inner.outputs.get(1 + place?.checked_sub(BEFORE_STATES)?)?;
        sizes::axis(inner, updated, axis)
    };
    let size_before = || sizes::axis(scope, node.input(place?)?, axis);
    size_after().is_some_and(|after| after == size || Some(after) == size_before())
}

/// Writes the Loop with a scan output in place of the list.
fn write_loop(
    emit: &mut Emit<'_>,
    node: &NodeProto,
    body: &GraphProto,
    list: &List,
    stacked: &str,
) {
    let mut node = node.clone();
    let mut body = body.clone();
    node.input.remove(BEFORE_STATES + list.state);
    body.input.remove(BEFORE_STATES + list.state);
    body.output.remove(1 + list.state);
    body.node.remove(list.insert);
    // A body must not output a value twice.
    let scan = emit.name("appended");
    body.node.push(model::node(
        "Identity",
        &[&list.appended],
        &[&scan],
        Vec::new(),
    ));
    let scans = body.output.len();
    node.output.remove(list.state);
    node.output.resize(scans - 1, String::new());
    node.output.push(stacked.to_owned());
    body.output.push(model::untyped(&scan));
    for graph in node.graphs_mut() {
        *graph = body.clone();
    }
    emit.copy(node);
}

/// Writes a ConcatFromSequence over the stacked elements.
fn join(emit: &mut Emit<'_>, node: &NodeProto, stacked: &str, rank: usize) -> Result<(), String> {
    let output = node.output.first().map_or("", String::as_str);
    let is_new = node.int("new_axis").or(0) == Some(1);
    let axis = node.int("axis").value().ok_or("its axis is not known")?;
    let of_result = rank + usize::from(is_new);
    let axis = constant::normal_axis(axis, of_result)
        .ok_or_else(|| format!("its axis is {axis}, but its output has {of_result} axes"))?;
    let axis = axis as i64;
    let mut value = stacked.to_owned();
    if axis != 0 {
        let all = rank as i64 + 1;
        // Moves the first axis in front of the axis of concatenation.
        let perm: Vec<i64> = (1..=axis).chain([0]).chain(axis + 1..all).collect();
        value = emit.op("Transpose", &[&value], vec![model::ints("perm", &perm)]);
    }
    if is_new {
        emit.write(&[output], "Identity", &[&value], Vec::new());
        return Ok(());
    }
    let shape = emit.plain("Shape", &[&value]);
    let [joined, size] = [axis, axis + 1].map(|at| emit.range(&shape, 0, at, at + 1));
    let joined = emit.plain("Mul", &[&joined, &size]);
    let behind = emit.range(&shape, 0, axis + 2, i64::MAX);
    let mut sizes = vec![joined.as_str(), &behind];
    let before = (axis > 0).then(|| emit.range(&shape, 0, 0, axis));
    sizes.splice(0..0, before.as_deref());
    let shape = emit.op("Concat", &sizes, vec![model::int("axis", 0)]);
    emit.write(&[output], "Reshape", &[&value, &shape], Vec::new());
    Ok(())
}
