//! ONNX's Slices: flips, slices to the end of an axis, and near misses.

use prost::Message;
use revseq_test_models::text;
use revseq_tract::Flip;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

/// The parameters of a Slice: starts, ends, axes if given, steps if given.
type Parameters<'a> = (&'a [i64], &'a [i64], Option<&'a [i64]>, Option<&'a [i64]>);

/// A model of one Slice of `x` of these sizes, its parameters initializers.
fn sliced(sizes: &str, (starts, ends, axes, steps): Parameters<'_>) -> ModelProto {
    let given = [Some(starts), Some(ends), axes, steps];
    let names = ["starts", "ends", "axes", "steps"];
    let (mut inputs, mut constants) = ("x".to_owned(), String::new());
    for (name, values) in std::iter::zip(names, given) {
        let Some(values) = values else {
            inputs += ", _";
            continue;
        };
        inputs += &format!(", {name}");
        let values: Vec<String> = values.iter().map(i64::to_string).collect();
        constants += &format!("{name} = [{}]\n", values.join(" "));
    }
    let inputs = inputs.trim_end_matches(", _");
    of_text(&format!(
        "x:f32[{sizes}] -> y\n{constants} y = Slice({inputs})"
    ))
}

fn of_text(text: &str) -> ModelProto {
    ModelProto::decode(&*text::model(text::graph(text), 17)).unwrap()
}

/// Loads a model like a pipeline.
fn load(model: &ModelProto) -> TractResult<TypedModel> {
    let mut onnx = tract_onnx::onnx();
    revseq_tract::register(&mut onnx);
    onnx.parse(model, None)?.model.into_optimized()
}

fn flips(model: &TypedModel) -> usize {
    let nodes = model.nodes().iter();
    nodes.filter(|node| node.op_is::<Flip>()).count()
}

fn run(model: TypedModel, input: Tensor) -> TractResult<Tensor> {
    let mut outputs = model.into_runnable()?.run(tvec!(input.into()))?;
    Ok(outputs.remove(0).into_tensor())
}

fn iota(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|value| value as f32).collect();
    Tensor::from_shape(shape, &values).unwrap()
}

/// The flip by definition, one axis at a time.
fn flipped(tensor: &Tensor, axes: &[usize]) -> Tensor {
    let mut array = tensor.to_plain_array_view::<f32>().unwrap();
    for &axis in axes {
        array.invert_axis(tract_ndarray::Axis(axis));
    }
    array.to_owned().into_tensor()
}

const LAST: [i64; 3] = [-1, i64::MAX, i32::MAX as i64];
const BEFORE_THE_FIRST: [i64; 3] = [i64::MIN, -i64::MAX, i32::MIN as i64];

#[test]
fn whole_axes_of_any_size_are_flipped() {
    let table: [(Option<&[i64]>, &[usize]); 6] = [
        (Some(&[0]), &[0]),
        (Some(&[-2]), &[1]),
        (Some(&[2]), &[2]),
        (None, &[0]),
        (Some(&[-1, 0]), &[2, 0]),
        (None, &[0, 1, 2]),
    ];
    for (axes, expected) in table {
        for (start, end) in LAST.into_iter().zip(BEFORE_THE_FIRST) {
            let [starts, ends, steps] = [start, end, -1].map(|value| vec![value; expected.len()]);
            let parameters: Parameters<'_> = (&starts, &ends, axes, Some(&steps));
            let model = load(&sliced("N,T,3", parameters)).unwrap();
            assert_eq!(flips(&model), expected.len(), "{parameters:?}");
            let fact = model.output_fact(0).unwrap().clone();
            assert_eq!(fact, *model.input_fact(0).unwrap(), "{parameters:?}");
            let runnable = model.into_runnable().unwrap();
            for shape in [[2, 5, 3], [1, 1, 3], [4, 0, 3], [2, 6, 3]] {
                let input = iota(&shape);
                let outputs = runnable.run(tvec!(input.clone().into())).unwrap();
                assert_eq!(*outputs[0], flipped(&input, expected), "{parameters:?}");
            }
        }
    }
}

/// tf2onnx writes `x[1:]` in this form, which takes all elements after the first.
#[test]
fn the_end_of_an_axis_may_be_a_large_number() {
    for end in [1_000_000_000, i64::from(i32::MAX) - 1] {
        let parameters: Parameters<'_> = (&[0, 1], &[end, end], Some(&[1, 0]), Some(&[1, 1]));
        let model = sliced("N,T,3", parameters);
        let symbolic = load(&model).unwrap();
        let shape = format!("{:?}", symbolic.output_fact(0).unwrap().shape);
        assert_eq!(shape, "max(0,N+-1),T,3");
        let symbolic = symbolic.into_runnable().unwrap();
        for shape in [[2, 5, 3], [4, 0, 3], [1, 2, 3], [0, 2, 3]] {
            let input = iota(&shape);
            let view = input.to_plain_array_view::<f32>().unwrap();
            let rest = (1.min(shape[0])..).into();
            let rest = view.slice_axis(tract_ndarray::Axis(0), rest);
            let outputs = symbolic.run(tvec!(input.clone().into())).unwrap();
            assert_eq!(*outputs[0], rest.to_owned().into_tensor());
        }
    }
    // Ends beyond known sizes are clamped.
    let model = sliced("2", (&[3], &[1_000_000_000], None, None));
    assert_eq!(run(load(&model).unwrap(), iota(&[2])).unwrap().len(), 0);
}

/// One plan runs on several sizes and back.
#[test]
fn bounds_beyond_a_symbolic_size_are_clamped() {
    let first = Some([0].as_slice());
    for (start, end, step) in [
        (0, 100, 1),
        (-5, i64::MAX, 1),
        (2, -1, 1),
        (-3, 2, 1),
        (1, i64::MAX, 2),
        (-2, i64::MIN, -1),
    ] {
        let mut onnx = tract_onnx::onnx();
        revseq_tract::register(&mut onnx);
        let model = sliced("N,2", (&[start], &[end], first, Some(&[step])));
        let typed = onnx.parse(&model, None).unwrap().model.into_typed();
        let plan = revseq_tract::into_optimized(typed.unwrap()).unwrap();
        let plan = plan.into_runnable().unwrap();
        for size in [0, 1, 3, 200, 3, 0] {
            let at = |bound: i64| match bound {
                ..0 => bound.saturating_add(size),
                _ => bound,
            };
            let is_taken = |row: &i64| match step {
                1.. => {
                    (at(start).max(0)..at(end)).contains(row)
                        && (row - at(start).max(0)) % step == 0
                }
                _ => *row <= at(start).max(0),
            };
            let mut rows: Vec<i64> = (0..size).filter(is_taken).collect();
            if step < 0 {
                rows.reverse();
            }
            let values = rows.iter().flat_map(|row| [2 * row, 2 * row + 1]);
            let values: Vec<f32> = values.map(|value| value as f32).collect();
            let expected = Tensor::from_shape(&[rows.len(), 2], &values).unwrap();
            let input = iota(&[usize::try_from(size).unwrap(), 2]);
            let found = plan.run(tvec!(input.into())).unwrap();
            assert_eq!(*found[0], expected, "{start}:{end}:{step} of {size}");
        }
    }
}

/// Other slices are no flips, and output the same as tract alone.
#[test]
fn other_slices_are_no_flips() {
    let minus = Some([-1].as_slice());
    let table: [Parameters<'_>; 9] = [
        (&[0], &[4], Some(&[1]), None),
        (&[1], &[i64::MAX], Some(&[1]), Some(&[1])),
        (&[-1], &[0], Some(&[1]), minus),
        (&[-2], &[i64::MIN], Some(&[1]), minus),
        (&[4], &[i64::MIN], Some(&[1]), minus),
        (&[-1], &[-6], Some(&[1]), minus),
        (&[-1], &[i64::MIN], Some(&[1]), Some(&[-2])),
        (&[-1, 0], &[i64::MIN, 2], Some(&[1, 2]), Some(&[-1, 1])),
        (&[0, 1], &[1, 3], None, None),
    ];
    for parameters in table {
        let model = sliced("2,5,3", parameters);
        let ours = load(&model).unwrap();
        assert_eq!(flips(&ours), 0, "{parameters:?}");
        let tracts = tract_onnx::onnx().parse(&model, None).unwrap().model;
        let input = iota(&[2, 5, 3]);
        let expected = run(tracts.into_optimized().unwrap(), input.clone()).unwrap();
        assert_eq!(run(ours, input).unwrap(), expected, "{parameters:?}");
    }
}

/// Parameters from Constant nodes, and parameters known only at run time.
#[test]
fn constants_are_read_wherever_they_are() {
    let whole: Parameters<'_> = (&[-1], &[i64::MIN], Some(&[1]), Some(&[-1]));
    let mut model = sliced("2,T", whole);
    let graph = model.graph.as_mut().unwrap();
    let constants = graph.initializer.split_off(0).into_iter().map(|tensor| {
        let value = AttributeProto {
            name: "value".to_owned(),
            r#type: AttributeType::Tensor as i32,
            t: Some(tensor.clone()),
            ..AttributeProto::default()
        };
        NodeProto {
            op_type: "Constant".to_owned(),
            output: vec![tensor.name],
            attribute: vec![value],
            ..NodeProto::default()
        }
    });
    graph.node.splice(..0, constants);
    let constant = load(&model).unwrap();
    assert_eq!(flips(&constant), 1);
    let input = iota(&[2, 7]);
    let expected = flipped(&input, &[1]);
    assert_eq!(run(constant, input.clone()).unwrap(), expected);

    // An input whose name is not a constant's must not be taken for one.
    let computed = of_text(&format!(
        "x:f32[2,7] -> y
         s = [-1]
         starts = Identity(s)
         y = Slice(x, starts, [{}], [1], [-1])",
        i64::MIN
    ));
    let computed = load(&computed).unwrap();
    assert_eq!(flips(&computed), 0);
    assert_eq!(run(computed, input).unwrap(), expected);
}

#[test]
fn invalid_axes_are_errors() {
    let start = &[-1, -1];
    let end = &[i64::MIN, i64::MIN];
    for (axes, why) in [
        ([0, 3], "from -3 to 2"),
        ([1, -2], "each axis at most once"),
    ] {
        let model = sliced("2,5,3", (start, end, Some(&axes), Some(&[-1, -1])));
        let error = format!("{:#}", load(&model).unwrap_err());
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn slices_of_other_domains_are_refused() {
    let mut model = sliced("2", (&[0], &[1], None, None));
    model.graph.as_mut().unwrap().node[0].domain = "com.example".to_owned();
    let error = format!("{:#}", load(&model).unwrap_err());
    assert!(error.contains("it is of domain \"com.example\""), "{error}");
}

#[test]
fn transposes_around_a_flip_cancel() {
    let mut model = TypedModel::default();
    let input = model.add_source("x", f32::fact([4, 2, 3])).unwrap();
    let there = model
        .wire_node("there", AxisOp::Move(0, 2), &[input])
        .unwrap();
    let flip = model.wire_node("flip", Flip::new(2), &there).unwrap();
    let back = model.wire_node("back", AxisOp::Move(2, 0), &flip).unwrap();
    model.select_output_outlets(&back).unwrap();
    let model = model.into_optimized().unwrap();
    assert!(!model.nodes().iter().any(|node| node.op_is::<AxisOp>()));
    let input = iota(&[4, 2, 3]);
    assert_eq!(run(model, input.clone()).unwrap(), flipped(&input, &[0]));
}

#[test]
fn data_with_one_owner_is_flipped_in_place() {
    let flip = Flip::new(0);
    let context = EvalContext::out_of_plan();
    let input = iota(&[64, 5]);
    let expected = flipped(&input, &[0]);
    let shared = input.into_tvalue();
    let output = flip.eval(&context, tvec!(shared.clone())).unwrap();
    assert_eq!(*output[0], expected);
    assert_ne!(output[0].as_bytes().as_ptr(), shared.as_bytes().as_ptr());
    let address = shared.as_bytes().as_ptr();
    let output = flip.eval(&context, tvec!(shared)).unwrap();
    assert_eq!(*output[0], expected);
    assert_eq!(output[0].as_bytes().as_ptr(), address);
}
