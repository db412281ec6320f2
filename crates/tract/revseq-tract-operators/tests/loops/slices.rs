//! Random bodies with slices, which are fused into one operator.

use proptest::prelude::*;
use tract_onnx::prelude::*;

use crate::build::{Graph, fails, graph, parse, run, run_each};

/// ONNX's rule for the bounds of a slice.
fn bounds(start: i64, end: i64, size: usize) -> std::ops::Range<usize> {
    let size = size as i64;
    let from_first = |bound: i64| if bound < 0 { bound + size } else { bound };
    let clamped = |bound: i64| from_first(bound).clamp(0, size) as usize;
    let (start, end) = (clamped(start), clamped(end));
    start..end.max(start)
}

/// A matrix and its slices.
#[derive(Clone, Debug)]
struct Matrix {
    rows: usize,
    columns: usize,
    elements: Vec<f32>,
}

impl Matrix {
    fn slice(&self, axis: i64, start: i64, end: i64) -> Self {
        let (mut rows, mut columns) = (0..self.rows, 0..self.columns);
        match axis {
            0 | -2 => rows = bounds(start, end, self.rows),
            _ => columns = bounds(start, end, self.columns),
        }
        let at = |row: usize| &self.elements[row * self.columns..][columns.clone()];
        Self {
            rows: rows.len(),
            columns: columns.len(),
            elements: rows.clone().flat_map(|row| at(row).to_vec()).collect(),
        }
    }

    fn map(&self, function: impl Fn(f32) -> f32) -> Self {
        let elements = self.elements.iter().map(|it| function(*it)).collect();
        Self {
            elements,
            ..self.clone()
        }
    }
}

/// An axis, a start and an end.
type Slice = (i64, i64, i64);

/// The slices, up to the end of the axis where they would end before their start.
fn in_order(x: &Matrix, slices: &[Slice]) -> Vec<Slice> {
    let mut value = x.clone();
    let slices = slices.iter().map(|&(axis, start, end)| {
        let size = match axis {
            0 | -2 => value.rows,
            _ => value.columns,
        };
        let [first, last] = [start, end].map(|bound| bounds(0, bound, size).end);
        let end = if first <= last { end } else { i64::MAX };
        value = value.slice(axis, start, end);
        (axis, start, end)
    });
    slices.collect()
}

/// A loop of three steps whose state is added before, and that outputs the sum of what is left.
fn model(x: &str, slices: &[Slice]) -> Graph {
    let mut nodes = "v0 = Add(x, s)\n".to_owned();
    for (number, _) in slices.iter().enumerate() {
        let next = number + 1;
        nodes += &format!(
            "w{next} = Slice(v{number}, starts{number}, ends{number}, axes{number})
             v{next} = Neg(w{next})\n"
        );
    }
    let last = slices.len();
    nodes += &format!(
        "sum = ReduceSum<keepdims=0>(v{last})
         s1 = Add(s, one)
         c1 = Identity(c)"
    );
    let mut body = graph("i c s", "c1 s1 sum", &nodes);
    for (number, (axis, start, end)) in slices.iter().enumerate() {
        body = body
            .constant(&format!("starts{number}"), tensor1(&[*start]))
            .constant(&format!("ends{number}"), tensor1(&[*end]))
            .constant(&format!("axes{number}"), tensor1(&[*axis]));
    }
    let x = format!("x:f32[{x}]");
    graph(&x, "y", "_, y = Loop<body=@body>(3, _, 0.0)")
        .constant("one", tensor0(1_f32))
        .with("body", body)
}

fn slice() -> impl Strategy<Value = Slice> {
    let bound = || prop_oneof![-6i64..7, Just(100), Just(-100), Just(i64::MAX)];
    let start = prop_oneof![-6i64..7, Just(-100)];
    (-2i64..2, start, bound())
}

/// The bounds are slices themselves, of which no number of elements is known.
#[test]
fn a_list_of_bounds_from_data_is_one_bound() {
    let nodes = "start = Slice(ends, at, next)
        end = Slice(ends, next, last)
        y = Slice(x, start, end)";
    let model = graph(
        "x:f32[N,2] ends:i64[3] at:i64[1]",
        "y",
        &format!("next = Add(at, [1])\nlast = Add(next, [1])\n{nodes}"),
    );
    let x = Tensor::from_shape(&[3, 2], &[1_f32, 2., 3., 4., 5., 6.]).unwrap();
    let ends = tensor1(&[0_i64, 1, 3]);
    let inputs = |at: i64| vec![x.clone(), ends.clone(), tensor1(&[at])];
    let found = run_each(model.clone(), &[inputs(0), inputs(1)]).unwrap();
    assert_eq!(found[0][0], tensor2(&[[1_f32, 2.]]));
    assert_eq!(found[1][0], tensor2(&[[3_f32, 4.], [5., 6.]]));
    fails(run_each(model, &[inputs(2)]), "along 1 axes has 0");
}

/// A Conv tells the channels of a slice before anything is known of what is sliced.
#[test]
fn what_is_sliced_may_be_known_later_than_the_slice() {
    let nodes = "s = Slice(x, [1], [3], [1])\ny = Conv(s, w)";
    let sized = |x: &str| {
        graph(x, "y", nodes).constant("w", Tensor::from_shape(&[1, 2, 1], &[1_f32, 10.]).unwrap())
    };
    let x = Tensor::from_shape(&[1, 4, 2], &[1_f32, 2., 3., 4., 5., 6., 7., 8.]).unwrap();
    let expected = Tensor::from_shape(&[1, 1, 2], &[53_f32, 64.]).unwrap();
    let found = run(sized("x:f32[N,4,M]"), std::slice::from_ref(&x)).unwrap();
    assert_eq!(found, std::slice::from_ref(&expected));
    let mut unknown = parse(sized("x:f32")).unwrap();
    unknown.clone().into_typed().unwrap_err();
    unknown
        .set_input_fact(0, x.datum_type().fact(x.shape()).into())
        .unwrap();
    let plan = unknown.into_typed().unwrap().into_runnable().unwrap();
    assert_eq!(*plan.run(tvec![x.into_tvalue()]).unwrap()[0], expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_body_slices_within_its_values(
        slices in proptest::collection::vec(slice(), 1..4),
        [rows, columns] in [0usize..4, 1usize..5],
    ) {
        let count = rows * columns;
        let elements: Vec<f32> = (0..count).map(|it| it as f32).collect();
        let x = Matrix { rows, columns, elements };
        let slices = in_order(&x, &slices);
        let sums = (0..3).map(|step| {
            let first = x.map(|it| it + step as f32);
            let last = slices.iter().fold(first, |value, (axis, start, end)| {
                value.slice(*axis, *start, *end).map(|it| -it)
            });
            last.elements.iter().sum::<f32>()
        });
        let expected: Vec<f32> = sums.collect();
        let inputs = [Tensor::from_shape(&[rows, columns], &x.elements).unwrap()];
        let found = run(model(&format!("{rows},{columns}"), &slices), &inputs).unwrap();
        prop_assert_eq!(&found[0], &tensor1(&expected));
    }
}
