//! Proves sizes: "this is the length of that axis".
//!
//! Shapes are computed in tensors, so a tensor of sizes is followed with its axes and element order
//! through every operator that moves its elements. Only a tensor of rank 1 is a vector.

mod arithmetic;
mod branches;
mod einsum;
mod element;
mod loops;
mod matmul;
mod node;
mod one_step;
mod progression;
mod reshape;
mod truth;
mod window;

use crate::constant::{self, Range};
use crate::model::{Attribute, NodeProto, ValueInfoProto, declared_sizes};
use crate::operators::{SAME_RANK_OF_MICROSOFT, Sizes, sizes_of};
use crate::scope::{Followed, ProvedSize, Scope, Source, names_of_sizes};
pub use einsum::Equation;
pub use element::{element_at, every_element, origin, scalar};
pub use loops::LoopBody;
use node::node_axis;
pub use progression::{Progression, progression};
pub use truth::truth;

/// The largest depth to which values are followed at once, so that no model overflows the stack.
const MAXIMUM_DEPTH: usize = 128;

/// The depth below the largest one at which a value may be asked for first, to be known before the question is
/// asked again.
const NEAR: usize = 8;

/// How often a question is asked again once what was too deep for it is known, so that none takes forever.
const MAXIMUM_REPEATS: usize = 8;

/// The most questions within each other that are asked so, for the stack's sake.
const MAXIMUM_NESTING: usize = 64;

/// Number of values that are visited per query, so that none takes forever.
const MAXIMUM_VALUES: usize = 4096;

/// The most axes that are visited: a model can name any number, but no runtime takes more.
pub const MAXIMUM_RANK: usize = 64;

impl Scope<'_> {
    /// Asks for a value, which a question or the answer to another one needs; `None` beyond a limit. A question that
    /// goes too deep is asked again once the first value at that depth has its answer, which the main graph keeps.
    fn visit<T>(&self, ask: impl Fn() -> Option<T>) -> Option<T> {
        let main = self.outermost();
        let Followed { depth, nesting, .. } = &main.followed();
        let level = nesting.get();
        if depth.get() > 0 || level == MAXIMUM_NESTING {
            return self.visit_once(ask);
        }
        for _ in 0..MAXIMUM_REPEATS {
            let answer = self.visit_once(&ask);
            let deepest = main.followed().deepest.take();
            let Some((name, axis)) = deepest.filter(|_| main.followed().is_cut.get()) else {
                return answer;
            };
            nesting.set(level + 1);
            let is_known = match axis {
                Some(axis) => {
                    let _ = self::axis(main, &name, axis);
                    main.proved.borrow().axes.contains_key(&(name, axis))
                }
                None => {
                    let _ = self::rank(main, &name);
                    main.proved.borrow().ranks.contains_key(&name)
                }
            };
            nesting.set(level);
            if !is_known {
                return answer;
            }
        }
        self.visit_once(ask)
    }

    /// Notes the first value near the largest depth of which an axis or the rank is asked for: others are not kept.
    fn note(&self, name: &str, axis: Option<usize>) {
        let Followed { depth, deepest, .. } = self.followed();
        if depth.get() >= MAXIMUM_DEPTH - NEAR && self.parent.is_none() {
            let mut deepest = deepest.borrow_mut();
            deepest.get_or_insert_with(|| (name.to_owned(), axis));
        }
    }

    fn visit_once<T>(&self, ask: impl Fn() -> Option<T>) -> Option<T> {
        let Followed {
            depth,
            values,
            is_cut,
            ..
        } = self.followed();
        let before = depth.get();
        if before == 0 {
            values.set(0);
            is_cut.set(false);
        }
        if before == MAXIMUM_DEPTH || values.get() == MAXIMUM_VALUES {
            is_cut.set(true);
            return None;
        }
        depth.set(before + 1);
        values.set(values.get() + 1);
        let answer = ask();
        depth.set(before);
        answer
    }
}

/// A number that is known, or known to be an axis's length. Equal sizes are the same in every run.
#[derive(Clone, Copy)]
pub enum Size<'a> {
    /// A number.
    Known(i64),
    /// The length of an axis of a value.
    Axis {
        /// The graph that defines the value.
        scope: &'a Scope<'a>,
        /// The value's name.
        value: &'a str,
        /// The axis, from the front.
        axis: usize,
    },
}

impl PartialEq for Size<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(one), Self::Known(other)) => one == other,
            (
                Self::Axis { scope, value, axis },
                Self::Axis {
                    scope: other_scope,
                    value: other_value,
                    axis: other_axis,
                },
            ) => std::ptr::eq(*scope, *other_scope) && value == other_value && axis == other_axis,
            _ => false,
        }
    }
}

impl<'a> Size<'a> {
    /// Returns the number; `None` if only an axis is known.
    #[must_use]
    pub fn number(self) -> Option<i64> {
        match self {
            Self::Known(number) => Some(number),
            Self::Axis { .. } => None,
        }
    }

    /// Returns the size in the form that a graph caches; `None` if its axis is not one of that
    /// graph or of those around it.
    pub(crate) fn proved(&self, graph: &Scope<'_>) -> Option<ProvedSize> {
        Some(match *self {
            Self::Known(size) => ProvedSize::Known(size),
            Self::Axis { scope, value, axis } => ProvedSize::Axis {
                levels: graph.levels_to(scope)?,
                value: value.to_owned(),
                axis,
            },
        })
    }

    /// Takes an axis of a value of a graph to have this length, as [`Scope::assume_rank`] takes it
    /// to have a rank.
    pub fn assume(&self, graph: &Scope<'_>, name: &str, axis: usize) {
        if let Some(size) = self.proved(graph) {
            let mut proved = graph.proved.borrow_mut();
            proved.axes.insert((name.to_owned(), axis), size);
        }
    }

    /// Returns the size that the form cached by a graph stands for.
    fn of_proved(graph: &'a Scope<'a>, proved: &ProvedSize) -> Option<Self> {
        Some(match *proved {
            ProvedSize::Known(size) => Self::Known(size),
            ProvedSize::Axis {
                levels,
                ref value,
                axis,
            } => {
                let scope = graph.around(levels)?;
                let value = scope.own_name(value)?;
                Self::Axis { scope, value, axis }
            }
        })
    }
}

/// The number of a value's axes.
#[must_use]
pub fn rank(scope: &Scope<'_>, name: &str) -> Option<usize> {
    scope.note(name, None);
    scope.visit(|| rank_of(scope, name))
}

fn rank_of(scope: &Scope<'_>, name: &str) -> Option<usize> {
    let (inner, source) = scope.source(name)?;
    if let Some(&known) = inner.proved.borrow().ranks.get(name) {
        return known;
    }
    let proved = match source {
        Source::Initializer(tensor) => Some(tensor.dims.len()),
        Source::Input(declared) => match enforced(inner, declared) {
            Some(declared) => declared_sizes(declared).map(|sizes| sizes.len()),
            None => loops::rank_of_input(inner, name),
        },
        Source::Node { node, output } => node_rank(inner, node, output),
    };
    let rank = proved.filter(|&rank| rank <= MAXIMUM_RANK);
    if !scope.followed().is_cut.get() {
        let mut proved = inner.proved.borrow_mut();
        proved.ranks.insert(name.to_owned(), rank);
    }
    rank
}

/// The declaration of an input, if it is one of the main graph: runtimes check those alone. What is declared
/// of values between nodes, and of the inputs of bodies, may be stale.
fn enforced<'a>(
    scope: &Scope<'_>,
    declared: Option<&'a ValueInfoProto>,
) -> Option<&'a ValueInfoProto> {
    declared.filter(|_| scope.parent.is_none())
}

fn node_rank(scope: &Scope<'_>, node: &NodeProto, output: usize) -> Option<usize> {
    let of_input = |index: usize| self::rank(scope, node.input(index)?);
    match (node.domain(), node.op(), output) {
        ("", "LSTM" | "GRU" | "RNN", output)
        | ("revseq", "MaskedLSTM" | "MaskedGRU" | "MaskedRNN", output) => {
            Some(if output == 0 { 4 } else { 3 })
        }
        ("", "Split" | "TopK", _) => of_input(0),
        // The weights of a convolution are a constant, as a rule: the shortest proof.
        ("", "Conv" | "ConvInteger" | "ConvTranspose", 0) | ("com.microsoft", "FusedConv", 0) => {
            of_input(1).or_else(|| of_input(0))
        }
        ("" | "com.microsoft", "QLinearConv", 0) => of_input(3).or_else(|| of_input(0)),
        ("com.microsoft", "FusedMatMul" | "TransposeMatMul", 0) => {
            matmul::rank_of([of_input(0)?, of_input(1)?])
        }
        ("com.microsoft", op, 0) if SAME_RANK_OF_MICROSOFT.contains(&op) => of_input(0),
        ("", "Loop", output) => loops::rank_of_output(scope, node, output),
        ("", "Scan", output) => loops::rank_of_scan_output(scope, node, output),
        ("", "If", output) => branches::rank_of_output(scope, node, output),
        ("", op, 0) => match op {
            "Constant" => Some(constant::constant_sizes(node)?.len()),
            "Transpose" => match node.ints("perm") {
                Attribute::Value(perm) => Some(perm.len()),
                _ => of_input(0),
            },
            "Range" | "Shape" => Some(1),
            "SequenceLength" | "Size" => Some(0),
            "Flatten" | "Gemm" | "MelWeightMatrix" | "Multinomial" | "NonMaxSuppression"
            | "NonZero" => Some(2),
            "STFT" => Some(4),
            "ConstantOfShape" => length(scope, node.input(0)?),
            "Reshape" => length(scope, node.input(1)?),
            "Expand" => Some(of_input(0)?.max(length(scope, node.input(1)?)?)),
            "Unsqueeze" => Some(of_input(0)? + constant::axes(scope, node)?.len()),
            "Squeeze" => of_input(0)?.checked_sub(self::squeezed(scope, node)?.len()),
            "Slice" | "Concat" => of_input(0),
            "Gather" => (of_input(0)? + of_input(1)?).checked_sub(1),
            "MatMul" | "MatMulInteger" => matmul::rank_of([of_input(0)?, of_input(1)?]),
            "QLinearMatMul" => matmul::rank_of([of_input(0)?, of_input(3)?]),
            "Einsum" => einsum::rank_of(scope, node),
            "GatherElements" => of_input(1),
            "GatherND" => {
                let indices = self::axis(scope, node.input(1)?, of_input(1)?.checked_sub(1)?)?;
                let taken = usize::try_from(indices.number()?).ok()?;
                let shared = usize::try_from(node.int("batch_dims").or(0)?).ok()?;
                (of_input(0)? + of_input(1)?).checked_sub(taken + shared + 1)
            }
            "OneHot" => Some(of_input(0)? + 1),
            "Compress" | "Unique" => match node.int("axis") {
                Attribute::Absent => Some(1),
                _ => of_input(0),
            },
            "ArgMax" | "ArgMin" => {
                of_input(0)?.checked_sub(usize::from(node.int("keepdims").or(1)? == 0))
            }
            op => match sizes_of(op) {
                Sizes::Reduced => match node.int("keepdims").or(1)? {
                    0 => of_input(0)?.checked_sub(reduced(scope, node)?.len()),
                    _ => of_input(0),
                },
                Sizes::Elementwise | Sizes::OfInput | Sizes::RankOfInput | Sizes::Windowed => {
                    of_input(0)
                }
                Sizes::Broadcast => node
                    .inputs()
                    .try_fold(0, |most, input| Some(self::rank(scope, input)?.max(most))),
                Sizes::Other => None,
            },
        },
        _ => None,
    }
}

/// The number of elements of a vector.
fn length(scope: &Scope<'_>, name: &str) -> Option<usize> {
    if self::rank(scope, name)? != 1 {
        return None;
    }
    usize::try_from(self::axis(scope, name, 0)?.number()?).ok()
}

/// The elements of a short vector that is computed from known sizes.
fn known_vector(scope: &Scope<'_>, name: &str) -> Option<Vec<i64>> {
    let length = length(scope, name).filter(|&length| length <= MAXIMUM_RANK)?;
    let element = |place| element_at(scope, name, &[place])?.number();
    (0..length).map(element).collect()
}

/// The axes that a Squeeze removes, counted from the front.
#[must_use]
pub fn squeezed(scope: &Scope<'_>, node: &NodeProto) -> Option<Vec<usize>> {
    let input = node.input(0)?;
    let rank = self::rank(scope, input)?;
    let listed = constant::axes(scope, node)?;
    if !listed.is_empty() {
        return constant::normal_axes(&listed, rank);
    }
    // All axes of size 1; every size has to be known.
    let mut removed = Vec::new();
    for axis in 0..rank {
        if self::axis(scope, input, axis)?.number()? == 1 {
            removed.push(axis);
        }
    }
    Some(removed)
}

/// The axes that an Unsqueeze adds, counted from the front, and the output's rank.
#[must_use]
pub fn unsqueezed(scope: &Scope<'_>, node: &NodeProto) -> Option<(Vec<usize>, usize)> {
    let added = constant::axes(scope, node)?;
    let rank = self::rank(scope, node.input(0)?)? + added.len();
    Some((constant::normal_axes(&added, rank)?, rank))
}

/// The axis of its input that an axis of the output of a Squeeze, Transpose or Unsqueeze is; `None` for one
/// that it adds.
#[must_use]
pub fn axis_of_input(scope: &Scope<'_>, node: &NodeProto, axis: usize) -> Option<usize> {
    match node.op() {
        "Squeeze" => kept_axis(
            self::rank(scope, node.input(0)?)?,
            &self::squeezed(scope, node)?,
            axis,
        ),
        "Transpose" => transposed(scope, node, axis),
        "Unsqueeze" => {
            let (added, rank) = self::unsqueezed(scope, node)?;
            let before = (0..axis).filter(|axis| !added.contains(axis)).count();
            (axis < rank && !added.contains(&axis)).then_some(before)
        }
        _ => None,
    }
}

/// The axis of a Transpose's input that becomes this one; without an order, the axes are reversed.
fn transposed(scope: &Scope<'_>, node: &NodeProto, axis: usize) -> Option<usize> {
    match node.ints("perm") {
        Attribute::Value(perm) => usize::try_from(*perm.get(axis)?).ok(),
        Attribute::Absent => {
            let rank = self::rank(scope, node.input(0)?)?;
            rank.checked_sub(axis + 1)
        }
        Attribute::Reference => None,
    }
}

/// The axes of a reduction, counted from the front.
fn reduced(scope: &Scope<'_>, node: &NodeProto) -> Option<Vec<usize>> {
    let rank = self::rank(scope, node.input(0)?)?;
    let listed = constant::axes(scope, node)?;
    if listed.is_empty() && node.int("noop_with_empty_axes").or(0)? == 0 {
        return Some((0..rank).collect());
    }
    constant::normal_axes(&listed, rank)
}

/// The input axis of an output axis, if an operator removes some of `rank` axes.
fn kept_axis(rank: usize, removed: &[usize], axis: usize) -> Option<usize> {
    (0..rank).filter(|axis| !removed.contains(axis)).nth(axis)
}

/// The length of an axis, traced to its origin. A proof through a Reshape holds only if its output
/// is not empty.
#[must_use]
pub fn axis<'a>(scope: &'a Scope<'a>, name: &str, axis: usize) -> Option<Size<'a>> {
    scope.note(name, Some(axis));
    scope.visit(|| (axis < MAXIMUM_RANK).then(|| axis_of(scope, name, axis))?)
}

fn axis_of<'a>(scope: &'a Scope<'a>, name: &str, axis: usize) -> Option<Size<'a>> {
    let (scope, source) = scope.source(name)?;
    if let Some(known) = scope.proved.borrow().axes.get(&(name.to_owned(), axis)) {
        return Size::of_proved(scope, known);
    }
    let from = |size: Option<i64>| size.map(Size::Known);
    let (found, value): (Option<Size<'a>>, &'a str) = match source {
        Source::Initializer(tensor) => {
            return from(tensor.dims.get(axis).copied());
        }
        Source::Input(declared) => {
            let declared = enforced(scope, declared);
            let size = declared.and_then(|value| *declared_sizes(value)?.get(axis)?);
            let named = declared.and_then(|value| *names_of_sizes(value)?.get(axis)?);
            match named.and_then(|name| scope.input_with_size(name)) {
                Some((value, axis)) => (Some(Size::Axis { scope, value, axis }), value),
                None => (from(size), scope.input(name)?),
            }
        }
        Source::Node { node, output } => (
            node_axis(scope, node, output, axis),
            node.output.get(output)?,
        ),
    };
    let size = found.unwrap_or(Size::Axis { scope, value, axis });
    if !scope.followed().is_cut.get()
        && let Some(proved) = size.proved(scope)
    {
        let key = (name.to_owned(), axis);
        scope.proved.borrow_mut().axes.insert(key, proved);
    }
    Some(size)
}

fn slice_axis<'a>(scope: &'a Scope<'a>, node: &'a NodeProto, axis: usize) -> Option<Size<'a>> {
    let mut size = self::axis(scope, node.input(0)?, axis)?;
    let computed = || ranges_of_sizes(scope, node);
    let Some(ranges) = constant::ranges(scope, node).or_else(computed) else {
        return match may_slice(scope, node, axis)? {
            true => one_step::size(scope, node, axis),
            false => Some(size),
        };
    };
    for range in ranges {
        let sliced = match usize::try_from(range.axis) {
            Ok(sliced) => sliced,
            Err(_) => {
                let rank = self::rank(scope, node.input(0)?)?;
                constant::normal_axis(range.axis, rank)?
            }
        };
        if sliced == axis && !range.is_whole() && !range.is_flip() {
            size = Size::Known(range.on(size.number()?).1);
        }
    }
    Some(size)
}

/// The ranges of a Slice whose bounds are computed from known sizes.
fn ranges_of_sizes(scope: &Scope<'_>, node: &NodeProto) -> Option<Vec<Range>> {
    constant::ranges_by(node, |name| known_vector(scope, name))
}

/// Returns the ranges of a Slice with steps of 1, on axes of these sizes: axis, start, end. They may
/// be computed from sizes.
#[must_use]
pub fn slice_ranges(
    scope: &Scope<'_>,
    node: &NodeProto,
    sizes: &[usize],
) -> Option<Vec<(usize, usize, usize)>> {
    let computed = || ranges_of_sizes(scope, node);
    let ranges = constant::ranges(scope, node).or_else(computed)?;
    constant::of_one(ranges, sizes)
}

/// Whether a Slice with bounds that are not known may shorten an axis; `None` if its axes are not
/// known.
fn may_slice(scope: &Scope<'_>, node: &NodeProto, axis: usize) -> Option<bool> {
    let Some(axes) = node.input(3) else {
        return Some(axis < length(scope, node.input(1)?)?);
    };
    let rank = self::rank(scope, node.input(0)?)?;
    let axes = constant::normal_axes(&constant::ints(scope, axes)?, rank)?;
    Some(axes.contains(&axis))
}

/// The first and the last size in a Shape's output, as a half-open range.
fn shape_range(scope: &Scope<'_>, node: &NodeProto) -> Option<(i64, i64)> {
    let rank = self::rank(scope, node.input(0)?)? as i64;
    let place = |place: i64| (if place < 0 { place + rank } else { place }).clamp(0, rank);
    let (start, end) = (node.int("start").or(0)?, node.int("end").or(rank)?);
    Some((place(start), place(end)))
}

/// An output size of an Expand: input and shape, broadcast.
fn expand_axis<'a>(scope: &'a Scope<'a>, node: &'a NodeProto, axis: usize) -> Option<Size<'a>> {
    let (input, shape) = (node.input(0)?, node.input(1)?);
    let rank = self::rank(scope, input)?;
    let length = length(scope, shape)?;
    let most = rank.max(length);
    let own = match (axis + rank).checked_sub(most) {
        Some(axis) => self::axis(scope, input, axis)?,
        None => Size::Known(1),
    };
    let other = match (axis + length).checked_sub(most) {
        Some(place) => element_at(scope, shape, &[place])?,
        None => Size::Known(1),
    };
    broadcast([own, other])
}

/// The size that all inputs agree on, except those with size 1 or without the axis.
fn broadcast_axis<'a>(scope: &'a Scope<'a>, node: &'a NodeProto, axis: usize) -> Option<Size<'a>> {
    let mut ranks = Vec::new();
    for input in node.inputs() {
        ranks.push((input, self::rank(scope, input)?));
    }
    let most = ranks.iter().map(|&(_, rank)| rank).max()?;
    let mut sizes = Vec::new();
    for (input, rank) in ranks {
        if let Some(axis) = (axis + rank).checked_sub(most) {
            sizes.push(self::axis(scope, input, axis)?);
        }
    }
    broadcast(sizes)
}

fn broadcast<'a>(sizes: impl IntoIterator<Item = Size<'a>>) -> Option<Size<'a>> {
    let mut agreed = Size::Known(1);
    for size in sizes {
        if size == Size::Known(1) || size == agreed {
            continue;
        }
        if agreed != Size::Known(1) {
            return None;
        }
        agreed = size;
    }
    Some(agreed)
}

/// Whether a node is a Slice that takes everything.
#[must_use]
pub fn is_whole_slice(scope: &Scope<'_>, node: &NodeProto) -> bool {
    let is_whole = |range: Range| {
        let size = || {
            let data = node.input(0)?;
            let axis = constant::normal_axis(range.axis, rank(scope, data)?)?;
            self::axis(scope, data, axis)?.number()
        };
        let takes_all = |size| range.step == 1 && range.on(size) == (0, size);
        range.is_whole() || size().is_some_and(takes_all)
    };
    let ranges = || constant::ranges(scope, node).or_else(|| ranges_of_sizes(scope, node));
    node.is("Slice") && ranges().is_some_and(|ranges| ranges.into_iter().all(is_whole))
}

/// The axis that a Slice with a step of -1 flips completely, as the node counts it.
#[must_use]
pub fn flipped_axis(scope: &Scope<'_>, node: &NodeProto) -> Option<i64> {
    if !node.is("Slice") {
        return None;
    }
    match constant::ranges(scope, node)?.as_slice() {
        [range] if range.is_flip() => Some(range.axis),
        _ => None,
    }
}
