//! Loops, branches and layers within each other, against the same computed by recursion.
//!
//! Each level goes over the first axis of what it gets, from a state that begins anew in every step of
//! the level around it:
//!
//! ```text
//! f(x, h) = Σ 2 s_t + last s, where s_0 = h or a constant, and s_t = tanh(s + g(x_t, s))
//! ```
//!
//! `g` is the level within; the innermost is `h / 2 + x`, or a layer.

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use crate::build::{Graph, graph, run, run_each};

/// The elements of the innermost axis.
const WIDTH: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Level {
    Scan,
    /// A Scan from the last element to the first.
    Backwards,
    /// A Loop that becomes a Scan.
    Loop,
    /// A Loop whose number of steps comes from data.
    Steps,
    /// An If, of which one branch negates what it gets.
    If,
    Gru,
    Lstm,
}

use Level::{Backwards, Gru, If, Loop, Lstm, Scan, Steps};

const OVER_AN_AXIS: [Level; 4] = [Scan, Backwards, Loop, Steps];

impl Level {
    fn has_axis(self) -> bool {
        self != If
    }

    fn is_layer(self) -> bool {
        matches!(self, Gru | Lstm)
    }
}

/// The state before the first step of a level over an axis.
const INITIAL: [f32; WIDTH] = [0.25, -0.5];

/// Whether the level at a depth begins with what is around it.
fn begins_with_outer(depth: usize) -> bool {
    depth % 2 == 1
}

/// The nodes that compute `f(x, h)` as `out`, with the graphs in them, for an `x` of these sizes. `path`
/// makes names unique.
fn nodes(
    levels: &[Level],
    sizes: &[String],
    path: &str,
    x: &str,
    h: &str,
) -> (String, Vec<(String, Graph)>) {
    let Some((level, within)) = levels.split_first() else {
        let text = format!("half{path} = Mul({h}, half)\n out{path} = Add(half{path}, {x})");
        return (text, vec![]);
    };
    let initial = match begins_with_outer(path.len()) {
        true => h,
        false => "initial",
    };
    if level.is_layer() {
        let state =
            format!("seq{path} = Unsqueeze({x}, one)\n first{path} = Reshape({h}, as_state)\n");
        let layer = match level {
            Gru => {
                format!("_, last{path} = GRU<hidden_size=2>(seq{path}, w3, r3, _, _, first{path})")
            }
            _ => {
                format!("_, last{path} = LSTM<hidden_size=2>(seq{path}, w4, r4, _, _, first{path})")
            }
        };
        let text = format!("{state}{layer}\n out{path} = Reshape(last{path}, as_row)");
        return (text, vec![]);
    }
    let body = format!("body{path}");
    let deeper = format!("{path}d");
    if *level == If {
        let (then, then_graphs) = nodes(within, sizes, &deeper, x, h);
        let other = format!("{path}e");
        let (negated, other_graphs) = nodes(within, sizes, &other, &format!("neg{path}"), h);
        let negated = format!("neg{path} = Neg({x})\n{negated}");
        let then = with(graph("", &format!("out{deeper}"), &then), then_graphs);
        let negated = with(graph("", &format!("out{other}"), &negated), other_graphs);
        let text = format!(
            "sum{path} = ReduceSum<keepdims=0>({h})\n less{path} = Less(sum{path}, nought)\n \
             out{path} = If<then_branch=@{body};else_branch=@{body}e>(less{path})"
        );
        return (
            text,
            vec![(body.clone(), then), (format!("{body}e"), negated)],
        );
    }
    let (inner, graphs) = nodes(
        within,
        &sizes[1..],
        &deeper,
        &format!("x{deeper}"),
        &format!("s{path}"),
    );
    let step = format!(
        "{inner}\n sum{path} = Add(s{path}, out{deeper})\n t{path} = Tanh(sum{path})\n \
         y{path} = Mul(t{path}, two)"
    );
    let after = format!(
        "total{path} = ReduceSum<keepdims=0>(ys{path}, zero)\n \
         out{path} = Add(last{path}, total{path})"
    );
    let outputs = format!("t{path} y{path}");
    if matches!(level, Scan | Backwards) {
        let inputs = format!(
            "s{path}:f32[{WIDTH}] x{deeper}:f32[{}]",
            sizes[1..].join(",")
        );
        let directions = match level {
            Backwards => ";scan_input_directions=[1];scan_output_directions=[1]",
            _ => "",
        };
        let text = format!(
            "last{path}, ys{path} = Scan<num_scan_inputs=1;body=@{body}{directions}>({initial}, {x})\n{after}"
        );
        return (
            text,
            vec![(body, with(graph(&inputs, &outputs, &step), graphs))],
        );
    }
    let step =
        format!("x{deeper} = Gather({x}, i{path})\n goes_on{path} = Identity(c{path})\n{step}");
    let inputs = format!("i{path} c{path} s{path}");
    let outputs = format!("goes_on{path} {outputs}");
    let mut text = format!("shape{path} = Shape({x})\n count{path} = Gather(shape{path}, none)\n");
    if *level == Steps {
        text += &format!(
            "zeros{path} = Mul({x}, nought)\n whole{path} = Cast<to=7>(zeros{path})\n \
             more{path} = ReduceSum<keepdims=0>(whole{path})\n \
             steps{path} = Add(count{path}, more{path})\n"
        );
    } else {
        text += &format!("steps{path} = Identity(count{path})\n");
    }
    text +=
        &format!("last{path}, ys{path} = Loop<body=@{body}>(steps{path}, yes, {initial})\n{after}");
    (
        text,
        vec![(body, with(graph(&inputs, &outputs, &step), graphs))],
    )
}

fn with(graph: Graph, graphs: Vec<(String, Graph)>) -> Graph {
    let add = |graph: Graph, (name, inner): (String, Graph)| graph.with(&name, inner);
    graphs.into_iter().fold(graph, add)
}

/// A model of levels over axes of these sizes.
fn model(levels: &[Level], sizes: &[String]) -> Graph {
    let sizes = [sizes, &[WIDTH.to_string()]].concat();
    let (nodes, graphs) = nodes(levels, &sizes, "", "x", "h");
    let inputs = format!("x:f32[{}] h:f32[{WIDTH}]", sizes.join(","));
    let eye = |blocks: usize, scale: f32| {
        let of = |at: usize| match (at / WIDTH) % WIDTH == at % WIDTH {
            true => scale,
            false => 0.0,
        };
        let elements: Vec<f32> = (0..blocks * WIDTH * WIDTH).map(of).collect();
        Tensor::from_shape(&[1, blocks * WIDTH, WIDTH], &elements).unwrap()
    };
    with(graph(&inputs, "out", &nodes), graphs)
        .constants("half = 0.5, two = 2.0, nought = 0.0")
        .constant("initial", tensor1(&INITIAL))
        .constants("yes = true, none = 0, zero = [0], one = [1]")
        .constant("as_state", tensor1(&[1, 1, WIDTH as i64]))
        .constant("as_row", tensor1(&[WIDTH as i64]))
        .constant("w3", eye(3, 1.0))
        .constant("r3", eye(3, 0.5))
        .constant("w4", eye(4, 1.0))
        .constant("r4", eye(4, 0.5))
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// The same by recursion.
fn reference(levels: &[Level], depth: usize, x: &[f32], sizes: &[usize], h: &[f32]) -> Vec<f32> {
    let Some((level, within)) = levels.split_first() else {
        return std::iter::zip(h, x).map(|(h, x)| h / 2.0 + x).collect();
    };
    if *level == If {
        let x = match h.iter().sum::<f32>() < 0.0 {
            true => x.to_vec(),
            false => x.iter().map(|it| -it).collect(),
        };
        return reference(within, depth + 1, &x, sizes, h);
    }
    let (steps, sizes) = sizes.split_first().unwrap();
    let parts = || (0..*steps).map(|step| &x[step * x.len() / steps..][..x.len() / steps]);
    if level.is_layer() {
        let mut h = h.to_vec();
        let mut c = vec![0.0; h.len()];
        for x in parts() {
            for ((h, c), x) in std::iter::zip(&mut h, &mut c).zip(x) {
                let gate = sigmoid(x + *h / 2.0);
                if *level == Gru {
                    let new = (x + gate * *h / 2.0).tanh();
                    *h = (1.0 - gate) * new + gate * *h;
                } else {
                    *c = gate * *c + gate * (x + *h / 2.0).tanh();
                    *h = gate * c.tanh();
                }
            }
        }
        return h;
    }
    let mut state = match begins_with_outer(depth) {
        true => h.to_vec(),
        false => INITIAL.to_vec(),
    };
    let mut sum = vec![0.0; h.len()];
    let mut parts: Vec<&[f32]> = parts().collect();
    if *level == Backwards {
        parts.reverse();
    }
    for x in parts {
        let inner = reference(within, depth + 1, x, sizes, &state);
        for ((state, inner), sum) in std::iter::zip(&mut state, inner).zip(&mut sum) {
            *state = (*state + inner).tanh();
            *sum += 2.0 * *state;
        }
    }
    std::iter::zip(state, sum)
        .map(|(last, sum)| last + sum)
        .collect()
}

/// Runs a model for any sizes on several, in both orders, and one for each of the sizes.
fn check(levels: &[Level]) -> TractResult<()> {
    let axes = levels.iter().filter(|level| level.has_axis()).count();
    let all = [[2, 3, 2], [3, 1, 2], [1, 2, 1], [2, 3, 2]];
    let mut inputs = vec![];
    let mut expected = vec![];
    for (run, sizes) in all.iter().enumerate() {
        let sizes = &sizes[..axes];
        let count = sizes.iter().product::<usize>() * WIDTH;
        let x = (0..count).map(|at| ((at * 7 + run * 3) % 11) as f32 / 8.0 - 0.6);
        let x: Vec<f32> = x.collect();
        let h = [0.5 - run as f32 / 4.0, 0.125];
        expected.push(tensor1(&reference(levels, 0, &x, sizes, &h)));
        let shape: Vec<usize> = sizes.iter().copied().chain([WIDTH]).collect();
        inputs.push(vec![Tensor::from_shape(&shape, &x)?, tensor1(&h)]);
    }
    let symbols: Vec<String> = ["A", "B", "C"].map(str::to_owned)[..axes].to_vec();
    let found = run_each(model(levels, &symbols), &inputs).context("for any sizes")?;
    for (found, expected) in std::iter::zip(&found, &expected) {
        found[0]
            .close_enough(expected, true)
            .context("for any sizes")?;
    }
    for at in [0, 1] {
        let sizes: Vec<String> = all[at][..axes].iter().map(usize::to_string).collect();
        let found = run(model(levels, &sizes), &inputs[at]);
        let found = found.with_context(|| format!("for {sizes:?}"))?;
        let close = found[0].close_enough(&expected[at], true);
        close.with_context(|| format!("for {sizes:?}"))?;
    }
    Ok(())
}

fn check_all(all: impl IntoIterator<Item = Vec<Level>>) {
    let wrong = |levels: Vec<Level>| {
        let error = check(&levels).err()?;
        Some(format!("{levels:?}: {error:#}"))
    };
    let wrong: Vec<String> = all.into_iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn pairs() -> impl Iterator<Item = [Level; 2]> {
    let outer = OVER_AN_AXIS.into_iter();
    outer.flat_map(|outer| OVER_AN_AXIS.map(|inner| [outer, inner]))
}

#[test]
fn two_levels() {
    check_all(pairs().map(|it| it.to_vec()));
}

#[test]
fn three_levels() {
    let innermost = [Scan, Loop, Steps].into_iter();
    check_all(innermost.flat_map(|level| pairs().map(move |[a, b]| vec![a, b, level])));
}

#[test]
fn layers_within_loops() {
    let within = |[outer, layer]: [Level; 2]| {
        [
            vec![outer, layer],
            vec![outer, Scan, layer],
            vec![outer, Loop, layer],
        ]
    };
    let layers = [Gru, Lstm].into_iter();
    let all = layers.flat_map(|layer| OVER_AN_AXIS.map(|outer| [outer, layer]));
    check_all(all.flat_map(within));
}

#[test]
fn branches_between_levels() {
    let inner = [Scan, Loop, Steps, Gru].into_iter();
    check_all(inner.flat_map(|inner| {
        let outer = OVER_AN_AXIS.map(|outer| vec![outer, If, inner]);
        let others = [vec![If, Scan, inner], vec![If, Loop, If, inner]];
        outer.into_iter().chain(others)
    }));
}
