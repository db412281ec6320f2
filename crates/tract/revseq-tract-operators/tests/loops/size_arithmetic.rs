//! Arithmetic with sizes: one plan gives for all sizes what numbers give, where a result is negative, too.

use proptest::prelude::*;
use tract_onnx::prelude::*;

use crate::build::{Graph, graph, run_each};

/// An integer made of the sizes of `x:f32[N]` and `y:f32[M]`.
#[derive(Clone, Debug)]
enum Integer {
    N,
    M,
    Constant(i64),
    Negative(Box<Integer>),
    /// The operator, and its operands.
    Of(&'static str, Box<Integer>, Box<Integer>),
    /// An operator whose second operand is a number, which is not 0.
    By(&'static str, Box<Integer>, i64),
}

impl Integer {
    fn number(&self, n: i64, m: i64) -> i64 {
        match self {
            Self::N => n,
            Self::M => m,
            Self::Constant(number) => *number,
            Self::Negative(of) => -of.number(n, m),
            Self::Of(operator, a, b) => {
                let (a, b) = (a.number(n, m), b.number(n, m));
                match *operator {
                    "Add" => a + b,
                    "Sub" => a - b,
                    "Mul" => a * b,
                    "Max" => a.max(b),
                    "Min" => a.min(b),
                    "Sum" => a + b + a,
                    _ => unreachable!("{operator}"),
                }
            }
            Self::By(operator, a, by) => {
                let a = a.number(n, m);
                match *operator {
                    "Div" => a / by,
                    "Mod" => {
                        a - by * a.div_euclid(*by)
                            + if *by < 0 && a.rem_euclid(*by) != 0 {
                                *by
                            } else {
                                0
                            }
                    }
                    "Mod<fmod=1>" => a % by,
                    _ => unreachable!("{operator}"),
                }
            }
        }
    }

    /// Adds nodes, and returns the name of the value.
    fn nodes(&self, text: &mut String) -> String {
        let call = match self {
            Self::N => return "n".to_owned(),
            Self::M => return "m".to_owned(),
            Self::Constant(number) => return format!("c{number}"),
            Self::Negative(of) => format!("Neg({})", of.nodes(text)),
            Self::Of("Sum", a, b) => {
                let (a, b) = (a.nodes(text), b.nodes(text));
                format!("Sum({a}, {b}, {a})")
            }
            Self::Of(operator, a, b) => {
                let (a, b) = (a.nodes(text), b.nodes(text));
                format!("{operator}({a}, {b})")
            }
            Self::By(operator, a, by) => format!("{operator}({}, c{by})", a.nodes(text)),
        };
        let name = format!("v{}", text.lines().count());
        *text += &format!("{name} = {call}\n");
        name
    }
}

fn integers() -> impl Strategy<Value = Integer> {
    let leaf = prop_oneof![
        3 => Just(Integer::N),
        2 => Just(Integer::M),
        2 => (0_i64..6).prop_map(Integer::Constant),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        let operators = prop::sample::select(vec!["Add", "Sub", "Sub", "Mul", "Max", "Min", "Sum"]);
        let divisions = prop::sample::select(vec!["Div", "Div", "Div", "Mod", "Mod<fmod=1>"]);
        let divisors = prop::sample::select(vec![-3_i64, -2, 2, 3, 4]);
        prop_oneof![
            1 => inner.clone().prop_map(|it| Integer::Negative(it.into())),
            4 => (operators, inner.clone(), inner.clone())
                .prop_map(|(operator, a, b)| Integer::Of(operator, a.into(), b.into())),
            3 => (divisions, inner, divisors)
                .prop_map(|(operator, a, by)| Integer::By(operator, a.into(), by)),
        ]
    })
}

/// A model of integers, each an output.
fn model(integers: &[Integer]) -> Graph {
    let mut nodes = "sx = Shape(x)\nn = Squeeze(sx)\nsy = Shape(y)\nm = Squeeze(sy)\n".to_owned();
    let mut outputs = vec![];
    for (index, integer) in integers.iter().enumerate() {
        let value = integer.nodes(&mut nodes);
        nodes += &format!("r{index} = Cast<to=7>({value})\n");
        outputs.push(format!("r{index}"));
    }
    let graph = graph("x:f32[N] y:f32[M]", &outputs.join(" "), &nodes);
    (-3_i64..6).fold(graph, |graph, number| {
        graph.constant(&format!("c{number}"), tensor0(number))
    })
}

fn check(integers: &[Integer]) {
    let sizes: Vec<(i64, i64)> = (0..9).map(|at| (at, (at * 5 + 1) % 7)).collect();
    let inputs: Vec<Vec<Tensor>> = sizes
        .iter()
        .map(|(n, m)| [n, m].map(|it| Tensor::zero::<f32>(&[*it as usize]).unwrap()))
        .map(Vec::from)
        .collect();
    let found = run_each(model(integers), &inputs).unwrap();
    for ((n, m), found) in std::iter::zip(sizes, found) {
        for (integer, found) in std::iter::zip(integers, found) {
            let found = found.cast_to_scalar::<i64>().unwrap();
            assert_eq!(found, integer.number(n, m), "{integer:?} of {n}, {m}");
        }
    }
}

#[test]
fn quotients_of_sizes_that_may_be_negative_are_rounded_towards_0() {
    let by = |operator, a: Integer, by| Integer::By(operator, a.into(), by);
    let of = |operator, a: Integer, b: Integer| Integer::Of(operator, a.into(), b.into());
    let (n, m, one) = (Integer::N, Integer::M, Integer::Constant(1));
    let half = by("Div", n.clone(), 2);
    check(&[
        by("Div", of("Sub", n.clone(), m), 3),
        by("Div", of("Sub", n.clone(), one.clone()), 2),
        by("Div", of("Sub", n.clone(), Integer::Constant(5)), 2),
        by("Div", by("Mod", n.clone(), -2), 2),
        by("Div", of("Add", n.clone(), one.clone()), -2),
        // Not 1 and a quotient of what is left.
        by(
            "Div",
            of(
                "Sub",
                of("Min", n.clone(), one.clone()),
                Integer::Constant(2),
            ),
            -2,
        ),
        // What PyTorch writes for a quotient that is rounded up.
        Integer::Negative(by("Div", Integer::Negative(n.clone().into()), 4).into()),
        of("Sub", half.clone(), n.clone()),
        of("Sub", one, of("Sub", n.clone(), half.clone())),
        of("Sub", n.clone(), of("Sub", n, half)),
    ]);
}

/// The sizes of a reduction are summed by number where one of them may be negative.
#[test]
fn sums_of_a_list_of_sizes_are_exact() {
    let nodes = "n = Shape(x)\nhalf = Div(n, [2])\nless = Neg(n)\nlist = Concat<axis=0>(half, less)
         y = ReduceSum(list)";
    let model = graph("x:f32[N]", "y", nodes);
    let x = [3, 4, 0].map(|size| vec![Tensor::zero::<f32>(&[size]).unwrap()]);
    let found = run_each(model, &x).unwrap();
    let expected = [-2_i64, -2, 0].map(|it| vec![tensor1(&[it])]);
    assert_eq!(found, expected);
}

/// A convolution's size is computed in the graph as well, as PyTorch writes it from its own symbols.
#[test]
fn sizes_that_a_graph_computes_agree_with_those_of_windows() {
    for (kernel, pad, less) in [(3, 0, 3), (3, 1, 1), (2, 0, 2), (5, 1, 3)] {
        let nodes = format!(
            "n = Shape<start=2>(x)
             less = Sub(n, c{less})
             half = Div(less, c2)
             size = Add(half, c1)
             windows = Conv<strides=[2];kernel_shape=[{kernel}];pads=[{pad},{pad}]>(x, w)
             shape = Concat<axis=0>(c1, c2, c2, size)
             parts = Reshape(windows, shape)
             zeros = ConstantOfShape(shape)
             sum = Add(parts, zeros)
             all = Mul(size, c2)
             flat = Concat<axis=0>(c2, all)
             y = Reshape(sum, flat)"
        );
        let weights = Tensor::zero::<f32>(&[4, 1, kernel]).unwrap();
        let mut model = graph("x:f32[1,1,N]", "y", &nodes).constant("w", weights);
        for number in 1..=3_i64 {
            model = model.constant(&format!("c{number}"), tensor1(&[number]));
        }
        let x = [9, 10, 5, 30].map(|size| vec![Tensor::zero::<f32>(&[1, 1, size]).unwrap()]);
        let found = run_each(model, &x).unwrap();
        for (x, found) in std::iter::zip(x, found) {
            let size = (x[0].shape()[2] - less) / 2 + 1;
            assert_eq!(found[0].shape(), [2, 2 * size]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arithmetic_with_sizes_is_that_of_numbers(integers in prop::collection::vec(integers(), 4)) {
        check(&integers);
    }
}
