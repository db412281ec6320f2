//! The form that tract reads: matches and near misses of each pass.

use buffa::MessageField;

use super::{filled, models, named, of_runtime, read, value};
use crate::model::{
    self, AttributeProto, BOOL, FLOAT, FunctionProto, GraphProto, INT8, INT16, INT64, ModelProto,
    NodeProto, OperatorSetIdProto, TensorProto, UINT8,
};
use crate::{Error, Outcome, Report, Step, for_tract, rewrite_messages};
use revseq_test_models::text::{self, nodes};

/// A graph with output `y`, inputs float `x` of sizes 1, 3 and unknown, Boolean `c` and int64 `n`,
/// and constants.
pub(super) fn model(text: &str, opset: i64) -> ModelProto {
    let inner = "
        @then: -> o
            s = Neg(x)
            o = Abs(s)
        @else: -> o
            o = Exp(x)
        @steps: a v -> b s
            b = Add(a, v)
            s = Neg(b)";
    let (lists, states) = (super::lists::BODIES, super::states::BODIES);
    let scalar = |name: &str, code: i32, raw: &[u8]| TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(code),
        raw_data: Some(raw.to_vec()),
        ..TensorProto::default()
    };
    let integer = |name: &str, value: i64| scalar(name, INT64, &value.to_le_bytes());
    let float = |name: &str, value: f32| scalar(name, FLOAT, &value.to_le_bytes());
    let vector = |name: &str, values: &[i64]| {
        named(name, model::int64_tensor(&[values.len() as i64], values))
    };
    let graph = GraphProto {
        node: nodes(&format!("{text}\n{inner}\n{lists}\n{states}")),
        input: vec![
            value("x", FLOAT, &[Some(1), Some(3), None]),
            value("c", BOOL, &[]),
            value("n", INT64, &[]),
        ],
        output: vec![model::untyped("y")],
        initializer: vec![
            scalar("true", BOOL, &[1]),
            scalar("false", BOOL, &[0]),
            integer("0", 0),
            integer("1", 1),
            integer("2", 2),
            integer("-1", -1),
            integer("3", 3),
            float("half", 0.5),
            vector("[0]", &[0]),
            vector("one", &[1]),
            vector("two", &[2]),
            vector("three", &[3]),
            vector("axis", &[2]),
            vector("lengths", &[1, 2]),
            vector("behind", &[0, 1, 0, 0, 2, 0]),
            vector("removed", &[0, -1, 0, 0, 2, 0]),
            integer("huge", 1 << 32),
            named("column", model::int64_tensor(&[2, 1], &[1, 2])),
            named("table", model::int64_tensor(&[2, 2], &[0, 1, 0, 1])),
            scalar("byte", UINT8, &[3]),
            scalar("signed byte", INT8, &[3]),
            scalar("word", INT16, &[3, 0]),
            TensorProto {
                dims: vec![3],
                ..scalar("bytes", UINT8, &[1, 2, 3])
            },
            named("scales", filled(&[3], 0.5)),
            named("scale", filled(&[1], 0.5)),
        ],
        ..GraphProto::default()
    };
    ModelProto {
        graph: MessageField::some(graph),
        opset_import: vec![import("", opset), import("com.microsoft", 1)],
        ..ModelProto::default()
    }
}

fn import(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
        ..OperatorSetIdProto::default()
    }
}

/// Brings a model into the form, and checks that it has it.
pub(super) fn brought(model: &ModelProto) -> (ModelProto, Report) {
    let options = of_runtime("tract");
    let mut once = model.clone();
    let report = rewrite_messages(&mut once, &options).expect("it can be brought into the form");
    let mut again = once.clone();
    rewrite_messages(&mut again, &options).expect("it can be brought into the form");
    assert_eq!(once, again, "{report:?}");
    let (before, after) = (&model.graph, &once.graph);
    assert_eq!(
        before.as_option().map(|it| (&it.input, &it.output)),
        after.as_option().map(|it| (&it.input, &it.output))
    );
    (once, report)
}

pub(super) fn graph(model: &ModelProto) -> &GraphProto {
    model.graph.as_option().expect("a graph")
}

/// The operators of a graph, without constants; those of other domains than ONNX's own with a domain.
fn operators(model: &ModelProto) -> String {
    let nodes = graph(model).node.iter().filter(|it| it.op() != "Constant");
    let operators = nodes.map(|node| match node.domain().rsplit('.').next() {
        Some("") | None => node.op().to_owned(),
        Some(domain) => format!("{domain}.{}", node.op()),
    });
    operators.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_form_becomes_one_that_tract_reads() {
    let rows = "# Conditions computed from constants, ranks and declared sizes.
         y = If<then_branch=@then;else_branch=@else>(true) => Neg Abs
         y = If<then_branch=@then;else_branch=@else>(false) => Exp
         k = Not(true)
         y = If<then_branch=@then;else_branch=@else>(k) => Exp
         s = Shape(x)
         r = Size(s)
         k = Equal(r, 3)
         y = If<then_branch=@then;else_branch=@else>(k) => Neg Abs
         s = Shape(x)
         d = Gather(s, 1)
         k = Less(d, 2)
         y = If<then_branch=@then;else_branch=@else>(k) => Exp
         s = Shape(x)
         p = Slice(s, [0], [0])
         k = Equal(p, 1)
         a = ReduceMin(k)
         y = If<then_branch=@then;else_branch=@else>(a) => Shape Slice Equal ReduceMin If
         # Conditions that depend on the inputs.
         s = Shape(x)
         d = Gather(s, 2)
         k = Equal(d, 1)
         y = If<then_branch=@then;else_branch=@else>(k) => Shape Gather Equal If
         y = If<then_branch=@then;else_branch=@else>(c) => If
         # Scans of opset 8, and without types.
         8: many = Concat<axis=0>(x, x)
         y, z = Scan<body=@steps;num_scan_inputs=1>(_, many, many)
         => Concat Shape Cast Gather Cast Gather Loop
         8: y, z = Scan<body=@steps;num_scan_inputs=1>(_, x, x)
         => Squeeze Shape Cast Gather Loop Unsqueeze
         y, z = Scan<body=@steps;num_scan_inputs=1>(x, x) => Shape Gather Loop
         # The number of elements that are not 0.
         p = NonZero(x)
         y = Shape(p) => Cast Cast Reshape ReduceSum Unsqueeze Shape Shape Concat
         p = NonZero(x)
         s = Shape(p)
         y = Add(s, p) => NonZero Shape Add
         # A DFT.
         y = DFT<axis=2>(x) => DFT
         y = DFT<axis=1>(x) => DFT
         r = Reshape(x, u)
         y = DFT<axis=2>(r)
         => Reshape Shape Slice Concat ReduceProd Slice Concat Reshape DFT Shape Slice Concat Reshape
         # Scalar limits.
         y = NonMaxSuppression(x, x, n, half) => Reshape NonMaxSuppression
         y = NonMaxSuppression(x, x, [0]) => NonMaxSuppression
         # Statistics of a batch, and the other end of an axis.
         y, m, v = BatchNormalization<training_mode=1>(x, x, x, x, x)
         => ReduceMean Sub Mul ReduceMean Add Unsqueeze Sqrt Div Mul Add
         y = BatchNormalization(x, x, x, x, x) => Unsqueeze Sub Add Sqrt Div Mul Add
         y = BatchNormalization(x, half, half, half, half) => BatchNormalization
         19: y = Pad<mode=wrap>(x, behind) => Shape Gather Add Range Mod Gather
         19: y = Pad<mode=wrap>(x, removed) => Pad
         19: y = Pad<mode=edge>(x, behind) => Pad
         # Products of matrices, and others.
         y = Einsum<equation=abc,acd->abd>(x, x) => Einsum
         y = Einsum<equation=abc,dba->abcd>(x, x) => Unsqueeze Transpose Unsqueeze Mul
         m = Shape(x)
         y = Einsum<equation=abc,c->ab>(x, m) => Shape Unsqueeze Mul ReduceSum
         y = Einsum<equation=abc,abc->>(x, x) => Mul ReduceSum
         y = Einsum<equation=abc,cde,eaf->bd>(x, x, x) => Einsum Einsum
         y = Einsum<equation=abc,abc,cde->abcde>(x, x, x) => Mul Unsqueeze Unsqueeze Mul
         y = Einsum<equation=...c,c->...>(x, n) => Einsum
         y = Einsum<equation=aba,a->ab>(x, n) => Einsum
         # Values that are not read, and scalars in lists.
         19: y = Pad<mode=edge>(x, behind, half) => Pad
         19: y = Pad(x, behind, one) => Pad
         y = CumSum(x, [0]) => CumSum
         k = Neg([0])
         y = Trilu(x, k) => Neg Reshape Trilu
         # Operators that ONNX Runtime fuses and quantises.
         y = microsoft.FusedGemm<activation=Relu>(x, x, x) => Gemm Relu
         y = microsoft.FusedGemm<activation=Selu>(x, x, x) => Gemm Selu
         y = microsoft.FusedGemm<activation=Gelu>(x, x, x) => microsoft.FusedGemm
         y = microsoft.FusedConv<activation=Tanh>(x, x, _, x) => Conv Add Tanh
         y = microsoft.FusedMatMul<transB=1>(x, x) => Transpose MatMul
         g = microsoft.QuickGelu(x)
         h = microsoft.FusedMatMul(g, x)
         y = microsoft.FusedMatMul<transA=1>(h, x) => microsoft.QuickGelu MatMul Transpose MatMul
         y = microsoft.Gelu(x) => CastLike CastLike CastLike Div Erf Add Mul Mul
         11: y = microsoft.Gelu(x) => Div Erf Add Mul Mul
         y = microsoft.DynamicQuantizeMatMul(x, x, half)
         => DynamicQuantizeLinear MatMulInteger Cast Mul Mul
         y = microsoft.QLinearAdd(bytes, half, byte, bytes, half, byte, half, byte)
         => DequantizeLinear Add QuantizeLinear
         y = microsoft.QLinearAdd(x, half, _, x, half, _, half) => microsoft.QLinearAdd
         y = microsoft.QLinearWhere(c, bytes, half, byte, bytes, half, byte, half, byte)
         => DequantizeLinear Where QuantizeLinear
         y = microsoft.QLinearGlobalAveragePool(bytes, half, byte, half, byte)
         => DequantizeLinear GlobalAveragePool QuantizeLinear
         y = microsoft.QLinearAveragePool<kernel_shape=[2];channels_last=1>(bytes, half, byte, half, byte)
         => DequantizeLinear Transpose AveragePool Transpose QuantizeLinear
         y = microsoft.QLinearGlobalAveragePool<channels_last=1>(q, half, byte, half, byte)
         => microsoft.QLinearGlobalAveragePool
         # There is no axis of channels.
         y = microsoft.QLinearGlobalAveragePool<channels_last=1>(bytes, half, byte, half, byte)
         => microsoft.QLinearGlobalAveragePool
         y = microsoft.QLinearConv<channels_last=1>(q, half, byte, x, half, byte, half, byte)
         => Transpose QLinearConv Transpose
         y = microsoft.NhwcMaxPool<kernel_shape=[2]>(q) => Transpose MaxPool Transpose
         # A Softmax over all axes from one on is that over the last one only there.
         y = microsoft.QLinearSoftmax<axis=0;opset=13>(bytes, half, byte, half, byte)
         => DequantizeLinear Softmax QuantizeLinear
         y = microsoft.QLinearSoftmax<axis=0;opset=11>(bytes, half, byte, half, byte)
         => DequantizeLinear Softmax QuantizeLinear
         y = microsoft.QLinearSoftmax<axis=1;opset=11>(u, half, byte, half, byte) => microsoft.QLinearSoftmax
         y = microsoft.QGemm<transB=1>(bytes, half, byte, bytes, scales, byte, n, half, byte)
         => Transpose MatMulInteger Add Cast Mul Mul QuantizeLinear
         y = microsoft.QGemm(bytes, half, byte, bytes, half, byte) => MatMulInteger Cast Mul Mul
         y = microsoft.MatMulNBits<K=3;N=2;block_size=2;bits=8>(x, u, scales, bytes)
         => Reshape Reshape Reshape DequantizeLinear Reshape Slice Transpose MatMul
         y = microsoft.MatMulNBits<K=4;N=2;block_size=2;bits=8>(x, u, scales, _, _, scales)
         => Reshape Reshape Expand DequantizeLinear Reshape Transpose MatMul Add
         y = microsoft.MatMulNBits<K=4;N=2;block_size=2>(x, u, scales) => microsoft.MatMulNBits
         y = microsoft.DynamicQuantizeLSTM(x, x, x) => microsoft.DynamicQuantizeLSTM
         # The same names in other domains.
         y = my.Gelu(x) => my.Gelu";
    check(rows);
}

/// Checks the operators, without constants, that each graph has in the form, or a reason why nodes are left:
/// `=> ! reason`. A number before its first node is the version of ONNX's operators.
pub(super) fn check(rows: &str) {
    for (text, expected) in text::rows(rows) {
        let (version, nodes) = text.split_once(": ").unwrap_or(("17", &text));
        let model = model(nodes, version.parse().expect("a version"));
        let (after, report) = brought(&model);
        match expected.strip_prefix("! ") {
            Some(why) => {
                let is_it = |step: &Step| matches!(&step.outcome, Outcome::LeftAlone(it) if it.contains(why));
                assert!(report.steps.iter().any(is_it), "{text}\n{report:#?}");
            }
            None => assert_eq!(operators(&after), expected, "{text}\n{report:?}"),
        }
        let changed = report.rewritten().next().is_some();
        assert_eq!(changed, after.graph != model.graph, "{text}");
        let changes = for_tract(&mut model.clone()).expect("it can be prepared");
        assert_eq!(changes, changed, "{text}");
    }
}

#[test]
fn a_fused_product_moves_the_axis_of_rows_behind_the_batch() {
    for (attributes, perm) in [
        ("transA=1", [0, 2, 1]),
        ("transBatchA=1", [1, 0, 2]),
        ("transA=1;transBatchA=1", [1, 2, 0]),
    ] {
        let text = format!("y = microsoft.FusedMatMul<{attributes}>(x, x)");
        let (after, _) = brought(&model(&text, 17));
        assert_eq!(operators(&after), "Transpose MatMul");
        let found = graph(&after).node[0].ints("perm").value();
        assert_eq!(found, Some(&perm[..]), "{attributes}");
    }
}

#[test]
fn a_dft_counts_its_axis_from_the_end() {
    let (after, _) = brought(&model("y = DFT<axis=2>(x)", 17));
    assert_eq!(graph(&after).node[0].int("axis").value(), Some(-1));
    // From opset 20 on the axis is an input; if absent, tract assumes the second axis.
    let (after, _) = brought(&model("y = DFT(x)", 20));
    assert_eq!(graph(&after).node[1].input.len(), 3);
    // Of a shape of any rank, whose sizes may be 0.
    let (after, _) = brought(&model("r = Reshape(x, u)\ny = DFT<axis=2>(r)", 17));
    assert_eq!(copies_of_sizes(&after), [true, false, false]);
}

/// Whether each Reshape reads a size of 0 as that of its input's axis.
pub(super) fn copies_of_sizes(model: &ModelProto) -> Vec<bool> {
    let nodes = graph(model).node.iter().filter(|node| node.is("Reshape"));
    nodes
        .map(|node| node.int("allowzero").or(0) != Some(1))
        .collect()
}

#[test]
fn a_dft_has_the_length_of_its_axis() {
    // x is [1,3,?].
    let rows = "17: y = DFT<axis=1>(x, 3) => DFT
        17: y = DFT<axis=1>(x, 2) => Reshape Slice Shape Slice Sub Max Concat Pad DFT
        17: y = DFT<inverse=1>(x, n) => Reshape Slice Shape Slice Sub Max Concat Pad DFT
        20: y = DFT(x, 3, 1) => DFT
        17: y = DFT<inverse=1;onesided=1>(x, 2) => DFT
        20: y = DFT(x, 3, n) => DFT";
    for (row, expected) in text::rows(rows) {
        let (opset, text) = row.split_once(": ").expect("a version and a node");
        let opset = opset.parse().expect("a version");
        let mut model = model(text, opset);
        let constants = &mut model.graph.get_or_insert_default().initializer;
        constants.push(named("3", model::int64_tensor(&[], &[3])));
        let (after, _) = brought(&model);
        assert_eq!(operators(&after), expected, "{text}");
        let last = graph(&after).node.last().expect("a node");
        let is_left = text.contains("onesided") || text.ends_with("n)") && opset == 20;
        assert_eq!(last.input(1).is_some(), is_left, "{text}");
    }
    let mut stft = model("y = STFT(x, 2, w, n)", 17);
    stft.graph.get_or_insert_default().input[0] = value("x", FLOAT, &[None, None]);
    assert_eq!(operators(&brought(&stft).0), "Unsqueeze STFT");
}

#[test]
fn features_are_gathered() {
    for (rank, expected) in [
        (1, "Reshape Unsqueeze Gather"),
        (2, "Reshape Gather"),
        (3, "Reshape Gather"),
    ] {
        let mut model = model("y = ArrayFeatureExtractor(x, n)", 17);
        let found = model.graph.get_or_insert_default();
        found.node[0].domain = Some("ai.onnx.ml".to_owned());
        found.input[0] = value("x", FLOAT, &vec![None; rank]);
        let (after, _) = brought(&model);
        assert_eq!(operators(&after), expected, "{rank}");
        let axis = graph(&after)
            .node
            .last()
            .and_then(|node| node.int("axis").value());
        assert_eq!(axis, Some(if rank == 3 { 2 } else { 1 }), "{rank}");
    }
}

#[test]
fn pads_of_a_transposed_convolution_follow_from_its_output() {
    // x is [2,3,4,5]; the weights have 3 output channels, and 3x3 elements.
    for (attributes, pads) in [
        ("output_shape=[8,10];strides=[2,2]", Some([1, 1, 0, 0])),
        ("output_shape=[2,3,8,10];strides=[2,2]", Some([1, 1, 0, 0])),
        ("output_shape=[7,9];strides=[2,2]", Some([1, 1, 1, 1])),
        (
            "output_shape=[8,10];strides=[2,2];auto_pad=SAME_UPPER",
            Some([0, 0, 1, 1]),
        ),
        (
            "output_padding=[1,0];strides=[2,1];auto_pad=SAME_LOWER",
            Some([1, 1, 1, 1]),
        ),
        ("auto_pad=SAME_UPPER;strides=[4,1]", Some([0, 1, 0, 1])),
        // It grows behind.
        ("output_shape=[10,12];strides=[2,2]", Some([0, 0, 0, 0])),
        ("output_padding=[1,1];strides=[2,2]", None),
    ] {
        let mut model = model(&format!("y = ConvTranspose<{attributes}>(x, w)"), 17);
        let sizes = |sizes: [i64; 4]| sizes.map(Some);
        let inputs = &mut model.graph.get_or_insert_default().input;
        inputs[0] = value("x", FLOAT, &sizes([2, 3, 4, 5]));
        inputs.push(value("w", FLOAT, &sizes([3, 3, 3, 3])));
        let (after, _) = brought(&model);
        let node = graph(&after).node[0].clone();
        let found = node.ints("pads").value();
        assert_eq!(found, pads.as_ref().map(|it| &it[..]), "{attributes}");
        let is_sized = node.ints("output_shape").value().is_some();
        assert!(pads.is_none() || !is_sized, "{attributes}");
        let added = match attributes {
            "output_shape=[10,12];strides=[2,2]" => Some(&[1, 1][..]),
            "auto_pad=SAME_UPPER;strides=[4,1]" => Some(&[1, 0][..]),
            "output_padding=[1,1];strides=[2,2]" => Some(&[1, 1][..]),
            "output_padding=[1,0];strides=[2,1];auto_pad=SAME_LOWER" => Some(&[1, 0][..]),
            _ => None,
        };
        assert_eq!(node.ints("output_padding").value(), added, "{attributes}");
    }
}

#[test]
fn a_layer_normalization_in_parts_is_one() {
    const PARTS: &str = "r = Transpose<perm=[0,2,1]>(x)
        m = ReduceMean<axes=[-1]>(r)
        d = Sub(r, m)
        p = Pow(d, 2)
        v = ReduceMean<axes=[-1]>(p)
        e = Add(v, half)
        s = Sqrt(e)
        q = Div(d, s)
        k = Mul(q, scales)
        y = Add(k, scales)";
    let one = "Transpose LayerNormalization";
    let parts = "Transpose ReduceMean Sub Pow ReduceMean Add Sqrt Div Mul Add";
    let rows = "r -> r => one
        Pow(d, 2) -> Mul(d, d) => one
        p = Pow(d, 2) -> c = Sub(r, m); p = Mul(c, c) => one
        q = Div(d, s) -> f = Reciprocal(s); q = Mul(f, d) => one
        k = Mul(q, scales) -> k = Mul(scales, q) => one
        (v, half) -> (half, v) => one
        (k, scales) -> (half, k) => one
        axes=[-1] -> axes=[2] => one
        Pow(d, 2) -> Pow(d, 3) => parts
        ReduceMean<axes=[-1]>(p) -> ReduceMean<axes=[-2]>(p) => parts
        ReduceMean<axes=[-1]>(r) -> ReduceMean<axes=[-1]>(half) => parts
        (v, half) -> (v, scales) => parts
        axes=[-1] -> axes=[1] => parts
        axes=[-1] -> axes=[-1];keepdims=0 => parts
        # Rows as long as the scale may not be those of the input.
        perm=[0,2,1] -> perm=[0,1,2] => parts
        Mul(q, scales) -> Mul(q, r) => parts";
    for (change, expected) in text::rows(rows) {
        let (from, to) = change.split_once(" -> ").expect("a change");
        let text = PARTS.replace(from, &to.replace("; ", "\n"));
        let (after, report) = brought(&model(&text, 17));
        let expected = if expected == "one" { one } else { parts };
        assert_eq!(operators(&after), expected, "{text}\n{report:#?}");
    }
    // A file keeps to its version, but tract's reader does not.
    let mut before = model(PARTS, 13);
    assert_eq!(operators(&brought(&before).0), parts);
    for_tract(&mut before).expect("it can be prepared");
    assert_eq!(operators(&before), one);
}

#[test]
fn attention_of_unknown_heads_stays() {
    let rows = "1 2 3 4: y = Attention(x, x, x) => written
        1 3 4: y = Attention<q_num_heads=2;kv_num_heads=2>(x, x, x) => written
        1 3 4: y = Attention(x, x, x) => stays
        1 3 6: y = Attention<q_num_heads=3;kv_num_heads=2>(x, x, x) => stays
        1 3 4: y = Attention<q_num_heads=3;kv_num_heads=3>(x, x, x) => stays
        1 ? 3 4: y = Attention(x, x, x) => stays
        3 4: y = Attention(x, x, x) => stays";
    for (row, expected) in text::rows(rows) {
        let (sizes, node) = row.split_once(": ").expect("sizes and a node");
        let mut model = model(node, 23);
        let sizes: Vec<Option<i64>> = sizes.split(' ').map(|it| it.parse().ok()).collect();
        model.graph.get_or_insert_default().input[0] = value("x", FLOAT, &sizes);
        let (after, _) = brought(&model);
        let stays = operators(&after).contains("Attention");
        assert_eq!(stays, expected == "stays", "{row}");
    }
}

/// A function `my.F` with input `u` and output `v`.
fn function(name: &str, text: &str, defaults: &[AttributeProto]) -> FunctionProto {
    FunctionProto {
        name: Some(name.to_owned()),
        domain: Some("my".to_owned()),
        input: vec!["u".to_owned(), "w".to_owned()],
        output: vec!["v".to_owned(), "t".to_owned()],
        node: nodes(&format!(
            "{text}\n@inner: -> o\n s = Neg(u)\n o = Add(s, t)"
        )),
        attribute_proto: defaults.to_vec(),
        opset_import: vec![import("", 17), import("other", 3)],
        ..FunctionProto::default()
    }
}

fn refer(node: &mut NodeProto, attribute: &str, to: &str) {
    node.attribute.push(AttributeProto {
        name: Some(attribute.to_owned()),
        ref_attr_name: Some(to.to_owned()),
        ..AttributeProto::default()
    });
}

#[test]
fn functions_are_inlined_with_unique_names() {
    let mut model = model("t, s = my.F<a=2>(x)\ny, _ = my.F(t, s)", 17);
    let mut outer = function(
        "F",
        "t, o = my.G(u)\nv = If<then_branch=@inner;else_branch=@inner>(w)",
        &[model::int("a", 1)],
    );
    refer(&mut outer.node[0], "b", "a");
    let mut inner = function("G", "v = Softmax(u)\nt = other.Op(u)", &[]);
    inner.node[0].attribute.clear();
    refer(&mut inner.node[0], "axis", "b");
    model.functions = vec![
        outer,
        inner,
        function("Unused", "v = Neg(u)\nt = Neg(w)", &[]),
    ];
    let (after, _) = brought(&model);

    assert!(after.functions.is_empty());
    assert_eq!(operators(&after), "Softmax If Softmax If");
    let nodes = &graph(&after).node;
    // The attribute of the call, or else the function's default.
    let axes: Vec<_> = [0, 2].map(|at: usize| nodes[at].int("axis").value()).into();
    assert_eq!(axes, [Some(2), Some(1)]);
    // An omitted input stays omitted.
    assert_eq!(nodes[1].input, [""]);
    assert_eq!(nodes[3].input, ["s"]);
    // Inlined nodes are named after the call.
    assert_eq!(nodes[0].name.as_deref(), Some("F#0/F/G#0/G/Softmax#0"));
    let mut values: Vec<&str> = Vec::new();
    for node in nodes {
        values.extend(node.outputs());
        for inner in node.graphs().flat_map(|graph| &graph.node) {
            values.extend(inner.outputs());
        }
    }
    let count = values.len();
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), count, "{values:?}");
    // The domains of inlined nodes are imported.
    let imported = after.opset_import.iter();
    assert!(
        imported
            .clone()
            .any(|it| it.domain.as_deref() == Some("other"))
    );
}

#[test]
fn functions_of_another_version_keep_their_meaning() {
    // Softmax changed its meaning in opset 13; Abs did not.
    for (operator, version, expected) in [
        ("Softmax", 11, "my.F"),
        ("Softmax", 13, "Softmax"),
        ("Abs", 11, "Abs"),
    ] {
        let mut model = model("y, _ = my.F(x)", 17);
        let mut callee = function("F", &format!("v = {operator}(u)\nt = Neg(u)"), &[]);
        callee.opset_import = vec![import("", version)];
        model.functions = vec![callee];
        let (after, report) = brought(&model);
        assert_eq!(operators(&after), expected, "{report:?}");
        assert_eq!(after.functions.is_empty(), expected != "my.F");
    }
}

#[test]
fn functions_that_never_end_are_an_error() {
    let chain = |count: usize| -> Vec<FunctionProto> {
        let call = |to: usize| format!("v, t = my.F{to}(u)\np, q = my.F{to}(v)");
        (0..count)
            .map(|at| function(&format!("F{at}"), &call((at + 1) % (count + 1)), &[]))
            .chain([function(
                &format!("F{count}"),
                "v = Neg(u)\nt = Neg(u)",
                &[],
            )])
            .collect()
    };
    let cases = [
        // Each function calls the next one twice.
        ("doubles", chain(40), false),
        ("few", chain(3), true),
        (
            "deep",
            (0..80)
                .map(|at| function(&format!("F{at}"), &format!("v, t = my.F{}(u)", at + 1), &[]))
                .collect(),
            false,
        ),
        (
            "itself",
            vec![function("F0", "v, t = my.F0(u)", &[])],
            false,
        ),
    ];
    for (what, functions, fits) in cases {
        let mut model = model("y, _ = my.F0(x)", 17);
        model.functions = functions;
        match for_tract(&mut model) {
            Ok(_) => assert!(fits, "{what}"),
            Err(error) => assert!(
                matches!(error, Error::Functions { .. }) && !fits,
                "{what}: {error}"
            ),
        }
    }
}

#[test]
fn branches_distinguish_outer_values() {
    // Names that occur in both branches, a name that the outer graph defines too, an initializer,
    // and an outer value that is passed through.
    let mut model = model(
        "s = Exp(x)\na = If<then_branch=@then;else_branch=@else>(true)\nb = If<then_branch=@then;else_branch=@else>(true)\ny = Sum(a, b, s)",
        17,
    );
    let nodes = &mut model.graph.get_or_insert_default().node;
    let branch = nodes[2].graphs_mut().next().expect("a branch");
    branch
        .initializer
        .push(named("k", model::int64_tensor(&[], &[7])));
    branch.node[0] = model::node("Mul", &["s", "k"], &["m"], vec![]);
    branch.node[1] = model::node("Neg", &["m"], &["o"], vec![]);
    let (after, _) = brought(&model);
    assert_eq!(operators(&after), "Exp Neg Abs Mul Neg Sum");
    let nodes = &graph(&after).node;
    assert_eq!(nodes[0].output, ["s"]);
    assert!(
        nodes
            .iter()
            .any(|node| node.is("Mul") && node.input[0] == "s")
    );
    let constant = nodes
        .iter()
        .find(|node| node.is("Constant"))
        .expect("the tensor");
    assert_eq!(constant.name.as_deref(), Some("If#2/then_branch/k"));

    let mut model = super::tract::model("y = If<then_branch=@then;else_branch=@else>(true)", 17);
    let nodes = &mut model.graph.get_or_insert_default().node;
    let branch = nodes[0].graphs_mut().next().expect("a branch");
    branch.node.clear();
    branch.output = vec![model::untyped("x")];
    assert_eq!(operators(&brought(&model).0), "Identity");
}

#[test]
fn nodes_are_sorted_by_what_they_read() {
    let text = "y = Add(a, b)\nb = If<then_branch=@then;else_branch=@else>(k)\na = Neg(x)\nk = Cast<to=9>(a)";
    let (after, report) = brought(&model(text, 17));
    assert_eq!(operators(&after), "Neg Cast If Add");
    assert_eq!(report.steps.len(), 1, "{report:?}");
    // Values that a branch captures are sorted first as well.
    let mut later = model(
        "y = If<then_branch=@then;else_branch=@else>(c)\nx2 = Neg(x)",
        17,
    );
    let nodes = &mut later.graph.get_or_insert_default().node;
    let branch = nodes[0].graphs_mut().next().expect("a branch");
    branch.node[0].input[0] = "x2".to_owned();
    assert_eq!(operators(&brought(&later).0), "Neg If");
    // A branch's own value may share its name with a later one.
    let sorted = model(
        "y = If<then_branch=@then;else_branch=@else>(c)\ns = Neg(y)",
        17,
    );
    assert_eq!(operators(&brought(&sorted).0), "If Neg");
    // Cycles are left as they are.
    let circle = model("y = Add(a, x)\na = Neg(y)", 17);
    assert_eq!(operators(&brought(&circle).0), "Add Neg");
}

#[test]
fn a_scan_has_no_constants_among_the_inputs_of_its_body() {
    let mut model = model("y, z = Scan<body=@steps;num_scan_inputs=1>(x, x)", 17);
    let scan = &mut model.graph.as_option_mut().unwrap().node[0];
    let body = scan.graphs_mut().next().unwrap();
    body.input = ["a", "v"]
        .map(|name| value(name, FLOAT, &[Some(3), None]))
        .to_vec();
    body.input.push(value("unused", INT64, &[Some(1)]));
    body.initializer
        .push(named("unused", model::int64_tensor(&[1], &[0])));
    let (after, report) = brought(&model);
    assert_eq!(operators(&after), "Scan", "{report:?}");
    let nodes = &after.graph.as_option().unwrap().node;
    let body = nodes[0].graph("body").unwrap();
    assert_eq!(body.inputs().collect::<Vec<_>>(), ["a", "v"]);
}

/// Of `x`, of rank 3, and what is stacked of its parts.
#[test]
fn a_scan_counts_its_axes_from_the_front() {
    for (axes, expected, counted) in [
        ("[-1,-3]", "Scan", [&[2][..], &[2, 0]]),
        // An axis beyond the rank is none, however often it is counted.
        ("[-1,-9]", "Scan", [&[-1], &[-1, -9]]),
        // tract reverses all outputs or none, and a Loop stacks along the first axis.
        (
            "[-1,-3];scan_output_directions=[1,0]",
            "Shape Gather Loop Slice Transpose",
            [&[], &[]],
        ),
    ] {
        let scan = format!(
            "y, w, z = Scan<body=@steps;num_scan_inputs=1;scan_input_axes=[-1];scan_output_axes={axes}>(p, x)"
        );
        let mut model = model(&format!("p = Gather<axis=2>(x, first)\n{scan}"), 17);
        let graph = model.graph.as_option_mut().unwrap();
        graph
            .initializer
            .push(named("first", model::int64_tensor(&[], &[0])));
        graph.output.extend(["w", "z"].map(model::untyped));
        let body = graph.node[1].graphs_mut().next().unwrap();
        body.input = ["a", "v"].map(|name| value(name, FLOAT, &[])).to_vec();
        body.output.push(model::untyped("b"));
        let (after, report) = brought(&model);
        assert_eq!(
            operators(&after),
            format!("Gather {expected}"),
            "{report:?}"
        );
        let nodes = &after.graph.as_option().unwrap().node;
        if let Some(scan) = nodes.iter().find(|node| node.is("Scan")) {
            let lists = ["scan_input_axes", "scan_output_axes"];
            assert_eq!(lists.map(|it| scan.ints(it).value()), counted.map(Some));
        }
    }
}

#[test]
fn a_scan_whose_sizes_come_from_data_is_a_loop() {
    for (operator, expected) in [
        (
            "k = Greater(v, 2)\nt = Compress(v, k)\ns = Sum(t)",
            "Shape Gather Loop",
        ),
        ("s = Neg(v)", "Scan"),
    ] {
        let mut model = model("y, z = Scan<body=@steps;num_scan_inputs=1>(x, x)", 17);
        let scan = &mut model.graph.as_option_mut().unwrap().node[0];
        let body = scan.graphs_mut().next().unwrap();
        body.node = nodes(&format!("b = Add(a, v)\n{operator}"));
        body.input = ["a", "v"]
            .map(|name| value(name, FLOAT, &[Some(3), None]))
            .to_vec();
        let (after, report) = brought(&model);
        assert_eq!(operators(&after), expected, "{report:?}");
    }
}

#[test]
fn models_that_have_the_form_stay() {
    let changes = |path: &std::path::Path| {
        let (_, mut model) = read(path);
        let changes = for_tract(&mut model).expect("it can be prepared");
        assert!(!for_tract(&mut model).expect("it is"), "{path:?}");
        changes
    };
    let changed = models().iter().filter(|path| changes(path)).count();
    assert!((2..20).contains(&changed), "{changed}");
}
