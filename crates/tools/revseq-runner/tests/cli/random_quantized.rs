//! Random operators between conversions from and to quantised numbers, on tract and on ONNX Runtime.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use revseq_test_models::{Writer, draw};

use crate::common::{FLOAT, Folder, revseq};
use crate::ort::onnxruntime;
use crate::random::failure;

const UINT8: i32 = 2;
const INT8: i32 = 3;

/// The sizes of the input.
const SIZES: [usize; 4] = [2, 3, 4, 4];

/// Scales of a few steps for each number, one of many, and one of none. A mean that is 0 in integers is 7e-9
/// in floats.
const SCALES: [f32; 10] = [
    0.0625, 0.05, 0.0078125, 0.02, 0.0625, 0.05, 0.0078125, 0.02, 1e-6, 1e30,
];

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
    // With the last ones all numbers are saturated, or 0.
    let scale = proptest::sample::select(&SCALES[..]);
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
    writer: Writer,
    outputs: Vec<String>,
}

impl Graph {
    fn op(&mut self, call: impl std::fmt::Display) -> String {
        self.writer.op(call)
    }

    fn floats(&mut self, sizes: &[usize], number: impl Fn(usize) -> f32) -> String {
        self.writer.floats(sizes, number)
    }

    /// Weights as int8.
    fn bytes(&mut self, sizes: &[usize]) -> String {
        let seed = self.writer.count() + 1;
        let bytes = (0..sizes.iter().product()).map(|it: usize| (it * 37 + seed * 11) as u8);
        self.writer.bytes(INT8, sizes, bytes.collect())
    }

    /// Weights as int8, which are dequantised.
    fn weights(&mut self, sizes: &[usize]) -> String {
        let weights = self.bytes(sizes);
        self.op(format_args!("DequantizeLinear({weights}, 0.0078125)"))
    }

    /// A value quantised; its parameters.
    fn quantize(&mut self, value: &str, params: Params) -> (String, [String; 2]) {
        let axis = params.axis.unwrap_or(0);
        let sizes: &[usize] = match params.axis {
            Some(axis) => &SIZES[axis..=axis],
            None => &[],
        };
        let scale = self.floats(sizes, |at| params.scale * (1 + at) as f32);
        let (code, least) = if params.is_signed {
            (INT8, 128)
        } else {
            (UINT8, 0)
        };
        let zero = params.zero.wrapping_sub(least);
        let zeros = (0..sizes.iter().product()).map(|at: usize| zero.wrapping_add(at as u8));
        let zero = self.writer.bytes(code, sizes, zeros.collect());
        let call = format_args!("QuantizeLinear<axis={axis}>({value}, {scale}, {zero})");
        (self.op(call), [scale, zero])
    }

    fn there_and_back(&mut self, value: &str, params: Params) -> String {
        let (quantized, [scale, zero]) = self.quantize(value, params);
        let axis = params.axis.unwrap_or(0);
        let call = format_args!("DequantizeLinear<axis={axis}>({quantized}, {scale}, {zero})");
        self.op(call)
    }

    /// Writes an operator on a value of the input's shape; the result, and its rank.
    fn write(&mut self, op: &'static str, x: &str, branch: &Branch) -> (String, usize) {
        let Branch { axis, params, .. } = *branch;
        let made = match op {
            "Softmax" | "LogSoftmax" => self.op(format_args!("{op}<axis={axis}>({x})")),
            "LayerNormalization" => {
                let scale = self.floats(&SIZES[axis..], |_| 0.5);
                self.op(format_args!("{op}<axis={axis}>({x}, {scale})"))
            }
            "InstanceNormalization" => {
                let [scale, bias] = [0.5, 0.1].map(|it| self.floats(&SIZES[1..2], |_| it));
                self.op(format_args!("{op}({x}, {scale}, {bias})"))
            }
            "Clip" => self.op(format_args!("{op}({x}, -0.5, 0.7)")),
            "Add" | "Mul" => {
                let other = self.op(format_args!("Sin({x})"));
                let other = self.there_and_back(&other, params[0]);
                self.op(format_args!("{op}({x}, {other})"))
            }
            "Where" => {
                let is_more = self.op(format_args!("Greater({x}, 0.0)"));
                let other = self.op(format_args!("Cos({x})"));
                let other = self.there_and_back(&other, params[0]);
                self.op(format_args!("{op}({is_more}, {x}, {other})"))
            }
            "CumSum" => self.op(format_args!("{op}({x}, {axis})")),
            "MatMul" => {
                let weights = self.weights(&[4, 4]);
                self.op(format_args!("{op}({x}, {weights})"))
            }
            "Gather" => {
                let places: Vec<i64> = (0..SIZES[axis]).map(|it| it as i64 / 2).collect();
                let places = self.writer.ints(&places);
                self.op(format_args!("{op}<axis={axis}>({x}, {places})"))
            }
            "Transpose" => self.op(format_args!("{op}<perm=[2,0,3,1]>({x})")),
            "Concat" => {
                let other = self.op(format_args!("Tanh({x})"));
                let other = self.there_and_back(&other, params[1]);
                self.op(format_args!("{op}<axis={axis}>({x}, {other})"))
            }
            "Slice" => self.op(format_args!("{op}({x}, [1], [{}], [{axis}])", i64::MAX)),
            "Pad" => self.op(format_args!("{op}({x}, [0 0 1 1 0 1 0 1])")),
            "MaxPool" | "AveragePool" => self.op(format_args!("{op}<kernel_shape=[2,2]>({x})")),
            "ReduceMean" | "ReduceMax" => self.op(format_args!("{op}<axes=[{axis}]>({x})")),
            "Conv" => {
                let weights = self.weights(&[2, 3, 2, 2]);
                self.op(format_args!("{op}({x}, {weights})"))
            }
            "Reshape" => self.op(format_args!("{op}({x}, [4 6 4 1])")),
            "Gemm" => {
                let flat = self.op(format_args!("Flatten<axis=2>({x})"));
                let weights = self.weights(&[16, 5]);
                return (self.op(format_args!("{op}({flat}, {weights})")), 2);
            }
            "LSTM" | "GRU" => {
                let steps = self.op(format_args!("Reshape({x}, [6 4 4])"));
                let rows = if op == "LSTM" { 12 } else { 9 };
                let [w, r] = [4, 3].map(|columns| self.weights(&[1, rows, columns]));
                self.op(format_args!("{op}<hidden_size=3>({steps}, {w}, {r})"))
            }
            "DynamicQuantizeLSTM" => {
                let steps = self.op(format_args!("Reshape({x}, [6 4 4])"));
                let [w, r] = [4, 3].map(|rows| self.bytes(&[1, rows, 12]));
                let scales = self.floats(&[1, 12], |at| (1 + at) as f32 / 512.0);
                let zeros = self.writer.bytes(INT8, &[1, 12], vec![0; 12]);
                let quantized = format_args!("{scales}, {zeros}, {scales}, {zeros}");
                let inputs = format_args!("{steps}, {w}, {r}, _, _, _, _, _, {quantized}");
                self.op(format_args!("microsoft.{op}<hidden_size=3>({inputs})"))
            }
            "Split" => {
                let [one, other] = self.writer.ops(format_args!("{op}<axis=2>({x})"));
                let one = self.op(format_args!("Softmax({one})"));
                self.op(format_args!("Sub({one}, {other})"))
            }
            _ => self.op(format_args!("{op}({x})")),
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
        let z = self.op(format_args!("Cast<to={FLOAT}>({z})"));
        let sizes: Vec<String> = (0..rank).map(|axis| format!("{z}_{axis}")).collect();
        self.outputs.push(format!("{z}:f32[{}]", sizes.join(",")));
    }
}

fn check(branches: &[Branch], seed: u32, library: &str) -> Result<(), TestCaseError> {
    let mut graph = Graph::default();
    branches.iter().for_each(|branch| graph.branch(branch));
    let model = graph
        .writer
        .model("x:f32[2,3,4,4]", &graph.outputs.join(" "), 17);
    let folder = Folder::new();
    let path = folder.write("model.onnx", &model);
    let fill = format!("random:{seed}");
    let mut compare = vec!["compare", &path, "--backend", "ort-plain,tract"];
    compare.extend([
        "--ort-lib",
        library,
        "--optimization",
        "none",
        "--fill",
        &fill,
    ]);
    // One step more or less before the second operator may be several behind it.
    compare.extend(["--atol", "6"]);
    let run = revseq(&compare);
    match run.code {
        Some(0) => Ok(()),
        _ => Err(failure(
            &format!("{}{}", run.stdout, run.stderr),
            &branches.to_vec(),
            &model,
            &[],
        )),
    }
}

#[test]
fn operators_between_conversions_compute_as_on_onnxruntime() {
    let test = "operators_between_conversions_compute_as_on_onnxruntime";
    let Some(library) = onnxruntime(test) else {
        return;
    };
    let branches = proptest::collection::vec(branches(), 12);
    draw::check(8, (branches, any::<u32>()), |(branches, seed)| {
        check(&branches, seed, &library)
    });
}
