//! What ONNX's operators become.
//!
//! [`RULES`] has a row for each: what it takes and gives, which inputs have to be known while a program is
//! made, and the function that makes primitives of it.

mod convolution;
mod elementwise;
mod indexing;
mod products;
mod recurrent;
mod reductions;
mod shapes;

use revseq_onnx::model::NodeProto;

use crate::error::{Error, values};
use crate::plan::{Planner, Value};

/// The types of an operator's inputs that are no parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Floats,
    Numbers,
    Truths,
    Any,
}

/// The type of an operator's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// That of the first input.
    Same,
    /// That of the second.
    Second,
    /// That of the third.
    OfThird,
    Int64,
    Bool,
    /// That of the first input, and int64 for the second output.
    SameAndInt64,
    /// What the attribute `to` says.
    To,
    /// That of the attribute `value`, or float32.
    Value,
}

type Plan = fn(&mut Planner<'_>, &Call<'_>) -> Result<Vec<Value>, Error>;

/// An operator.
pub(crate) struct Rule {
    op: &'static str,
    pub(crate) takes: Takes,
    pub(crate) gives: Gives,
    /// The inputs that have to be known while a program is made.
    pub(crate) known: &'static [usize],
    /// Whether its result is known if its inputs are.
    pub(crate) folds: bool,
    /// Whether its result depends on sizes alone.
    pub(crate) is_of_sizes: bool,
    plan: Plan,
}

/// A node with its operands.
pub(crate) struct Call<'a> {
    pub(crate) node: &'a NodeProto,
    pub(crate) inputs: Vec<Option<Value>>,
    pub(crate) opset: i64,
}

impl Call<'_> {
    pub(crate) fn optional(&self, index: usize) -> Option<&Value> {
        self.inputs.get(index)?.as_ref()
    }

    pub(crate) fn input(&self, index: usize) -> Result<&Value, Error> {
        let input = self.optional(index);
        input.ok_or_else(|| Error::Values(format!("input {index} is missing")))
    }

    pub(crate) fn int(&self, name: &str, default: i64) -> i64 {
        self.node.int(name).or(default).unwrap_or(default)
    }

    pub(crate) fn float(&self, name: &str, default: f32) -> f32 {
        self.node.float(name).or(default).unwrap_or(default)
    }

    pub(crate) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.node.ints(name).value().map(<[i64]>::to_vec)
    }

    /// Integers that are an input, or an attribute in older operator sets.
    pub(crate) fn parameter(
        &self,
        planner: &mut Planner<'_>,
        index: usize,
        name: &str,
    ) -> Result<Option<Vec<i64>>, Error> {
        match self.optional(index) {
            None => Ok(self.ints(name)),
            Some(value) => match planner.integers(value) {
                Some(all) => Ok(Some(all)),
                None => values(format!("{name} depend on the step")),
            },
        }
    }
}

/// The index of an axis.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize, Error> {
    let place = revseq_onnx::constant::normal_axis(axis, rank);
    place.ok_or_else(|| Error::Values(format!("axis {axis} of a value with {rank}")))
}

/// The indices of axes.
pub(crate) fn axes(all: &[i64], rank: usize) -> Result<Vec<usize>, Error> {
    all.iter().map(|&it| axis(it, rank)).collect()
}

const fn rule(op: &'static str, takes: Takes, gives: Gives, plan: Plan) -> Rule {
    Rule {
        op,
        takes,
        gives,
        known: &[],
        folds: false,
        is_of_sizes: false,
        plan,
    }
}

impl Rule {
    const fn known(self, known: &'static [usize]) -> Self {
        Self { known, ..self }
    }

    const fn folds(self) -> Self {
        Self {
            folds: true,
            ..self
        }
    }

    const fn of_sizes(self) -> Self {
        Self {
            is_of_sizes: true,
            ..self
        }
    }
}

/// All operators, by their names.
static RULES: &[Rule] = {
    use Gives::{Bool, Int64, OfThird, Same, SameAndInt64, Second, To, Value};
    use Takes::{Any, Floats, Numbers, Truths};
    use elementwise as e;
    &[
        rule("Abs", Numbers, Same, e::unary),
        rule("Add", Numbers, Same, e::binary).folds(),
        rule("And", Truths, Same, e::binary).folds(),
        rule("ArgMax", Numbers, Int64, indexing::best),
        rule("ArgMin", Numbers, Int64, indexing::best),
        rule("Cast", Any, To, e::cast).folds(),
        rule("CastLike", Any, Second, e::cast_like),
        rule("Ceil", Floats, Same, e::unary),
        rule("Celu", Floats, Same, e::activation),
        rule("Clip", Numbers, Same, e::clip),
        rule("Concat", Any, Same, shapes::concat).folds(),
        rule("ConstantOfShape", Any, Value, shapes::constant_of_shape)
            .known(&[0])
            .folds(),
        rule("Conv", Floats, Same, convolution::conv),
        rule("Cos", Floats, Same, e::unary),
        rule("Div", Numbers, Same, e::binary).folds(),
        rule("Dropout", Floats, Same, shapes::identity),
        rule("Einsum", Floats, Same, products::einsum),
        rule("Elu", Floats, Same, e::activation),
        rule("Equal", Any, Bool, e::binary).folds(),
        rule("Erf", Floats, Same, e::unary),
        rule("Exp", Floats, Same, e::unary),
        rule("Expand", Any, Same, shapes::expand)
            .known(&[1])
            .folds(),
        rule("Flatten", Any, Same, shapes::flatten),
        rule("Floor", Floats, Same, e::unary),
        rule("GRU", Floats, Same, recurrent::layer),
        rule("Gather", Any, Same, indexing::gather).folds(),
        rule("GatherElements", Any, Same, indexing::gather_elements),
        rule("Gemm", Floats, Same, products::gemm),
        rule("Greater", Numbers, Bool, e::binary).folds(),
        rule("GreaterOrEqual", Numbers, Bool, e::binary).folds(),
        rule("HardSigmoid", Floats, Same, e::activation),
        rule("HardSwish", Floats, Same, e::hard_swish),
        rule("Identity", Any, Same, shapes::identity).folds(),
        rule("IsNaN", Floats, Bool, e::unary),
        rule(
            "LayerNormalization",
            Floats,
            Same,
            reductions::layer_normalization,
        ),
        rule("LSTM", Floats, Same, recurrent::layer),
        rule("LeakyRelu", Floats, Same, e::activation),
        rule("Less", Numbers, Bool, e::binary).folds(),
        rule("LessOrEqual", Numbers, Bool, e::binary).folds(),
        rule("Log", Floats, Same, e::unary),
        rule("LogSoftmax", Floats, Same, reductions::softmax),
        rule("MatMul", Floats, Same, products::mat_mul),
        rule("Max", Numbers, Same, e::variadic).folds(),
        rule("Min", Numbers, Same, e::variadic).folds(),
        rule("Mod", Numbers, Same, e::binary).folds(),
        rule("Mul", Numbers, Same, e::binary).folds(),
        rule("Neg", Numbers, Same, e::unary),
        rule("Not", Truths, Same, e::not).folds(),
        rule("OneHot", Any, OfThird, indexing::one_hot).known(&[1]),
        rule("Or", Truths, Same, e::binary).folds(),
        rule("Pad", Any, Same, shapes::pad).known(&[1, 3]),
        rule("Pow", Floats, Same, e::pow),
        rule("RNN", Floats, Same, recurrent::layer),
        rule("Range", Any, Same, shapes::range)
            .known(&[0, 1, 2])
            .folds(),
        rule("Reciprocal", Floats, Same, e::unary),
        rule("ReduceL1", Floats, Same, reductions::reduce).known(&[1]),
        rule("ReduceL2", Floats, Same, reductions::reduce).known(&[1]),
        rule("ReduceLogSum", Floats, Same, reductions::reduce).known(&[1]),
        rule("ReduceLogSumExp", Floats, Same, reductions::reduce).known(&[1]),
        rule("ReduceMax", Numbers, Same, reductions::reduce).known(&[1]),
        rule("ReduceMean", Floats, Same, reductions::reduce).known(&[1]),
        rule("ReduceMin", Numbers, Same, reductions::reduce).known(&[1]),
        rule("ReduceProd", Numbers, Same, reductions::reduce).known(&[1]),
        rule("ReduceSum", Numbers, Same, reductions::reduce).known(&[1]),
        rule("ReduceSumSquare", Floats, Same, reductions::reduce).known(&[1]),
        rule("Relu", Floats, Same, e::activation),
        rule("Reshape", Any, Same, shapes::reshape)
            .known(&[1])
            .folds(),
        rule("Round", Floats, Same, e::unary),
        rule("ScatterElements", Any, Same, indexing::scatter_elements),
        rule("ScatterND", Any, Same, indexing::scatter_nd),
        rule("Shape", Any, Int64, shapes::shape).of_sizes(),
        rule("Sigmoid", Floats, Same, e::activation),
        rule("Sign", Numbers, Same, e::unary),
        rule("Sin", Floats, Same, e::unary),
        rule("Size", Any, Int64, shapes::size).of_sizes(),
        rule("Slice", Any, Same, shapes::slice)
            .known(&[1, 2, 3, 4])
            .folds(),
        rule("Softmax", Floats, Same, reductions::softmax),
        rule("Softplus", Floats, Same, e::activation),
        rule("Softsign", Floats, Same, e::activation),
        rule("Split", Any, Same, shapes::split).known(&[1]).folds(),
        rule("Sqrt", Floats, Same, e::unary),
        rule("Squeeze", Any, Same, shapes::squeeze)
            .known(&[1])
            .folds(),
        rule("Sub", Numbers, Same, e::binary).folds(),
        rule("Sum", Floats, Same, e::variadic),
        rule("Tanh", Floats, Same, e::activation),
        rule("ThresholdedRelu", Floats, Same, e::activation),
        rule("Tile", Any, Same, shapes::tile).known(&[1]),
        rule("TopK", Numbers, SameAndInt64, indexing::top).known(&[1]),
        rule("Transpose", Any, Same, shapes::transpose).folds(),
        rule("Unsqueeze", Any, Same, shapes::unsqueeze)
            .known(&[1])
            .folds(),
        rule("Where", Any, Second, e::choose).folds(),
        rule("Xor", Truths, Same, e::binary).folds(),
    ]
};

/// The rule of an operator.
pub(crate) fn rule_of(op: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.op == op)
}

/// Says what of a node no program has, by its attributes.
pub(crate) fn check(node: &NodeProto, opset: i64) -> Result<(), String> {
    // Before opset 7, `axis` said where the smaller operand lies.
    if opset < 7 {
        return Err(format!("is of opset {opset}"));
    }
    let outputs = node.output.iter().filter(|name| !name.is_empty()).count();
    let most = match node.op() {
        "Split" => usize::MAX,
        "GRU" | "LSTM" | "RNN" => 3,
        "TopK" => 2,
        _ => 1,
    };
    if outputs > most {
        return Err(format!("has {outputs} outputs"));
    }
    if node.attribute.iter().any(|it| !it.reference().is_empty()) {
        return Err("has an attribute of a function".into());
    }
    match node.op() {
        // Training leaves elements out by chance.
        "Dropout" if node.input(2).is_some() => Err("has a mode".into()),
        "Conv" => convolution::check(node),
        "GRU" | "LSTM" | "RNN" => recurrent::read(node).map(|_| ()),
        "Einsum" => products::check_equation(node),
        "Pad" => match node.text("mode").value() {
            None | Some("constant") => Ok(()),
            Some(mode) => Err(format!("has the mode {mode:?}")),
        },
        "TopK" if opset < 10 => Err(format!("is of opset {opset}")),
        "ScatterElements" | "ScatterND" => indexing::check_scatter(node),
        _ => Ok(()),
    }
}

/// Makes primitives of a node, and returns its outputs.
pub(crate) fn plan(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    match rule_of(call.node.op()) {
        Some(rule) => (rule.plan)(planner, call),
        None => values("no program has it"),
    }
}
