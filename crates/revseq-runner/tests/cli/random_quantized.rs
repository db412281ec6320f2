//! Random operators between conversions from and to quantised numbers, on tract and on ONNX Runtime.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use prost::Message;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto};

use crate::common::{FLOAT, Folder, INT64, int, int64s, model, node, revseq, tensor, value};
use crate::ort::onnxruntime;

const UINT8: i32 = 2;
const INT8: i32 = 3;

/// The sizes of the input.
const SIZES: [usize; 4] = [2, 3, 4, 4];

#[derive(Clone, Copy, Debug)]
struct Params {
    scale: f32,
    zero: u8,
    is_signed: bool,
    /// The axis along which they differ, if they do.
    axis: Option<usize>,
}

/// Operators whose result has the shape of their input.
const SAME: [&str; 18] = [
    "Sigmoid",
    "Tanh",
    "Relu",
    "HardSigmoid",
    "LeakyRelu",
    "Neg",
    "Softmax",
    "LogSoftmax",
    "LayerNormalization",
    "InstanceNormalization",
    "Clip",
    "Add",
    "Mul",
    "Where",
    "CumSum",
    "MatMul",
    "Gather",
    "Identity",
];

/// Operators that change it.
const OTHER: [&str; 16] = [
    "Transpose",
    "Concat",
    "Slice",
    "Pad",
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "ReduceMean",
    "ReduceMax",
    "Conv",
    "Reshape",
    "Gemm",
    "LSTM",
    "DynamicQuantizeLSTM",
    "GRU",
    "Split",
];

/// A branch of the graph: an operator that keeps the shape, one that changes it, and how the values
/// before, between and after them are quantised.
#[derive(Clone, Copy, Debug)]
struct Branch {
    operators: [&'static str; 2],
    params: [Params; 3],
    axis: usize,
}

fn branches() -> impl Strategy<Value = Branch> {
    let scale = prop_oneof![Just(0.0625), Just(0.05), Just(0.0078125), Just(0.02)];
    let axis = proptest::option::weighted(0.3, 0..SIZES.len());
    let params = (scale, 100..156_u8, any::<bool>(), axis).prop_map(|it| {
        let (scale, zero, is_signed, axis) = it;
        Params {
            scale,
            zero,
            is_signed,
            axis,
        }
    });
    let params = proptest::collection::vec(params, 3);
    (0..SAME.len(), 0..OTHER.len(), params, 0..SIZES.len()).prop_map(|it| {
        let (same, other, params, axis) = it;
        let mut params = [params[0], params[1], params[2]];
        // The shape behind the last operator is another.
        params[2].axis = None;
        Branch {
            operators: [SAME[same], OTHER[other]],
            params,
            axis,
        }
    })
}

#[derive(Default)]
struct Graph {
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    outputs: Vec<ValueInfoProto>,
    count: usize,
}

impl Graph {
    fn fresh(&mut self, name: &str) -> String {
        self.count += 1;
        format!("{name}{}", self.count)
    }

    fn with(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let output = self.fresh(op);
        let mut made = node(op, inputs, &[&output]);
        made.attribute = attributes;
        self.nodes.push(made);
        output
    }

    fn op(&mut self, op: &str, inputs: &[&str]) -> String {
        self.with(op, inputs, Vec::new())
    }

    fn ints(&mut self, values: &[i64]) -> String {
        let name = self.fresh("ints");
        self.initializers.push(int64s(&name, values));
        name
    }

    fn initializer(&mut self, data_type: i32, sizes: &[usize], bytes: &[u8]) -> String {
        let name = self.fresh("constant");
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        self.initializers
            .push(tensor(&name, data_type, &sizes, bytes));
        name
    }

    fn floats(&mut self, sizes: &[usize], number: impl Fn(usize) -> f32) -> String {
        let bytes = (0..sizes.iter().product()).flat_map(|it| number(it).to_le_bytes());
        let bytes: Vec<u8> = bytes.collect();
        self.initializer(FLOAT, sizes, &bytes)
    }

    /// Weights as int8.
    fn bytes(&mut self, sizes: &[usize]) -> String {
        let seed = self.count;
        let bytes = (0..sizes.iter().product()).map(|it: usize| (it * 37 + seed * 11) as u8);
        let bytes: Vec<u8> = bytes.collect();
        self.initializer(INT8, sizes, &bytes)
    }

    /// Weights as int8, which are dequantised.
    fn weights(&mut self, sizes: &[usize]) -> String {
        let weights = self.bytes(sizes);
        let scale = self.floats(&[], |_| 1.0 / 128.0);
        self.op("DequantizeLinear", &[&weights, &scale])
    }

    /// A value quantised; its parameters.
    fn quantize(&mut self, value: &str, params: Params) -> (String, [String; 2]) {
        let axis = params.axis.unwrap_or(0);
        let sizes: &[usize] = match params.axis {
            Some(axis) => &SIZES[axis..=axis],
            None => &[],
        };
        let scale = self.floats(sizes, |at| params.scale * (1 + at) as f32);
        let data_type = if params.is_signed { INT8 } else { UINT8 };
        let zero = params
            .zero
            .wrapping_sub(if params.is_signed { 128 } else { 0 });
        let zeros: Vec<u8> = (0..sizes.iter().product())
            .map(|at: usize| zero.wrapping_add(at as u8))
            .collect();
        let zero = self.initializer(data_type, sizes, &zeros);
        let axis = vec![int("axis", axis as i64)];
        let quantized = self.with("QuantizeLinear", &[value, &scale, &zero], axis);
        (quantized, [scale, zero])
    }

    fn there_and_back(&mut self, value: &str, params: Params) -> String {
        let (quantized, [scale, zero]) = self.quantize(value, params);
        let axis = vec![int("axis", params.axis.unwrap_or(0) as i64)];
        self.with("DequantizeLinear", &[&quantized, &scale, &zero], axis)
    }

    /// Writes an operator on a value of the input's shape; the result, and its rank.
    fn write(&mut self, op: &'static str, x: &str, branch: &Branch) -> (String, usize) {
        let Branch { axis, params, .. } = *branch;
        let at = |name: &str| vec![int(name, axis as i64)];
        let ints = |name: &str, ints: &[i64]| AttributeProto {
            name: name.to_owned(),
            r#type: AttributeType::Ints as i32,
            ints: ints.to_vec(),
            ..AttributeProto::default()
        };
        let made = match op {
            "Softmax" | "LogSoftmax" => self.with(op, &[x], at("axis")),
            "LayerNormalization" => {
                let scale = self.floats(&SIZES[axis..], |_| 0.5);
                self.with(op, &[x, &scale], at("axis"))
            }
            "InstanceNormalization" => {
                let [scale, bias] = [0.5, 0.1].map(|it| self.floats(&SIZES[1..2], |_| it));
                self.op(op, &[x, &scale, &bias])
            }
            "Clip" => {
                let [least, most] = [-0.5, 0.7].map(|it| self.floats(&[], |_| it));
                self.op(op, &[x, &least, &most])
            }
            "Add" | "Mul" => {
                let other = self.op("Sin", &[x]);
                let other = self.there_and_back(&other, params[0]);
                self.op(op, &[x, &other])
            }
            "Where" => {
                let zero = self.floats(&[], |_| 0.0);
                let is_more = self.op("Greater", &[x, &zero]);
                let other = self.op("Cos", &[x]);
                let other = self.there_and_back(&other, params[0]);
                self.op(op, &[&is_more, x, &other])
            }
            "CumSum" => {
                let axis = self.initializer(INT64, &[], &(axis as i64).to_le_bytes());
                self.op(op, &[x, &axis])
            }
            "MatMul" => {
                let weights = self.weights(&[4, 4]);
                self.op(op, &[x, &weights])
            }
            "Gather" => {
                let places: Vec<i64> = (0..SIZES[axis]).map(|it| it as i64 / 2).collect();
                let places = self.ints(&places);
                self.with(op, &[x, &places], at("axis"))
            }
            "Transpose" => self.with(op, &[x], vec![ints("perm", &[2, 0, 3, 1])]),
            "Concat" => {
                let other = self.op("Tanh", &[x]);
                let other = self.there_and_back(&other, params[1]);
                self.with(op, &[x, &other], at("axis"))
            }
            "Slice" => {
                let [start, end, axes] = [1, i64::MAX, axis as i64].map(|it| self.ints(&[it]));
                self.op(op, &[x, &start, &end, &axes])
            }
            "Pad" => {
                let pads = self.ints(&[0, 0, 1, 1, 0, 1, 0, 1]);
                self.op(op, &[x, &pads])
            }
            "MaxPool" | "AveragePool" => self.with(op, &[x], vec![ints("kernel_shape", &[2, 2])]),
            "ReduceMean" | "ReduceMax" => self.with(op, &[x], vec![ints("axes", &[axis as i64])]),
            "Conv" => {
                let weights = self.weights(&[2, 3, 2, 2]);
                self.op(op, &[x, &weights])
            }
            "Reshape" => {
                let sizes = self.ints(&[4, 6, 4, 1]);
                self.op(op, &[x, &sizes])
            }
            "Gemm" => {
                let flat = self.with("Flatten", &[x], vec![int("axis", 2)]);
                let weights = self.weights(&[16, 5]);
                return (self.op(op, &[&flat, &weights]), 2);
            }
            "LSTM" | "GRU" => {
                let sizes = self.ints(&[6, 4, 4]);
                let steps = self.op("Reshape", &[x, &sizes]);
                let rows = if op == "LSTM" { 12 } else { 9 };
                let weights = [4, 3].map(|columns| self.weights(&[1, rows, columns]));
                let units = vec![int("hidden_size", 3)];
                self.with(op, &[&steps, &weights[0], &weights[1]], units)
            }
            "DynamicQuantizeLSTM" => {
                let sizes = self.ints(&[6, 4, 4]);
                let steps = self.op("Reshape", &[x, &sizes]);
                let [w, r] = [4, 3].map(|rows| self.bytes(&[1, rows, 12]));
                let scales = self.floats(&[1, 12], |at| (1 + at) as f32 / 512.0);
                let zeros = self.initializer(INT8, &[1, 12], &[0; 12]);
                let made = self.op(
                    op,
                    &[
                        &steps, &w, &r, "", "", "", "", "", &scales, &zeros, &scales, &zeros,
                    ],
                );
                let last = self.nodes.last_mut().expect("it was written");
                last.domain = "com.microsoft".to_owned();
                last.attribute = vec![int("hidden_size", 3)];
                made
            }
            "Split" => {
                let [one, other] = ["part", "part"].map(|it| self.fresh(it));
                let mut split = node(op, &[x], &[&one, &other]);
                split.attribute = vec![int("axis", 2)];
                self.nodes.push(split);
                let one = self.op("Softmax", &[&one]);
                self.op("Sub", &[&one, &other])
            }
            _ => self.op(op, &[x]),
        };
        (made, 4)
    }

    fn branch(&mut self, branch: &Branch) {
        let [same, other] = branch.operators;
        let x = self.there_and_back("x", branch.params[0]);
        let (y, _) = self.write(same, &x, branch);
        let y = self.there_and_back(&y, branch.params[1]);
        let (z, rank) = self.write(other, &y, branch);
        let (z, _) = self.quantize(&z, branch.params[2]);
        // A step of the result is 1.
        let z = self.with("Cast", &[&z], vec![int("to", FLOAT.into())]);
        let sizes: Vec<String> = (0..rank).map(|axis| format!("{z}_{axis}")).collect();
        let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
        self.outputs.push(value(&z, FLOAT, &sizes));
    }
}

fn check(branches: &[Branch], seed: u32, library: &str) -> Result<(), TestCaseError> {
    let mut graph = Graph::default();
    branches.iter().for_each(|branch| graph.branch(branch));
    let sizes = SIZES.map(|size| size.to_string());
    let sizes = sizes.each_ref().map(String::as_str);
    let model = model(GraphProto {
        name: "graph".to_owned(),
        input: vec![value("x", FLOAT, &sizes)],
        output: graph.outputs,
        node: graph.nodes,
        initializer: graph.initializers,
        ..GraphProto::default()
    });
    let folder = Folder::new();
    let path = folder.write("model.onnx", &model.encode_to_vec());
    let fill = format!("random:{seed}");
    let run = revseq(&[
        "compare",
        path.to_str().unwrap(),
        "--backend",
        "ort-plain,tract",
        "--ort-lib",
        library,
        "--optimization",
        "none",
        "--fill",
        &fill,
        // One step more or less before the second operator may be several behind it.
        "--atol",
        "6",
    ]);
    prop_assert_eq!(
        run.code,
        Some(0),
        "{}{}\n{:?}",
        run.stdout,
        run.stderr,
        branches
    );
    Ok(())
}

#[test]
fn operators_between_conversions_compute_as_on_onnxruntime() {
    let test = "operators_between_conversions_compute_as_on_onnxruntime";
    let Some(library) = onnxruntime(test) else {
        return;
    };
    let config = ProptestConfig {
        cases: 8,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let branches = proptest::collection::vec(branches(), 12);
    proptest!(config, |(branches in branches, seed in any::<u32>())| {
        check(&branches, seed, &library)?;
    });
}
