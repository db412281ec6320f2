//! Runs nodes on integers and truth values by ONNX's specification.

use revseq_onnx::model::{BOOL, FLOAT, INT32, INT64, NodeProto};

/// A tensor in a run. Floats that are no whole numbers, or not known, are [`UNKNOWN`].
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    /// ONNX's code of the element type.
    pub(super) code: i32,
    pub(super) sizes: Vec<usize>,
    pub(super) elements: Vec<i64>,
}

pub(super) const UNKNOWN: i64 = i64::MIN + 1;

/// Whether a tensor of these sizes is made. Empty ones count by their other axes.
fn is_small(sizes: &[usize]) -> bool {
    let mut sizes = sizes.iter().map(|&size| size.max(1));
    let count = sizes.try_fold(1, usize::checked_mul);
    count.is_some_and(|count| count <= 1000)
}

/// All indices of a tensor, row-major.
pub(super) fn places(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &size in sizes {
        all = all
            .into_iter()
            .flat_map(|place| (0..size).map(move |at| [place.as_slice(), &[at]].concat()))
            .collect();
    }
    all
}

impl Tensor {
    /// A tensor of int64.
    pub(super) fn new(sizes: &[usize], at: impl Fn(&[usize]) -> i64) -> Self {
        let places = places(sizes);
        Self {
            code: INT64,
            sizes: sizes.to_vec(),
            elements: places.iter().map(|place| at(place)).collect(),
        }
    }

    fn vector(elements: &[i64]) -> Self {
        Self::new(&[elements.len()], |place| elements[place[0]])
    }

    /// The elements in a type, which keeps the lower bits of a number that it does not hold.
    pub(super) fn typed(self, code: i32) -> Self {
        let elements = self.elements.iter();
        let elements = elements.map(|&it| match code {
            FLOAT if it as f32 as i128 != i128::from(it) => UNKNOWN,
            BOOL => i64::from(it != 0),
            INT32 => i64::from(it as i32),
            _ => it,
        });
        Self {
            code,
            elements: elements.collect(),
            ..self
        }
    }

    pub(super) fn at(&self, place: &[usize]) -> i64 {
        let index =
            std::iter::zip(&self.sizes, place).fold(0, |index, (size, at)| index * size + at);
        self.elements[index]
    }

    /// An element of a tensor broadcast to a higher rank.
    fn at_broadcast(&self, place: &[usize]) -> i64 {
        let place = &place[place.len() - self.sizes.len()..];
        let own =
            std::iter::zip(&self.sizes, place).map(|(&size, &at)| if size == 1 { 0 } else { at });
        self.at(&own.collect::<Vec<_>>())
    }

    fn with_sizes(&self, sizes: Vec<usize>) -> Option<Self> {
        let count: usize = sizes.iter().product();
        let elements = self.elements.clone();
        (count == elements.len()).then_some(Self {
            code: self.code,
            sizes,
            elements,
        })
    }
}

fn broadcast(one: &[usize], other: &[usize]) -> Option<Vec<usize>> {
    let rank = one.len().max(other.len());
    let size = |sizes: &[usize], axis: usize| match (axis + sizes.len()).checked_sub(rank) {
        Some(axis) => sizes[axis],
        None => 1,
    };
    let both = (0..rank).map(|axis| match (size(one, axis), size(other, axis)) {
        (1, size) | (size, 1) => Some(size),
        (one, other) => (one == other).then_some(one),
    });
    both.collect()
}

fn from_front(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

fn all_from_front(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let axes: Vec<usize> = axes
        .iter()
        .map(|&axis| from_front(axis, rank))
        .collect::<Option<_>>()?;
    let is_twice = (0..axes.len()).any(|at| axes[..at].contains(&axes[at]));
    (!is_twice).then_some(axes)
}

/// Runs a node; `None` if it is invalid.
pub(super) fn run(node: &NodeProto, inputs: &[&Tensor]) -> Option<Tensor> {
    let first = inputs[0].code;
    let code = match node.op() {
        "Cast" => node.int("to").value().expect("a type") as i32,
        "Shape" | "Size" => INT64,
        op if is_truth(op) => BOOL,
        "Where" => inputs[1].code,
        _ => first,
    };
    let takes_truths = matches!(node.op(), "And" | "Not" | "Or" | "Xor");
    let takes_numbers = matches!(
        node.op(),
        "Add"
            | "Div"
            | "Greater"
            | "GreaterOrEqual"
            | "Less"
            | "LessOrEqual"
            | "Max"
            | "Min"
            | "Mod"
            | "Mul"
            | "ReduceMax"
            | "ReduceMin"
            | "ReduceProd"
            | "ReduceSum"
            | "Sub"
    );
    let is_one_type = node.op() == "Concat" || is_binary(node.op());
    if takes_truths && first != BOOL
        || takes_numbers && first == BOOL
        || is_one_type && inputs.iter().any(|input| input.code != first)
    {
        return None;
    }
    Some(computed(node, inputs)?.typed(code))
}

fn is_truth(op: &str) -> bool {
    let truths = [
        "And",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Not",
        "Or",
        "Xor",
    ];
    truths.contains(&op)
}

fn is_binary(op: &str) -> bool {
    let numbers = ["Add", "Div", "Max", "Min", "Mod", "Mul", "Sub"];
    numbers.contains(&op) || is_truth(op) && op != "Not"
}

/// The result of a binary operator; `None` if it has none.
fn binary(op: &str, fmod: bool, one: i64, other: i64) -> Option<i64> {
    Some(match op {
        "Add" => one.wrapping_add(other),
        "Sub" => one.wrapping_sub(other),
        "Mul" => one.wrapping_mul(other),
        "Div" => one.checked_div(other)?,
        "Mod" if fmod => one.checked_rem(other)?,
        // The sign is the divisor's.
        "Mod" => one
            .checked_rem(other)?
            .wrapping_add(other)
            .checked_rem(other)?,
        "Max" => one.max(other),
        "Min" => one.min(other),
        "And" => i64::from(one != 0 && other != 0),
        "Or" => i64::from(one != 0 || other != 0),
        "Equal" => i64::from(one == other),
        "Xor" => i64::from((one != 0) != (other != 0)),
        "Greater" => i64::from(one > other),
        "GreaterOrEqual" => i64::from(one >= other),
        "Less" => i64::from(one < other),
        "LessOrEqual" => i64::from(one <= other),
        op => panic!("{op}"),
    })
}

/// The result of a binary operator on floats.
fn float(op: &str, one: i64, other: i64) -> Option<i64> {
    let [one, other] = [one, other].map(|it| it as f32);
    let result = match op {
        "Add" => one + other,
        "Sub" => one - other,
        "Mul" => one * other,
        "Div" => one / other,
        "Max" => one.max(other),
        "Min" => one.min(other),
        _ => return None,
    };
    let is_whole = result.fract() == 0.0 && result.abs() < 9e18;
    Some(if is_whole { result as i64 } else { UNKNOWN })
}

fn computed(node: &NodeProto, inputs: &[&Tensor]) -> Option<Tensor> {
    let attribute = |name: &str, default| node.int(name).or(default).expect("a value");
    let x = inputs[0];
    let rank = x.sizes.len();
    let axes = inputs.get(1).map_or(&[][..], |axes| &axes.elements);
    match node.op() {
        "Identity" | "Cast" | "Neg" => Some(x.clone()),
        "Shape" => {
            let place =
                |at: i64| (if at < 0 { at + rank as i64 } else { at }).clamp(0, rank as i64);
            let (start, end) = (
                place(attribute("start", 0)),
                place(attribute("end", rank as i64)),
            );
            let sizes: Vec<i64> = x.sizes.iter().map(|&size| size as i64).collect();
            Some(Tensor::vector(
                sizes.get(start as usize..end as usize).unwrap_or_default(),
            ))
        }
        "Transpose" => {
            let reversed: Vec<i64> = (0..rank as i64).rev().collect();
            let perm = node.ints("perm").or(&reversed).expect("an order");
            if perm.len() != rank {
                return None;
            }
            let sizes: Vec<usize> = perm.iter().map(|&axis| x.sizes[axis as usize]).collect();
            Some(Tensor::new(&sizes, |place| {
                let mut before = vec![0; rank];
                for (&axis, &at) in std::iter::zip(perm, place) {
                    before[axis as usize] = at;
                }
                x.at(&before)
            }))
        }
        "Unsqueeze" => {
            let added = all_from_front(axes, rank + axes.len())?;
            let mut sizes = x.sizes.iter();
            let all = (0..rank + axes.len()).map(|axis| match added.contains(&axis) {
                true => 1,
                false => *sizes.next().expect("as many as there were"),
            });
            x.with_sizes(all.collect())
        }
        "Squeeze" => {
            let mut removed = all_from_front(axes, rank)?;
            if removed.is_empty() {
                removed = (0..rank).filter(|&axis| x.sizes[axis] == 1).collect();
            }
            let kept = (0..rank).filter(|axis| !removed.contains(axis));
            x.with_sizes(kept.map(|axis| x.sizes[axis]).collect())
        }
        "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceSum" => {
            let mut reduced = all_from_front(axes, rank)?;
            if reduced.is_empty() && attribute("noop_with_empty_axes", 0) == 0 {
                reduced = (0..rank).collect();
            }
            let size = |axis: usize| match reduced.contains(&axis) {
                true => 1,
                false => x.sizes[axis],
            };
            let sizes: Vec<usize> = (0..rank).map(size).collect();
            let result = Tensor::new(&sizes, |place| {
                let all = places(&x.sizes).into_iter().filter(|other| {
                    let kept = (0..rank).filter(|axis| !reduced.contains(axis));
                    kept.into_iter().all(|axis| other[axis] == place[axis])
                });
                let elements = all.map(|place| x.at(&place));
                match node.op() {
                    "ReduceMax" => elements.max().unwrap_or(i64::MIN),
                    "ReduceMin" => elements.min().unwrap_or(i64::MAX),
                    "ReduceProd" => elements.fold(1, i64::wrapping_mul),
                    _ => elements.fold(0, i64::wrapping_add),
                }
            });
            let has_none = x.elements.is_empty() && !result.elements.is_empty();
            if has_none && matches!(node.op(), "ReduceMax" | "ReduceMin") {
                return None;
            }
            let keep = attribute("keepdims", 1) != 0;
            let kept = (0..rank).filter(|axis| keep || !reduced.contains(axis));
            result.with_sizes(kept.map(size).collect())
        }
        "Gather" => {
            let axis = from_front(attribute("axis", 0), rank)?;
            let indices = inputs[1];
            let size = x.sizes[axis] as i64;
            if indices.elements.iter().any(|&at| at < -size || at >= size) {
                return None;
            }
            let sizes = [&x.sizes[..axis], &indices.sizes, &x.sizes[axis + 1..]].concat();
            let end = axis + indices.sizes.len();
            Some(Tensor::new(&sizes, |place| {
                let at = indices.at(&place[axis..end]);
                let at = if at < 0 { at + size } else { at } as usize;
                x.at(&[&place[..axis], &[at], &place[end..]].concat())
            }))
        }
        "Slice" => {
            let axes = all_from_front(&inputs[3].elements, rank)?;
            let mut taken: Vec<Vec<usize>> =
                x.sizes.iter().map(|&size| (0..size).collect()).collect();
            for (number, axis) in axes.into_iter().enumerate() {
                let size = x.sizes[axis] as i64;
                let [start, end, step] = [1, 2, 4].map(|input| inputs[input].elements[number]);
                let place = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
                let (mut at, end) = match step > 0 {
                    true => (place(start).clamp(0, size), place(end).clamp(0, size)),
                    // ONNX Runtime takes these ends as the first element.
                    false if end >= i64::from(i32::MAX) => return None,
                    false if size == 0 => (0, 0),
                    false => (
                        place(start).clamp(0, size - 1),
                        place(end).clamp(-1, size - 1),
                    ),
                };
                taken[axis].clear();
                while if step > 0 { at < end } else { at > end } {
                    taken[axis].push(at as usize);
                    at += step;
                }
            }
            let sizes: Vec<usize> = taken.iter().map(Vec::len).collect();
            Some(Tensor::new(&sizes, |place| {
                let before = std::iter::zip(&taken, place).map(|(taken, &at)| taken[at]);
                x.at(&before.collect::<Vec<_>>())
            }))
        }
        "Concat" => {
            let axis = from_front(attribute("axis", 0), rank)?;
            let mut sizes = x.sizes.clone();
            sizes[axis] = 0;
            for part in inputs {
                let mut own = part.sizes.clone();
                sizes[axis] += own.get(axis)?;
                own[axis] = sizes[axis];
                if own != sizes {
                    return None;
                }
            }
            Some(Tensor::new(&sizes, |place| {
                let mut place = place.to_vec();
                let part = inputs.iter().find(|part| {
                    let is_here = place[axis] < part.sizes[axis];
                    if !is_here {
                        place[axis] -= part.sizes[axis];
                    }
                    is_here
                });
                part.expect("one of them").at(&place)
            }))
        }
        "Reshape" => {
            let mut sizes = Vec::new();
            let mut open = None;
            for (axis, &size) in inputs[1].elements.iter().enumerate() {
                sizes.push(match size {
                    0 if attribute("allowzero", 0) == 0 => *x.sizes.get(axis)?,
                    -1 if open.is_none() => {
                        open = Some(axis);
                        1
                    }
                    size => usize::try_from(size).ok()?,
                });
            }
            if inputs[1].sizes.len() != 1 {
                return None;
            }
            if !is_small(&sizes) {
                return None;
            }
            if let Some(axis) = open {
                sizes[axis] = x.elements.len().checked_div(sizes.iter().product())?;
            }
            x.with_sizes(sizes)
        }
        "Expand" => {
            let wanted = inputs[1]
                .elements
                .iter()
                .map(|&size| usize::try_from(size).ok());
            let wanted: Vec<usize> = wanted.collect::<Option<_>>()?;
            if inputs[1].sizes.len() != 1 || !is_small(&wanted) {
                return None;
            }
            Some(Tensor::new(&broadcast(&x.sizes, &wanted)?, |place| {
                x.at_broadcast(place)
            }))
        }
        "Range" => {
            let [start, end, step] = [0, 1, 2].map(|input: usize| inputs[input].elements[0]);
            let count = end
                .checked_sub(start)?
                .checked_add(step - 1)?
                .checked_div(step)?;
            let count = usize::try_from(count.max(0)).ok()?;
            let numbers = (0..count.min(100)).map(|place| start + place as i64 * step);
            (step > 0 && count < 100).then(|| Tensor::vector(&numbers.collect::<Vec<_>>()))
        }
        "Where" => {
            let [one, other] = [inputs[1], inputs[2]];
            let sizes = broadcast(&broadcast(&x.sizes, &one.sizes)?, &other.sizes)?;
            let at = |place: &[usize]| {
                let chosen = if x.at_broadcast(place) != 0 {
                    one
                } else {
                    other
                };
                chosen.at_broadcast(place)
            };
            (x.code == BOOL && one.code == other.code).then(|| Tensor::new(&sizes, at))
        }
        "Not" => Some(Tensor::new(&x.sizes, |place| i64::from(x.at(place) == 0))),
        "Size" => Some(Tensor::new(&[], |_| x.elements.len() as i64)),
        "Flatten" => {
            let axis = attribute("axis", 1);
            let axis = if axis < 0 { axis + rank as i64 } else { axis };
            let axis = usize::try_from(axis).ok().filter(|&axis| axis <= rank)?;
            let (before, behind) = x.sizes.split_at(axis);
            x.with_sizes(vec![before.iter().product(), behind.iter().product()])
        }
        op if is_binary(op) => {
            let fmod = attribute("fmod", 0) != 0;
            let mut result = x.clone();
            for other in &inputs[1..] {
                let sizes = broadcast(&result.sizes, &other.sizes)?;
                let elements = places(&sizes).into_iter().map(|place| {
                    let (one, other) = (result.at_broadcast(&place), other.at_broadcast(&place));
                    match x.code {
                        FLOAT if [one, other].contains(&UNKNOWN) => Some(UNKNOWN),
                        FLOAT if !is_truth(op) => float(op, one, other),
                        _ => binary(op, fmod, one, other),
                    }
                });
                let elements = elements.collect::<Option<Vec<_>>>()?;
                let next = Tensor {
                    code: x.code,
                    sizes,
                    elements,
                };
                result = next.typed(if is_truth(op) { BOOL } else { x.code });
            }
            Some(result)
        }
        "MatMul" => {
            let weights = &inputs[1].sizes;
            let mut sizes = x.sizes.clone();
            let last = sizes.last_mut()?;
            if weights.len() != 2 || *last != weights[0] {
                return None;
            }
            *last = weights[1];
            Some(Tensor::new(&sizes, |_| UNKNOWN))
        }
        op => panic!("{op}"),
    }
}
