//! Ranges, remainders and products of sizes: as numbers, as symbols and from data.

use proptest::prelude::*;
use revseq_tract_operators::Limits;
use tract_onnx::prelude::*;

use crate::build::{
    Graph, Optimize, fails, graph, kinds, parse_within, run_each, run_optimized as run, whole,
};

/// Makes `n`, the number of elements of `x`, and names for constants.
const SIZE: &str = "shape = Shape(x)\n n = Squeeze(shape, first)\n";

fn with_constants(graph: Graph, constants: &[(&str, i64)]) -> Graph {
    let graph = graph.constant("first", tensor1(&[0_i64]));
    let constants = constants.iter();
    constants.fold(graph, |graph, (name, value)| {
        graph.constant(name, tensor0(*value))
    })
}

fn vectors(counts: impl IntoIterator<Item = usize>) -> Vec<Vec<Tensor>> {
    let vectors = counts
        .into_iter()
        .map(|count| vec![tensor1(&vec![1_f32; count])]);
    vectors.collect()
}

/// The elements between two multiples of a size.
const RANGE: &str = "scaled = Mul(n, a)
    start = Add(scaled, b)
    rescaled = Mul(n, c)
    limit = Add(rescaled, d)
    y = Range(start, limit, step)
    size = Shape(y)
    count = Cast<to=1>(size)";

fn range(start: i64, limit: i64, step: i64) -> Vec<i64> {
    let elements = (0..).map(|at| start + at * step);
    elements
        .take_while(|it| if step > 0 { *it < limit } else { *it > limit })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_range_has_the_elements_before_its_limit(
        [a, b, c, d] in [-1i64..3, -4i64..5, -1i64..3, -6i64..5],
        step in prop_oneof![-3i64..0, 1i64..4],
        count in 0usize..5,
    ) {
        let constants = [("a", a), ("b", b), ("c", c), ("d", d), ("step", step)];
        let nodes = format!("{SIZE}{RANGE}");
        let expected = |n: i64| range(n * a + b, n * c + d, step);
        for (model, inputs) in kinds("", "y count", &nodes, &vec![1.; count]) {
            let found = run(with_constants(model, &constants), &inputs).unwrap();
            let expected = expected(count as i64);
            prop_assert_eq!(&found[0], &tensor1(&expected));
            prop_assert_eq!(&found[1], &tensor1(&[expected.len() as f32]));
        }
        // One plan for several sizes.
        let model = graph("x:f32[N]", "y count", &nodes);
        let found = run_each(with_constants(model, &constants), &vectors(0..4)).unwrap();
        for (count, found) in found.iter().enumerate() {
            prop_assert_eq!(&found[0], &tensor1(&expected(count as i64)));
        }
    }

    #[test]
    fn a_remainder_of_a_size_has_the_sign_of_its_operand(
        [a, b] in [0i64..3, -5i64..5],
        by in prop_oneof![-4i64..0, 1i64..5],
        fmod in 0i64..2,
    ) {
        let nodes = format!(
            "{SIZE} scaled = Mul(n, a)\n size = Add(scaled, b)\n rest = Mod<fmod={fmod}>(size, by)
             y = Cast<to=1>(rest)"
        );
        let constants = [("a", a), ("b", b), ("by", by)];
        let expected = |n: i64| {
            let size = n * a + b;
            let rest = size % by;
            let moves = fmod == 0 && rest != 0 && (rest < 0) != (by < 0);
            tensor0((rest + if moves { by } else { 0 }) as f32)
        };
        for (model, inputs) in kinds("", "y", &nodes, &[1.; 4]) {
            let found = run(with_constants(model, &constants), &inputs).unwrap();
            prop_assert_eq!(&found[0], &expected(4));
        }
        let model = with_constants(graph("x:f32[N]", "y", &nodes), &constants);
        for (count, found) in run_each(model, &vectors(0..7)).unwrap().iter().enumerate() {
            prop_assert_eq!(&found[0], &expected(count as i64));
        }
    }
}

/// Sizes, what is computed from them, and a constant that has more than 32 bits.
#[test]
fn sizes_are_multiplied_as_a_whole() {
    let nodes = format!(
        "{SIZE}
         square = Mul(n, n)
         cube = Mul(square, n)
         more = Mul(n, large)
         s = Unsqueeze(square, first)
         c = Unsqueeze(cube, first)
         m = Unsqueeze(more, first)
         joined = Concat<axis=0>(s, c, m)
         y = Cast<to=11>(joined)"
    );
    for (model, inputs) in kinds("", "y", &nodes, &[1.; 3]) {
        let model = with_constants(model, &[("large", 1 << 40)]);
        let found = run(model, &inputs).unwrap();
        assert_eq!(found[0], tensor1(&[9_f64, 27., 3. * (1_i64 << 40) as f64]));
    }
}

/// `Mul(i, i)`, of which tract makes a square.
#[test]
fn integers_are_multiplied_by_themselves() {
    for to in [2, 3, 4, 5, 6, 7, 12, 13] {
        let cast = format!("i = Cast<to={to}>(x)\n product = Mul(i, i)\n y = Cast<to=1>(product)");
        // The product of two nodes that are merged.
        let twice = format!(
            "i = Cast<to={to}>(x)\n j = Cast<to={to}>(x)\n product = Mul(i, j)\n y = Cast<to=1>(product)"
        );
        for nodes in [cast, twice] {
            for (model, inputs) in kinds("", "y", &nodes, &[3., 4., 0.]) {
                let found = run(model, &inputs).unwrap();
                assert_eq!(found[0], tensor1(&[9_f32, 16., 0.]), "{nodes}");
            }
        }
    }
}

/// Ranges that do not fit into memory.
#[test]
fn a_range_is_counted_before_it_is_made() {
    let model = |types: &str| {
        let inputs = format!("start:{types}[] limit:{types}[] step:{types}[]");
        graph(
            &inputs,
            "y",
            "made = Range(start, limit, step)\n y = Neg(made)",
        )
    };
    let limits = Limits::none().with_bytes(1 << 20);
    let bounded = |graph: Graph, inputs: &[Tensor]| {
        let model = parse_within(limits, graph)?.optimized()?;
        let inputs = inputs.iter().cloned().map(TValue::from);
        model.into_runnable()?.run(inputs.collect())
    };
    let integers = [tensor0(0_i64), tensor0(1_i64 << 40), tensor0(1_i64)];
    let floats = [tensor0(0_f32), tensor0(1e30_f32), tensor0(1_f32)];
    for (types, inputs, words) in [
        ("i64", &integers, "more than the 1048576 that are allowed"),
        ("f32", &floats, "larger than any memory"),
    ] {
        fails(bounded(model(types), inputs), words);
    }
    let few = [tensor0(0_f32), tensor0(1_f32), tensor0(0.25_f32)];
    let found = bounded(model("f32"), &few).unwrap();
    assert_eq!(*found[0], tensor1(&[-0_f32, -0.25, -0.5, -0.75]));
    // Without limits, memory is one.
    let widest = [tensor0(i64::MIN), tensor0(i64::MAX), tensor0(1_i64)];
    fails(run(model("i64"), &widest), "larger than any memory");
    for (step, expected) in [
        (0_f32, "its step is 0"),
        (f32::NAN, "expected finite numbers"),
    ] {
        let inputs = [tensor0(0_f32), tensor0(1_f32), tensor0(step)];
        fails(run(model("f32"), &inputs), expected);
    }
}

/// A limit that is a size in floats, as TensorFlow writes it, keeps its symbol.
#[test]
fn a_range_of_floats_is_as_long_as_the_size() {
    let nodes = format!(
        "{SIZE} limit = Cast<to=1>(n)\n places = Range(zero, limit, one)\n y = Add(x, places)"
    );
    for (model, inputs) in kinds("", "y", &nodes, &[1., 1., 1.]) {
        let model = model.constants("zero = 0.0, one = 1.0");
        let found = run(with_constants(model, &[]), &inputs).unwrap();
        assert_eq!(found[0], tensor1(&[1_f32, 2., 3.]));
    }
}

/// A loop of constants computes the number of elements.
#[test]
fn a_length_may_come_from_a_loop() {
    for (nodes, expected) in [
        (
            "list = Range(zero, n, one)\n y = Neg(list)",
            tensor1(&[0_i64, -1, -2]),
        ),
        (
            "k = Unsqueeze(n, zeros)\n top, at = TopK<axis=0>(x, k)\n y = Neg(top)",
            tensor1(&[-9_i64, -8, -7]),
        ),
        (
            "k = Unsqueeze(n, zeros)\n list = ConstantOfShape(k)\n y = Shape(list)",
            tensor1(&[3_i64]),
        ),
    ] {
        let nodes = format!("n = Loop<body=@body>(m, c, zero)\n {nodes}");
        let model = whole(&format!(
            "x:i64[5] -> y
             m = 3
             c = true
             zero = 0
             zeros = [0]
             one = 1
             {nodes}
             @body: i c n -> c1 n1
             c1 = Identity(c)
             n1 = Add(n, one)"
        ));
        let found = run(model, &[tensor1(&[5_i64, 9, 6, 7, 8])]);
        assert_eq!(found.unwrap(), [expected], "{nodes}");
    }
}

/// The Range has the same symbol in its own size, and does not give it a number.
#[test]
fn a_range_may_end_with_a_size_from_data() {
    let model = graph(
        "x:f32[N,4] end:i64[1]",
        "y",
        "some = Slice(x, [0], end, [0])
         sizes = Shape(some)
         count = Gather(sizes, zero)
         y = Range(zero, count, one)",
    );
    let model = with_constants(model, &[("zero", 0), ("one", 1)]);
    let x = Tensor::zero::<f32>(&[5, 4]).unwrap();
    for (end, count) in [(3_i64, 3), (0, 0), (9, 5)] {
        let found = run(model.clone(), &[x.clone(), tensor1(&[end])]).unwrap();
        assert_eq!(found[0], tensor1(&range(0, count, 1)));
    }
}
