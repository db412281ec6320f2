//! Models with many nodes, for algorithms that were once quadratic or worse.

use std::time::{Duration, Instant};

use buffa::MessageField;

use super::{fast, filled, graph, named, pass, portable, rewritten};
use crate::model::{self, AttributeProto, AttributeType, FunctionProto, ModelProto, int};
use crate::{Options, Outcome, rewrite_messages};
use revseq_test_models::text::nodes;

/// The number of nodes: enough that cubic or exponential time exceeds the limit.
const COUNT: usize = 1_000;

/// Time that is far more than any test takes.
const ALLOWED: Duration = Duration::from_secs(60);

fn takes_little(what: &str, model: &ModelProto, options: &Options, rewrites: usize) {
    let mut model = model.clone();
    let start = Instant::now();
    let report = rewrite_messages(&mut model, options).expect("known passes");
    let time = start.elapsed();
    assert!(time < ALLOWED, "{what}: {time:?}");
    assert!(report.rewritten().count() >= rewrites, "{what}");
}

/// A model of these nodes, with the weights of an RNN of 3 inputs and 2 units.
fn of(text: &str) -> ModelProto {
    let mut model = graph(nodes(text), [None, None, Some(3)]);
    let graph = model.graph.get_or_insert_default();
    for (name, sizes) in [("w", [1, 2, 3]), ("r", [1, 2, 2])] {
        graph.initializer.push(named(name, filled(&sizes, 0.5)));
    }
    for (name, value) in [("minus", -1), ("first", -i64::MAX)] {
        graph
            .initializer
            .push(named(name, model::int64_tensor(&[1], &[value])));
    }
    model
}

fn lines(line: impl Fn(usize) -> String) -> String {
    (0..COUNT).map(line).collect::<Vec<_>>().join("\n")
}

/// The names of all values of a chain.
fn names(chain: &str) -> String {
    let names = (0..COUNT).map(|at| format!("{chain}{at}"));
    names.collect::<Vec<_>>().join(", ")
}

/// The name of the value before one of a chain, which begins with another.
fn before(at: usize, first: &str, chain: &str) -> String {
    at.checked_sub(1)
        .map_or(first.to_owned(), |at| format!("{chain}{at}"))
}

/// Outputs the last of many values.
fn ending(text: &str, last: &str) -> String {
    format!("{text}\ny = Identity({last})")
}

#[test]
fn reversals_one_after_another() {
    let last = format!("v{}", COUNT - 1);
    let chain = lines(|at| {
        let before = before(at, "x", "v");
        format!("v{at} = ReverseSequence<batch_axis=1;time_axis=0>({before}, lens)")
    });
    let model = of(&ending(&chain, &last));
    takes_little("cancel", &model, &fast(), COUNT / 2);
    takes_little("portable", &model, &portable(), COUNT);
    // Each pair becomes the value before it.
    let (after, _) = rewritten(&of(&ending(&chain, &last)), &pass("cancel"));
    assert!(after.graph.as_option().unwrap().node.len() <= 2);
    let flips = lines(|at| {
        let before = before(at, "x", "f");
        format!(
            "n{at} = Neg({before})\nf{at} = ReverseSequence<batch_axis=1;time_axis=0>(n{at}, full)"
        )
    });
    let full = "shape = Shape(x)
        time = Gather(shape, zero)
        batch = Gather(shape, one)
        full = Expand(time, batch)";
    let last = format!("f{}", COUNT - 1);
    let model = of(&ending(&format!("{full}\n{flips}"), &last));
    takes_little("full-flip", &model, &fast(), 20);
}

#[test]
fn equal_chains_of_lengths() {
    let chains = ["a", "b"].map(|name| {
        lines(|at| {
            let before = before(at, "lens", name);
            format!("{name}{at} = Add({before}, {before})")
        })
    });
    let reversals = lines(|at| {
        format!(
            "m{at} = ReverseSequence<batch_axis=1;time_axis=0>(x, a{at})
            e{at} = ReverseSequence<batch_axis=1;time_axis=0>(m{at}, b{at})"
        )
    });
    let text = ending(
        &format!("{}\n{reversals}", chains.join("\n")),
        &format!("e{}", COUNT - 1),
    );
    let sum = names("e");
    let model = of(&format!("{text}\nall = Sum({sum})"));
    takes_little("lengths", &model, &fast(), COUNT);
}

#[test]
fn layers_of_one_input() {
    let layers = lines(|at| {
        let direction = if at < COUNT / 2 { "forward" } else { "reverse" };
        format!("l{at} = RNN<hidden_size=2;direction={direction}>(x, w, r)")
    });
    let sum = names("l");
    let model = of(&format!("{layers}\ny = Sum({sum})"));
    takes_little("bidirectional", &model, &fast(), COUNT / 2);
    // All layers want the same names, since Y has none.
    let layers = lines(|at| {
        format!(
            "r{at} = Slice(x, minus, first, zero, minus)\n_, l{at} = RNN<hidden_size=2>(r{at}, w, r)"
        )
    });
    let model = of(&format!("{layers}\ny = Sum({sum})"));
    takes_little("names", &model, &pass("direction"), COUNT);
}

/// Steps that both directions read: from each, the cells of one lead on before those of the other begin.
#[test]
fn cells_of_both_directions() {
    const STEPS: usize = 40;
    let steps = (0..STEPS)
        .map(|at| format!("n{at} = Constant<value_int={at}>()\nx{at} = Gather<axis=0>(x, n{at})"));
    let cell = |way: &str, at: usize| {
        let read = if way == "b" { STEPS - 1 - at } else { at };
        let before = match at.checked_sub(1) {
            Some(before) => [format!("{way}{before}h"), format!("{way}{before}c")],
            None => ["begin", "begin"].map(str::to_owned),
        };
        let ([h, c], p) = (before, format!("{way}{at}"));
        format!(
            "{p}x = MatMul(x{read}, {way}kernel)
            {p}s = MatMul({h}, {way}recurrent)
            {p}a = Add({p}x, {p}s)
            {p}g0, {p}g1, {p}g2, {p}g3 = Split<axis=1>({p}a)
            {p}i = Sigmoid({p}g0)
            {p}f = Sigmoid({p}g1)
            {p}g = Tanh({p}g2)
            {p}o = Sigmoid({p}g3)
            {p}kept = Mul({p}f, {c})
            {p}new = Mul({p}i, {p}g)
            {p}c = Add({p}kept, {p}new)
            {p}t = Tanh({p}c)
            {p}h = Mul({p}o, {p}t)"
        )
    };
    let ways = ["f", "b"].into_iter();
    let cells = ways.flat_map(|way| (0..STEPS).map(move |at| (way, at)));
    let text: Vec<String> = steps.chain(cells.map(|(way, at)| cell(way, at))).collect();
    let last = STEPS - 1;
    let end = format!("y = Concat<axis=1>(f{last}h, b{last}h)");
    let kernels = ["fkernel", "bkernel"].map(|name| (name, [3, 8]));
    let recurrents = ["frecurrent", "brecurrent"].map(|name| (name, [2, 8]));
    let constants = [&kernels[..], &recurrents, &[("begin", [1, 2])]].concat();
    let model = with_constants(of(&format!("{}\n{end}", text.join("\n"))), &constants);
    let (_, report) = rewritten(&model, &pass("unrolled"));
    let outcomes = report.rewritten().map(|it| it.outcome.clone());
    let layer = |direction| {
        let layer = format!("LSTM, {direction}, of 40 steps; an empty batch is an error");
        Outcome::Rewritten(layer)
    };
    assert!(outcomes.eq(["forward", "reverse"].map(layer)), "{report:?}");
}

/// The model with constants of 0.5.
fn with_constants(mut model: ModelProto, constants: &[(&str, [usize; 2])]) -> ModelProto {
    let graph = model.graph.get_or_insert_default();
    for (name, sizes) in constants {
        graph.initializer.push(named(name, filled(sizes, 0.5)));
    }
    model
}

#[test]
fn cells_one_after_another() {
    let steps = lines(|at| {
        let before = before(at, "begin", "h");
        format!(
            "n{at} = Constant<value_int={at}>()
            x{at} = Gather<axis=0>(x, n{at})
            i{at} = MatMul(x{at}, kernel)
            s{at} = MatMul({before}, recurrent)
            a{at} = Add(i{at}, s{at})
            h{at} = Tanh(a{at})
            u{at} = Unsqueeze(h{at}, zero)"
        )
    });
    let model = of(&format!("{steps}\ny = Concat<axis=0>({})", names("u")));
    let constants = [("kernel", [3, 2]), ("recurrent", [2, 2]), ("begin", [1, 2])];
    let model = with_constants(model, &constants);
    takes_little("unrolled", &model, &fast(), 2);
    let (after, _) = rewritten(&model, &fast());
    assert!(after.graph.as_option().unwrap().node.len() < 40);
}

/// Each function calls the next one twice and passes its own axis: inlined, they would be too many nodes.
#[test]
fn functions_that_forward_an_axis() {
    let reference = |name: &str, outer: &str| AttributeProto {
        name: Some(name.to_owned()),
        ref_attr_name: Some(outer.to_owned()),
        r#type: Some(AttributeType::INT),
        ..AttributeProto::default()
    };
    let call = |callee: usize, input: &str, output: &str, axis: AttributeProto| {
        let mut node = model::node(&format!("f{callee}"), &[input, "l"], &[output], vec![axis]);
        node.domain = Some("local".to_owned());
        node
    };
    let mut model = of("");
    for at in 0..COUNT {
        let body = if at + 1 < COUNT {
            vec![
                call(at + 1, "a", "b", reference("axis", "axis")),
                call(at + 1, "b", "c", reference("axis", "axis")),
            ]
        } else {
            let axes = vec![int("batch_axis", 1), reference("time_axis", "axis")];
            vec![model::node("ReverseSequence", &["a", "l"], &["c"], axes)]
        };
        model.functions.push(FunctionProto {
            name: Some(format!("f{at}")),
            domain: Some("local".to_owned()),
            input: vec!["a".to_owned(), "l".to_owned()],
            output: vec!["c".to_owned()],
            attribute: vec!["axis".to_owned()],
            node: body,
            opset_import: model.opset_import.clone(),
            ..FunctionProto::default()
        });
    }
    let mut first = call(0, "x", "y", int("axis", 0));
    first.input[1] = "lens".to_owned();
    let graph = model.graph.get_or_insert_default();
    graph.node = vec![first];
    model.graph = MessageField::some(graph.clone());
    takes_little("functions", &model, &portable(), 0);
}
