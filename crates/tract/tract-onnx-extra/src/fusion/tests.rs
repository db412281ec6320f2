//! Compares random models with and without fusion.

use proptest::prelude::*;
use recurrent_layers::Activation as OfLayer;
use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::logic::{self, Iff};
use tract_onnx::tract_core::ops::{math, nn};
use tract_onnx::tract_hir::internal::*;

use super::*;
use crate::recurrent::activation::Activation;

const ROWS: usize = 3;
const COLUMNS: usize = 8;

/// A node: its operator, and which earlier values are its inputs.
#[derive(Clone, Copy, Debug)]
struct Choice {
    operator: usize,
    operands: [usize; 3],
    is_output: bool,
}

fn of_layer(function: OfLayer) -> Box<dyn TypedOp> {
    Activation::OfLayer(function).op().into()
}

/// A model of the chosen nodes, with inputs that are matrices, rows, columns, bools, and four times
/// as wide.
fn model(choices: &[Choice], is_symbolic: bool) -> TractResult<TypedModel> {
    let mut model = TypedModel::default();
    let rows = if is_symbolic {
        model.symbols.sym("rows").to_dim()
    } else {
        ROWS.to_dim()
    };
    let mut floats = vec![];
    for (name, shape) in [
        ("whole", [rows.clone(), COLUMNS.to_dim()]),
        ("row", [1.to_dim(), COLUMNS.to_dim()]),
        ("column", [rows.clone(), 1.to_dim()]),
        ("one", [1.to_dim(), 1.to_dim()]),
    ] {
        floats.push(model.add_source(name, f32::fact(shape))?);
    }
    let mut truths = vec![
        model.add_source("truths", bool::fact([rows.clone(), COLUMNS.to_dim()]))?,
        model.add_source("truth", bool::fact([rows.clone(), 1.to_dim()]))?,
    ];
    let wide = model.add_source("wide", f32::fact([rows.clone(), (4 * COLUMNS).to_dim()]))?;
    let weights = model.add_const("weights", weights()?)?;
    let mut outputs = vec![];
    for (number, choice) in choices.iter().enumerate() {
        let [a, b, c] = choice.operands;
        let (x, y) = (floats[a % floats.len()], floats[b % floats.len()]);
        let (t, u) = (truths[a % truths.len()], truths[c % truths.len()]);
        let whole = model.outlet_fact(floats[0])?.shape.clone();
        let is_whole = model.outlet_fact(x)?.shape == whole;
        let mut wire = |op: Box<dyn TypedOp>, inputs: &[OutletId]| {
            let made = model.wire_node(format!("node{number}"), op, inputs)?[0];
            Ok::<_, TractError>(made)
        };
        let made = match choice.operator {
            0 => wire(math::add().into(), &[x, y])?,
            1 => wire(math::sub().into(), &[x, y])?,
            2 => wire(math::mul().into(), &[x, y])?,
            3 => wire(math::div().into(), &[x, y])?,
            4 => wire(math::max().into(), &[x, y])?,
            // tract's are fused as these.
            5 => wire(of_layer(OfLayer::Sigmoid), &[x])?,
            6 => wire(of_layer(OfLayer::Tanh), &[x])?,
            7 => wire(math::neg().into(), &[x])?,
            8 => wire(TypedBinOp(logic::comp_gt(), None).into(), &[x, y])?,
            9 => wire(logic::and().into(), &[t, u])?,
            10 => wire(logic::not().into(), &[t])?,
            11 => wire(Iff.into(), &[u, x, y])?,
            12 => wire(cast(f32::datum_type()).into(), &[t])?,
            13 => {
                let start = a % 4 * COLUMNS;
                wire(Slice::new(1, start, start + COLUMNS).into(), &[wide])?
            }
            14 => {
                let x = if is_whole { x } else { floats[0] };
                let product = EinSum::new("mk,kn->mn".parse()?, f32::datum_type());
                model.wire_node(format!("node{number}"), product, &[x, weights])?[0]
            }
            15 => {
                // A column of any value.
                let columns = model.outlet_fact(x)?.shape[1].to_usize()?;
                let start = a % columns;
                let column = Slice::new(1, start, start + 1);
                model.wire_node(format!("node{number}"), column, &[x])?[0]
            }
            16 => {
                // A row, of which a symbol says nothing, or nothing of a row.
                let axis = usize::from(is_symbolic);
                let size = model.outlet_fact(x)?.shape[axis].to_usize()?;
                let start = a % (size + 1);
                let end = start + usize::from(b % 2 == 0 && start < size);
                let part = Slice::new(axis, start, end);
                let part = model.wire_node(format!("node{number}.part"), part, &[x])?[0];
                outputs.push(model.wire_node(format!("node{number}"), math::neg(), &[part])?[0]);
                continue;
            }
            _ => {
                let axis = wire(AxisOp::Add(1).into(), &[x])?;
                model.wire_node(format!("node{number}.back"), AxisOp::Rm(1), &[axis])?[0]
            }
        };
        if model.outlet_fact(made)?.datum_type.is::<bool>() {
            truths.push(made);
        } else {
            floats.push(made);
        }
        if choice.is_output || number + 1 == choices.len() {
            outputs.push(made);
        }
    }
    model.select_output_outlets(&outputs)?;
    Ok(model)
}

/// Weights that make each column of a product a multiple of one input column. The order of sums in
/// a product depends on the processor, and these sums have the same bits in any order.
fn weights() -> TractResult<Tensor> {
    let mut weights = [0f32; COLUMNS * COLUMNS];
    for column in 0..COLUMNS {
        weights[column * 3 % COLUMNS * COLUMNS + column] = 0.125;
    }
    Tensor::from_shape(&[COLUMNS, COLUMNS], &weights)
}

/// Numbers from -2 to 2.
fn inputs(model: &TypedModel, rows: usize) -> TractResult<TVec<TValue>> {
    let mut state = 1u64;
    let mut number = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1 << 22) as f32 - 2.0
    };
    let mut made = tvec![];
    for input in model.input_outlets()? {
        let fact = model.outlet_fact(*input)?;
        let rows = SymbolValues::default().with(&model.symbols.sym("rows"), rows as i64);
        let shape = &fact.shape.eval_to_usize(&rows)?;
        let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| number()).collect();
        let tensor = if fact.datum_type.is::<bool>() {
            let truths: Vec<bool> = numbers.iter().map(|it| *it > 0.0).collect();
            Tensor::from_shape(shape, &truths)?
        } else {
            Tensor::from_shape(shape, &numbers)?
        };
        made.push(tensor.into_tvalue());
    }
    Ok(made)
}

fn known(model: &TypedModel) -> HashSet<Symbol> {
    symbols(
        model
            .inputs
            .iter()
            .map(|input| model.outlet_fact(*input).unwrap()),
    )
}

fn bits(outputs: &[TValue]) -> Vec<Vec<u32>> {
    let each = |output: &TValue| {
        let output = output.cast_to::<f32>().unwrap();
        let view = output.to_plain_array_view::<f32>().unwrap();
        // NaNs are equal. A sum that starts with 0 turns -0 into 0.
        view.iter()
            .map(|it| if it.is_nan() { f32::NAN } else { it + 0.0 }.to_bits())
            .collect()
    };
    outputs.iter().map(each).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn fused_models_compute_the_same(
        choices in proptest::collection::vec(
            (0usize..18, any::<[usize; 3]>(), proptest::bool::weighted(0.2)),
            1..24,
        ),
        rows in proptest::option::of(0usize..4),
    ) {
        let choices: Vec<Choice> = choices
            .into_iter()
            .map(|(operator, operands, is_output)| Choice { operator, operands, is_output })
            .collect();
        // Without a number of rows, the model's is known.
        let plain = model(&choices, rows.is_some()).unwrap();
        let inputs = inputs(&plain, rows.unwrap_or(ROWS)).unwrap();
        let run = |model: TypedModel| model.into_runnable()?.run(inputs.clone());
        // Of NaN, tract makes a number.
        let all: Vec<Choice> = choices.iter().map(|it| Choice { is_output: true, ..*it }).collect();
        let values = run(model(&all, rows.is_some()).unwrap()).unwrap();
        prop_assume!(!bits(&values).concat().contains(&f32::NAN.to_bits()));
        let optimized = plain.clone().into_optimized();
        let mut models = vec![(plain.clone(), run(plain).unwrap())];
        // tract 0.23 leaves a Dummy in some optimised models, and cannot slice others to nothing.
        if let Ok(optimized) = optimized
            && let Ok(expected) = run(optimized.clone())
        {
            models.push((optimized, expected));
        }
        for (mut model, expected) in models {
            let known = known(&model);
            fuse_all(&mut model, &known).unwrap();
            let state = &mut model.into_runnable().unwrap().spawn().unwrap();
            for _ in 0..2 {
                let found = state.run(inputs.clone()).unwrap();
                prop_assert_eq!(bits(&found), bits(&expected));
            }
        }
    }
}

#[test]
fn fused_functions_keep_nan() {
    const LEN: usize = 19;
    type Wire = fn(&mut TypedModel, OutletId, OutletId) -> TractResult<OutletId>;
    let functions: [Wire; 9] = [
        |model, x, _| Ok(model.wire_node("f", nn::sigmoid(), &[x])?[0]),
        |model, x, _| Ok(model.wire_node("f", math::tanh(), &[x])?[0]),
        |model, x, _| Ok(model.wire_node("f", math::exp(), &[x])?[0]),
        |model, x, _| Ok(model.wire_node("f", math::ln(), &[x])?[0]),
        |model, x, _| Ok(model.wire_node("f", math::erf(), &[x])?[0]),
        |model, x, one| Ok(model.wire_node("f", math::max(), &[x, one])?[0]),
        |model, x, one| Ok(model.wire_node("f", math::max(), &[one, x])?[0]),
        |model, x, one| Ok(model.wire_node("f", math::min(), &[x, one])?[0]),
        |model, x, one| Ok(model.wire_node("f", math::min(), &[one, x])?[0]),
    ];
    for (number, function) in functions.into_iter().enumerate() {
        let mut model = TypedModel::default();
        let x = model.add_source("x", f32::fact([LEN])).unwrap();
        let one = tensor1(&[1_f32; LEN]);
        let one = model.add_const("one", one).unwrap();
        let made = function(&mut model, x, one).unwrap();
        // Two operators are worth fusing.
        let made = model.wire_node("less", math::neg(), &[made]).unwrap();
        model.select_output_outlets(&made).unwrap();
        let known = known(&model);
        fuse_all(&mut model, &known).unwrap();
        assert!(model.nodes().iter().any(|node| node.op_is::<Fused>()));
        let state = &mut model.into_runnable().unwrap().spawn().unwrap();
        for at in 0..LEN {
            let mut x = [0.5_f32; LEN];
            x[at] = f32::NAN;
            let found = state.run(tvec!(tensor1(&x).into_tvalue())).unwrap();
            let found = found[0].to_plain_array_view::<f32>().unwrap();
            let nan: Vec<usize> = (0..LEN).filter(|it| found[[*it]].is_nan()).collect();
            assert_eq!(nan, [at], "function {number}");
        }
    }
}

#[test]
fn a_recurrent_step_is_one_operator() {
    // h1 = tanh(x + h w) and c1 = sigmoid(h1) * c; h1 is an output as well.
    let mut model = TypedModel::default();
    let [x, h, c] = ["x", "h", "c"].map(|name| model.add_source(name, f32::fact([2, 3])).unwrap());
    let w = model
        .add_const("w", Tensor::zero::<f32>(&[3, 3]).unwrap())
        .unwrap();
    let mut wire = |name: &str, op: Box<dyn TypedOp>, inputs: &[OutletId]| {
        model.wire_node(name, op, inputs).unwrap()[0]
    };
    let product = EinSum::new("mk,kn->mn".parse().unwrap(), f32::datum_type());
    let product = wire("product", product.into(), &[h, w]);
    let sum = wire("sum", math::add().into(), &[x, product]);
    let h1 = wire("h1", math::tanh().into(), &[sum]);
    let gate = wire("gate", nn::sigmoid().into(), &[h1]);
    let c1 = wire("c1", math::mul().into(), &[gate, c]);
    let out = wire("out", AxisOp::Add(0).into(), &[h1]);
    model.select_output_outlets(&[h1, c1, out]).unwrap();
    let known = known(&model);
    fuse_all(&mut model, &known).unwrap();
    let mut names: Vec<_> = model.nodes().iter().map(|node| node.op.name()).collect();
    names.sort();
    assert_eq!(names, ["Fused", "Source", "Source", "Source"]);
}

/// A branch captures constants.
#[test]
fn a_known_matrix_may_be_an_input() {
    let mut model = TypedModel::default();
    let x = model.add_source("x", f32::fact([ROWS, COLUMNS])).unwrap();
    let known_fact = TypedFact::try_from(weights().unwrap().into_arc_tensor()).unwrap();
    let captured = model.add_source("captured", known_fact).unwrap();
    let product = EinSum::new("mk,kn->mn".parse().unwrap(), f32::datum_type());
    let product = model.wire_node("product", product, &[x, captured]).unwrap()[0];
    let sum = model.wire_node("sum", math::add(), &[product, x]).unwrap();
    model.select_output_outlets(&sum).unwrap();
    let run = |model: TypedModel| {
        let x = inputs(&model, ROWS).unwrap().remove(0);
        let captured = weights().unwrap().into_tvalue();
        model.into_runnable().unwrap().run(tvec![x, captured])
    };
    let expected = run(model.clone()).unwrap();
    let known = known(&model);
    fuse_all(&mut model, &known).unwrap();
    assert!(model.nodes().iter().any(|node| node.op_is::<Fused>()));
    assert_eq!(bits(&run(model).unwrap()), bits(&expected));
}

/// The bounds of a slice of an unknown size can be checked by a run only.
#[test]
fn a_slice_beyond_its_axis_is_an_error() {
    for axis in [0, 1] {
        let mut model = TypedModel::default();
        let size = model.symbols.sym("rows").to_dim();
        let mut shape = [COLUMNS.to_dim(), COLUMNS.to_dim()];
        shape[axis] = size;
        let x = model.add_source("x", f32::fact(shape)).unwrap();
        let mut wire = |name: &str, op: Box<dyn TypedOp>, input: OutletId| {
            model.wire_node(name, op, &[input]).unwrap()[0]
        };
        let before = wire("before", math::neg().into(), x);
        let part = wire("part", Slice::new(axis, 0, 3).into(), before);
        let after = wire("after", math::neg().into(), part);
        let last = wire("last", math::exp().into(), after);
        model.select_output_outlets(&[last]).unwrap();
        let known = known(&model);
        let plain = model.clone().into_runnable().unwrap();
        fuse_all(&mut model, &known).unwrap();
        let fused = model.into_runnable().unwrap();
        for rows in [4, 3] {
            let mut shape = [COLUMNS; 2];
            shape[axis] = rows;
            let inputs = tvec![Tensor::zero::<f32>(&shape).unwrap().into_tvalue()];
            let expected = plain.run(inputs.clone()).unwrap();
            assert_eq!(fused.run(inputs).unwrap(), expected);
        }
        for rows in [2, 0] {
            let mut shape = [COLUMNS; 2];
            shape[axis] = rows;
            let inputs = tvec![Tensor::zero::<f32>(&shape).unwrap().into_tvalue()];
            assert!(fused.run(inputs).is_err(), "{rows}");
        }
    }
}
