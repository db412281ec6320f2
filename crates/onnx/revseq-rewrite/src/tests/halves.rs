//! Half floats that are computed in floats.

use super::value;
use crate::compute_halves_in_floats;
use crate::model::{
    self, BOOL, FLOAT, FLOAT16, GraphProto, INT64, ModelProto, NodeProto, TensorProto, tensor,
};
use revseq_test_models::text::nodes;

/// The bits of 1.5 and of a NaN that signals.
const BITS: [u16; 2] = [0x3e00, 0x7d01];

fn halves(name: &str) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: vec![2],
        data_type: Some(FLOAT16),
        raw_data: Some(BITS.into_iter().flat_map(u16::to_le_bytes).collect()),
        ..TensorProto::default()
    }
}

/// A graph with output `y`, half floats `x`, `x2`, floats `f`, a truth value `c`, int64 `n`, and
/// constants `w` of half floats and `g` of floats. Constants in nodes are of half floats.
fn model(text: &str) -> ModelProto {
    let inner = "
        @same: -> s
            s = Identity(x)
        @computed: -> o
            o = Exp(x)
        @moved: i on v -> o p s
            o = Identity(on)
            p = Transpose(v)
            s = Identity(p)
        @summed: i on v -> o p s
            o = Identity(on)
            p = Add(v, x)
            s = Identity(v)
        @step: v e -> p s
            p = Mul(v, e)
            s = Identity(e)";
    let mut nodes = nodes(&format!("{text}\n{inner}"));
    for node in &mut nodes {
        if ["Constant", "ConstantOfShape"].contains(&node.op()) {
            node.attribute = vec![tensor("value", halves(""))];
        }
    }
    let of_floats = TensorProto {
        name: Some("g".to_owned()),
        ..model::float_scalar(2.0)
    };
    let graph = GraphProto {
        node: nodes,
        input: vec![
            value("x", FLOAT16, &[Some(2)]),
            value("x2", FLOAT16, &[Some(2)]),
            value("f", FLOAT, &[Some(2)]),
            value("c", BOOL, &[]),
            value("n", INT64, &[]),
        ],
        output: vec![model::untyped("y")],
        initializer: vec![halves("w"), of_floats],
        ..GraphProto::default()
    };
    ModelProto {
        graph: graph.into(),
        ..ModelProto::default()
    }
}

/// The nodes as text, with those of graphs within behind them.
fn text(nodes: &[NodeProto]) -> Vec<String> {
    let mut lines = Vec::new();
    for node in nodes {
        let to = node.int("to").value().map(|to| format!("<{to}>"));
        let [outputs, inputs] = [&node.output, &node.input].map(|it| it.join(" "));
        let (op, to) = (node.op(), to.unwrap_or_default());
        lines.push(format!("{outputs} = {op}{to}({inputs})"));
        for graph in node.graphs() {
            let outputs: Vec<&str> = graph.outputs().collect();
            lines.extend(text(&graph.node).iter().map(|line| format!("  {line}")));
            lines.push(format!("  return {}", outputs.join(" ")));
        }
    }
    lines
}

/// Checks what becomes of nodes: a paragraph each, the nodes before `=>`.
#[track_caller]
fn check(rows: &str) {
    for row in rows.split("\n\n") {
        let lines = row.lines().map(str::trim).filter(|it| !it.starts_with('#'));
        let row = lines.collect::<Vec<_>>().join("\n");
        let (before, after) = row.split_once(" =>\n").unwrap();
        let mut model = model(before);
        assert!(compute_halves_in_floats(&mut model), "{before}");
        let found = text(&model.graph.node);
        assert!(
            found.iter().map(|it| it.trim()).eq(after.lines()),
            "{before}: {found:?}"
        );
    }
}

#[test]
fn they_are_floats_between_what_a_program_sees() {
    check(
        "a = MatMul(x, w)
         y = Tanh(a) =>
         x.float32 = Cast<1>(x)
         a = MatMul(x.float32 w.float32)
         y.float32 = Tanh(a)
         y = Cast<10>(y.float32)

         # Moved as they are, until something computes.
         a = Concat<axis=0>(x, w)
         b = ReverseSequence(a, n)
         c2 = Exp(b)
         y = Transpose(c2) =>
         a = Concat(x w)
         b = ReverseSequence(a n)
         b.float32 = Cast<1>(b)
         c2 = Exp(b.float32)
         y.float32 = Transpose(c2)
         y = Cast<10>(y.float32)

         a = Exp(x)
         y = Where(c, a, x2) =>
         x.float32 = Cast<1>(x)
         x2.float32 = Cast<1>(x2)
         a = Exp(x.float32)
         y.float32 = Where(c a x2.float32)
         y = Cast<10>(y.float32)

         # A model's own casts round, and others do not.
         a = Cast<to=10>(f)
         b = Exp(a)
         d = Cast<to=1>(b)
         e = Cast<to=10>(d)
         y = Cast<to=11>(e) =>
         a = Cast<10>(f)
         a.float32 = Cast<1>(a)
         b = Exp(a.float32)
         d = Cast<1>(b)
         e = Cast<10>(d)
         y = Cast<11>(e)

         # Operators of other types, truth values and positions.
         a = Exp(f)
         k, i = TopK(x, n)
         b = Less(k, x2)
         d = Cast<to=10>(i)
         y = Where(b, d, x) =>
         x.float32 = Cast<1>(x)
         x2.float32 = Cast<1>(x2)
         a = Exp(f)
         k i = TopK(x.float32 n)
         b = Less(k x2.float32)
         d = Cast<10>(i)
         y = Where(b d x)

         # The range, the bits and the type of half floats are meant.
         a = Exp(x)
         y = IsInf(a) =>
         x.float32 = Cast<1>(x)
         a = Exp(x.float32)
         a.float16 = Cast<10>(a)
         y = IsInf(a.float16)

         a = Exp(x)
         b = CastLike(f, a)
         y = Exp(b) =>
         x.float32 = Cast<1>(x)
         a = Exp(x.float32)
         a.float16 = Cast<10>(a)
         b = CastLike(f a.float16)
         b.float32 = Cast<1>(b)
         y.float32 = Exp(b.float32)
         y = Cast<10>(y.float32)

         a = Exp(x)
         y = Shape(a) =>
         x.float32 = Cast<1>(x)
         a = Exp(x.float32)
         y = Shape(a)

         # Sums into places compute, and copies move.
         a = ScatterElements(x, n, w)
         y = ScatterElements<reduction=add>(a, n, x2) =>
         x2.float32 = Cast<1>(x2)
         a = ScatterElements(x n w)
         a.float32 = Cast<1>(a)
         y.float32 = ScatterElements(a.float32 n x2.float32)
         y = Cast<10>(y.float32)

         # Constants are floats from the start, or both.
         a = Constant()
         b = ConstantOfShape(n)
         d = Concat<axis=0>(a, x)
         e = Add(a, b)
         y = Sum(e, d) =>
         a = Constant()
         a.float32 = Constant()
         b.float32 = ConstantOfShape(n)
         d = Concat(a x)
         d.float32 = Cast<1>(d)
         e = Add(a.float32 b.float32)
         y.float32 = Sum(e d.float32)
         y = Cast<10>(y.float32)

         y, m, v, s = microsoft.SkipLayerNormalization(x, x2, w)
         z = Exp(m)
         t = Exp(s) =>
         x.float32 = Cast<1>(x)
         x2.float32 = Cast<1>(x2)
         y.float32 m v s = SkipLayerNormalization(x.float32 x2.float32 w.float32)
         y = Cast<10>(y.float32)
         z = Exp(m)
         t = Exp(s)",
    );
}

#[test]
fn branches_and_loops_hold_a_value_in_one_way() {
    check(
        "a = If<then_branch=@same;else_branch=@computed>(c)
         y = Transpose(a) =>
         x.float32 = Cast<1>(x)
         a = If(c)
           s = Identity(x)
           s.float32 = Cast<1>(s)
           return s.float32
           o = Exp(x.float32)
           return o
         y.float32 = Transpose(a)
         y = Cast<10>(y.float32)

         a, y = Loop<body=@moved>(n, c, x) =>
         a y = Loop(n c x)
           o = Identity(on)
           p = Transpose(v)
           s = Identity(p)
           return o p s

         # The body's sum makes floats of the state before it.
         a, b = Loop<body=@summed>(n, c, w)
         y = Concat<axis=0>(a, b) =>
         x.float32 = Cast<1>(x)
         a b = Loop(n c w.float32)
           o = Identity(on)
           p = Add(v x.float32)
           s = Identity(v)
           return o p s
         y.float32 = Concat(a b)
         y = Cast<10>(y.float32)

         # A scanned value stays what it is.
         a, y = Scan<body=@step;num_scan_inputs=1>(x, x2) =>
         x.float32 = Cast<1>(x)
         a y = Scan(x.float32 x2)
           e.float32 = Cast<1>(e)
           p = Mul(v e.float32)
           s = Identity(e)
           return p s",
    );
}

#[test]
fn models_that_are_not_known_stay_as_they_are() {
    let rows = [
        "y = my.Function(x)",
        "a = Exp(x)\ny = microsoft.Strange(a)",
        "y = SequenceMap<body=@step>(x)",
    ];
    for before in rows {
        let mut after = model(before);
        assert!(!compute_halves_in_floats(&mut after), "{before}");
        assert_eq!(after, model(before));
    }
    let mut plain = model("y = Exp(f)");
    plain.graph.get_or_insert_default().input.drain(..2);
    plain.graph.get_or_insert_default().initializer.clear();
    let before = plain.clone();
    assert!(!compute_halves_in_floats(&mut plain));
    assert_eq!(plain, before);
}

#[test]
fn constants_are_widened_and_inputs_with_defaults_are_not() {
    let mut model = model("y = Add(w, x)");
    assert!(compute_halves_in_floats(&mut model));
    let named = |model: &ModelProto, name: &str| {
        let mut tensors = model.graph.initializer.iter();
        tensors.find(|it| it.name() == name).cloned()
    };
    assert_eq!(named(&model, "w"), None);
    let wide = named(&model, "w.float32").expect("the floats of w");
    let bits = [0x3fc0_0000_u32, 0x7fe0_2000];
    let bits = bits.into_iter().flat_map(u32::to_le_bytes);
    assert_eq!((wide.code(), &*wide.dims), (FLOAT, &[2][..]));
    assert_eq!(wide.raw(), bits.collect::<Vec<_>>());

    let mut model = super::halves::model("y = Add(w, x)");
    let graph = model.graph.get_or_insert_default();
    graph.input.push(value("w", FLOAT16, &[Some(2)]));
    assert!(compute_halves_in_floats(&mut model));
    assert!(named(&model, "w").is_some() && named(&model, "w.float32").is_none());
    let casts = ["x.float32 = Cast<1>(x)", "w.float32 = Cast<1>(w)"];
    assert_eq!(text(&model.graph.node)[..2], casts);
}
