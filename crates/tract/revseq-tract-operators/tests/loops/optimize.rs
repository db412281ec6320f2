//! Tests of what the optimizers do to models.

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tract_onnx::tract_core::ops::array::{Slice, TypedConcat};
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::change_axes::{AxisChangeConsequence, AxisOp, InOut};
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::konst::Const;

use revseq_tract_operators::{into_optimized, into_typed};

/// `(-x - exp(x))` twice, with duplicate nodes.
fn twice() -> TypedModel {
    let mut model = TypedModel::default();
    let x = model.add_source("x", f32::fact([2])).unwrap();
    let mut wire = |name: &str, op: Box<dyn TypedOp>, inputs: &[OutletId]| {
        model.wire_node(name, op, inputs).unwrap()[0]
    };
    let one = wire("a", Box::new(math::neg()), &[x]);
    let other = wire("b", Box::new(math::exp()), &[x]);
    let one_again = wire("a2", Box::new(math::neg()), &[x]);
    let other_again = wire("b2", Box::new(math::exp()), &[x]);
    let first = wire("first", Box::new(math::sub()), &[one, other_again]);
    let second = wire("second", Box::new(math::sub()), &[one_again, other]);
    let product = wire("product", Box::new(math::mul()), &[first, second]);
    model.select_output_outlets(&[product]).unwrap();
    model
}

fn run(model: TypedModel, input: &Tensor) -> TVec<TValue> {
    let plan = model.into_runnable().unwrap();
    plan.run(tvec!(input.clone().into())).unwrap()
}

#[test]
fn equal_nodes_are_merged() {
    let input = tensor1(&[0_f32, 1.]);
    let expected = run(twice(), &input);
    let optimized = into_optimized(twice()).unwrap();
    assert!(optimized.nodes().len() <= 5, "{optimized}");
    assert_eq!(run(optimized, &input), expected);
}

/// Number of comparisons of operators.
static COMPARED: AtomicUsize = AtomicUsize::new(0);
/// Number of times that operators were asked for their axes.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Passes its input on. It replaces itself once, and may move behind a slice.
#[derive(Clone, Debug)]
struct Counted {
    is_first: bool,
    may_move: bool,
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        COMPARED.fetch_add(1, Relaxed);
        (self.is_first, self.may_move) == (other.is_first, other.may_move)
    }
}

impl Eq for Counted {}

impl Op for Counted {
    fn name(&self) -> StaticName {
        "Counted".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Counted {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Counted {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(inputs[0].without_value()))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        ASKED.fetch_add(1, Relaxed);
        AxesMapping::natural(inputs, outputs)
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        rule_if!(self.is_first);
        let op = Self {
            is_first: false,
            ..self.clone()
        };
        TypedModelPatch::replace_single_op(model, node, &node.inputs, op).map(Some)
    }

    fn slice(
        &self,
        patch: &mut TypedModelPatch,
        _model: &TypedModel,
        _node: &TypedNode,
        prefix: &str,
        inputs: &[OutletId],
        _axis: usize,
        _start: &TDim,
        _end: &TDim,
    ) -> TractResult<Option<TVec<OutletId>>> {
        rule_if!(self.may_move);
        patch.wire_node(prefix, self.clone(), inputs).map(Some)
    }

    as_op!();
}

/// Steps that join halves of what two operators make, of which only one may move.
fn steps(count: usize) -> TypedModel {
    let mut model = TypedModel::default();
    let mut value = model.add_source("x", f32::fact([4])).unwrap();
    for step in 0..count {
        let halves = [false, true].map(|may_move| {
            let op = Counted {
                is_first: true,
                may_move,
            };
            let name = format!("{step}.{may_move}");
            let whole = model.wire_node(&name, op, &[value]).unwrap()[0];
            let start = if may_move { 0 } else { 2 };
            let half = Slice::new(0, start, start + 2);
            model
                .wire_node(format!("{name}.half"), half, &[whole])
                .unwrap()[0]
        });
        let join = TypedConcat::new(0);
        let name = format!("{step}.join");
        value = model.wire_node(name, join, &halves).unwrap()[0];
    }
    model.select_output_outlets(&[value]).unwrap();
    model
}

#[test]
fn nodes_are_looked_at_a_few_times_however_many_there_are() {
    let input = tensor1(&[0_f32, 1., 2., 3.]);
    let count = 300;
    let expected = run(steps(count), &input);
    let optimized = into_optimized(steps(count)).unwrap();
    let (compared, asked) = (COMPARED.load(Relaxed), ASKED.load(Relaxed));
    // tract's passes take hundreds of both for each step.
    assert!(compared < 20 * count, "{compared}");
    assert!(asked < 60 * count, "{asked}");
    assert_eq!(run(optimized, &input), expected);
}

/// How often operators were asked to take a change of axes.
static MOVED: AtomicUsize = AtomicUsize::new(0);

/// Passes its first input on, in whatever axes it has; or adds or removes the first axis, until it
/// need not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Through {
    step: usize,
    /// The end where there is an axis more.
    more_at: Option<InOut>,
}

impl Op for Through {
    fn name(&self) -> StaticName {
        "Through".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Through {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs.into_iter().take(1).collect())
    }
}

impl TypedOp for Through {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut fact = inputs[0].without_value();
        match self.more_at {
            Some(InOut::Out(_)) => fact.shape.insert_axis(0)?,
            Some(InOut::In(_)) => fact.shape.remove_axis(0)?,
            None => {}
        }
        Ok(tvec!(fact))
    }

    fn change_axes(
        &self,
        _model: &TypedModel,
        _node: &TypedNode,
        place: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        MOVED.fetch_add(1, Relaxed);
        let ends = if self.more_at.is_some() {
            rule_if!(self.more_at == Some(place) && *change == AxisOp::Rm(0));
            vec![place]
        } else {
            rule_if!(place != InOut::In(1));
            vec![InOut::In(0), InOut::Out(0)]
        };
        let without: Box<dyn TypedOp> = Box::new(Self {
            more_at: None,
            ..*self
        });
        Ok(Some(AxisChangeConsequence {
            substitute_op: self.more_at.map(|_| without),
            wire_changes: ends.into_iter().map(|end| (end, change.clone())).collect(),
        }))
    }

    as_op!();
}

/// Steps with an axis of size 1, which no step can lose since the input has it. Each also reads a
/// vector that had such an axis, which can go.
fn steps_with_axis(count: usize) -> TypedModel {
    let mut model = TypedModel::default();
    let mut value = model.add_source("x", f32::fact([1, 4])).unwrap();
    let vector = model.add_source("vector", f32::fact([4])).unwrap();
    for step in 0..count {
        let mut wire = |more_at: Option<InOut>, inputs: &[OutletId]| {
            let op = Through { step, more_at };
            let name = format!("{step}.{more_at:?}");
            model.wire_node(name, op, inputs).unwrap()[0]
        };
        let more = wire(Some(InOut::Out(0)), &[vector]);
        let other = wire(Some(InOut::In(0)), &[more]);
        value = wire(None, &[value, other]);
    }
    model.select_output_outlets(&[value]).unwrap();
    model
}

#[test]
fn axes_that_cannot_move_are_not_tried_after_each_that_does() {
    let count = 200;
    let optimized = into_optimized(steps_with_axis(count)).unwrap();
    let has_more = |node: &TypedNode| {
        node.op_as::<Through>()
            .is_some_and(|it| it.more_at.is_some())
    };
    assert!(!optimized.nodes().iter().any(has_more), "{optimized}");
    let moved = MOVED.load(Relaxed);
    // tract's pass takes a hundred for each step.
    assert!(moved < 40 * count, "{moved}");
}

/// A cast of floats `x` to half floats, and back if they are rounded.
fn casts(len: usize, is_rounded: bool) -> TypedModel {
    let mut model = TypedModel::default();
    let x = model.add_source("x", f32::fact([len])).unwrap();
    let mut y = model
        .wire_node("half", cast(f16::datum_type()), &[x])
        .unwrap()[0];
    if is_rounded {
        y = model.wire_node("y", cast(f32::datum_type()), &[y]).unwrap()[0];
    }
    model.select_output_outlets(&[y]).unwrap();
    model
}

#[test]
fn casts_of_half_floats_are_those_of_tract() {
    // Numbers that round up and down, overflow, vanish, or are none.
    let special = [
        0.0,
        -0.0,
        65504.0,
        65519.9,
        65520.0,
        -1e9,
        6e-8,
        2.9e-8,
        1e-40,
        1.000_488_3,
        1.001_464_8,
    ];
    let none = [f32::INFINITY, f32::NAN, f32::from_bits(0x7f80_0001)];
    let others = (0..3000).map(|it| (it as f32).sin() * 300.0);
    let numbers: Vec<f32> = special.into_iter().chain(none).chain(others).collect();
    let x: TValue = tensor1(&numbers).into();
    for is_rounded in [false, true] {
        let plain = casts(numbers.len(), is_rounded).into_runnable().unwrap();
        let optimized = into_optimized(casts(numbers.len(), is_rounded)).unwrap();
        let ops = optimized.nodes().iter().map(|node| node.op.name());
        assert_eq!(ops.collect::<Vec<_>>(), ["Source", "HalfCast"]);
        let optimized = optimized.into_runnable().unwrap();
        let [found, expected] = [optimized, plain].map(|it| it.run(tvec![x.clone()]).unwrap());
        assert_eq!(found[0].datum_type(), expected[0].datum_type());
        assert_eq!(found[0].as_bytes(), expected[0].as_bytes());
    }
    // Half floats that are read twice stay.
    let mut model = casts(2, true);
    model
        .select_output_outlets(&[OutletId::new(1, 0), OutletId::new(2, 0)])
        .unwrap();
    let outputs = into_optimized(model).unwrap().into_runnable().unwrap();
    let outputs = outputs
        .run(tvec![tensor1(&[1.000_4_f32, 65520.0]).into()])
        .unwrap();
    assert_eq!(*outputs[0], tensor1(&[f16::from_f32(1.0), f16::INFINITY]));
    assert_eq!(*outputs[1], tensor1(&[1.0, f32::INFINITY]));
}

/// A chain of sums, each with a constant of its own.
fn sums(count: usize) -> InferenceModel {
    let mut model = InferenceModel::default();
    let mut y = model.add_source("x", f32::fact([2]).into()).unwrap();
    for index in 0..count {
        let one = Const::new(rctensor1(&[index as f32, 1.0])).unwrap();
        let one = model.wire_node(format!("{index}"), one, &[]).unwrap()[0];
        let sum = tract_onnx::tract_hir::ops::math::Add.into_hir();
        y = model
            .wire_node(format!("sum {index}"), sum, &[y, one])
            .unwrap()[0];
    }
    model.select_output_outlets(&[y]).unwrap();
    model
}

#[test]
fn models_become_typed_in_a_time_that_grows_with_the_nodes() {
    let seconds = |count: usize| {
        let model = sums(count);
        let start = Instant::now();
        let typed = into_typed(model).unwrap();
        assert_eq!(typed.nodes().len(), 2 * count + 1);
        start.elapsed().as_secs_f64()
    };
    let least = (0..3).map(|_| seconds(1000)).fold(f64::INFINITY, f64::min);
    let many = (0..3)
        .map(|_| seconds(20_000))
        .fold(f64::INFINITY, f64::min);
    // A look at all nodes for each would take 400 times as long.
    assert!(many < 100.0 * least, "{many}, {least}");
}

#[test]
fn typed_nodes_have_names_of_their_own_and_constants_to_the_bit() {
    let mut model = InferenceModel::default();
    let x = model.add_source("x", f32::fact([2]).into()).unwrap();
    let zeros = [0.0_f32, -0.0, 0.0].map(|zero| rctensor1(&[zero; 2]));
    let mut outputs = vec![];
    for (index, zero) in zeros.into_iter().enumerate() {
        let zero = Const::new(zero).unwrap();
        let zero = model.wire_node(format!("zero {index}"), zero, &[]).unwrap()[0];
        let quotient = tract_onnx::tract_hir::ops::math::Div.into_hir();
        let inputs = [x, zero];
        // tract takes a name once.
        outputs.push(model.wire_node("quotient", quotient, &inputs).unwrap()[0]);
    }
    model.select_output_outlets(&outputs).unwrap();
    let typed = into_typed(model).unwrap();
    let names: HashSet<&str> = typed.nodes().iter().map(|node| &*node.name).collect();
    assert_eq!(names.len(), typed.nodes().len(), "{names:?}");
    let constants = typed.nodes().iter().filter(|node| node.op_is::<Const>());
    assert_eq!(constants.count(), 2);
    let found = run(typed, &tensor1(&[1.0_f32, -1.0]));
    let infinite = [f32::INFINITY, f32::NEG_INFINITY];
    assert_eq!(*found[0], tensor1(&infinite));
    assert_eq!(*found[1], tensor1(&[infinite[1], infinite[0]]));
    assert_eq!(*found[2], tensor1(&infinite));
}
