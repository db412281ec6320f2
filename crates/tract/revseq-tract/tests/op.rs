//! The op inside tract: types, symbols, transposes, slices, memory.

use revseq_tract::{LengthsPolicy, Operator, ReverseSubsequences};
use tract_onnx::prelude::tract_ndarray::Dimension;
use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

const TIME_MAJOR: Operator = Operator::ReverseSequence {
    batch_axis: 1,
    time_axis: 0,
};
const BATCH_MAJOR: Operator = Operator::ReverseSequence {
    batch_axis: 0,
    time_axis: 1,
};

/// A model of one op, from facts to its output.
fn model(operator: Operator, data: TypedFact, lengths: TypedFact) -> TypedModel {
    let mut model = TypedModel::default();
    let rank = data.rank();
    let data = model.add_source("data", data).unwrap();
    let lengths = model.add_source("lengths", lengths).unwrap();
    let op = ReverseSubsequences::new(operator, rank).unwrap();
    let output = model.wire_node("reversed", op, &[data, lengths]).unwrap();
    model.select_output_outlets(&output).unwrap();
    model
}

fn run(model: TypedModel, inputs: TVec<TValue>) -> TractResult<Tensor> {
    let mut outputs = model.into_runnable()?.run(inputs)?;
    Ok(outputs.remove(0).into_tensor())
}

fn count<O: Op>(model: &TypedModel) -> usize {
    model
        .nodes()
        .iter()
        .filter(|node| node.op_is::<O>())
        .count()
}

fn iota(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|value| value as f32).collect();
    Tensor::from_shape(shape, &values).unwrap()
}

/// The expected output, by definition.
fn expected(data: &Tensor, batch: usize, time: usize, lengths: &[i64]) -> Tensor {
    let data = data.to_plain_array_view::<f32>().unwrap();
    let mut output = data.to_owned();
    for (coordinates, value) in output.indexed_iter_mut() {
        let mut from: Vec<usize> = coordinates.slice().to_vec();
        let length = lengths[from[batch]] as usize;
        if from[time] < length {
            from[time] = length - 1 - from[time];
        }
        *value = data[from.as_slice()];
    }
    output.into_tensor()
}

#[test]
fn every_datum_type_is_moved() {
    let order = [1_usize, 0, 2, 5, 4, 3];
    let lengths = || tensor1(&[2_i64, 3]);
    let check = |data: Tensor| {
        let fact = data.datum_type().fact([2, 3]);
        let expected: Vec<Tensor> = order
            .iter()
            .map(|&index| data.clone().into_shape(&[6]).unwrap().nth(index).unwrap())
            .collect();
        // First shared, so out of place; then owned by the run alone.
        let shared = data.clone().into_tvalue();
        for data in [shared.clone(), data.into_tvalue()] {
            let model = model(BATCH_MAJOR, fact.clone(), i64::fact([2]));
            let output = run(model, tvec!(data, lengths().into())).unwrap();
            let output = output.into_shape(&[6]).unwrap();
            for (index, expected) in expected.iter().enumerate() {
                assert_eq!(
                    output.nth(index).unwrap(),
                    *expected,
                    "{:?}",
                    fact.datum_type
                );
            }
        }
        drop(shared);
    };
    let numbers = tensor2(&[[1_i64, 2, 3], [4, 5, 6]]);
    for datum_type in [
        DatumType::U8,
        DatumType::U16,
        DatumType::U32,
        DatumType::U64,
        DatumType::I8,
        DatumType::I16,
        DatumType::I32,
        DatumType::I64,
        DatumType::F16,
        DatumType::F32,
        DatumType::F64,
        DatumType::TDim,
        DatumType::String,
    ] {
        check(numbers.cast_to_dt(datum_type).unwrap().into_owned());
    }
    check(tensor2(&[[true, false, true], [true, true, false]]));
    let quantized = DatumType::QU8(QParams::ZpScale {
        zero_point: 3,
        scale: 0.5,
    });
    let mut bytes = tensor2(&[[1_u8, 2, 3], [4, 5, 6]]);
    bytes = bytes.cast_to_dt(quantized).unwrap().into_owned();
    check(bytes);
    let blobs: Vec<Blob> = (0..6_u8)
        .map(|byte| Blob::from_bytes(&[byte; 3]).unwrap())
        .collect();
    check(
        tract_ndarray::Array2::from_shape_vec((2, 3), blobs)
            .unwrap()
            .into_tensor(),
    );
}

#[test]
fn symbolic_sizes_are_bound_at_run_time_zero_included() {
    let symbols = SymbolScope::default();
    let (n, t) = (symbols.sym("N"), symbols.sym("T"));
    let fact = f32::fact(&[t.to_dim(), n.to_dim(), 2.to_dim()]);
    // The lengths' size is a separate symbol, as exporters write it.
    let lengths_fact = i64::fact(&[symbols.sym("unk__1").to_dim()]);
    let model = model(TIME_MAJOR, fact, lengths_fact);
    let runnable = model.into_optimized().unwrap().into_runnable().unwrap();
    for (time, lengths) in [
        (4, vec![4, 0, 3]),
        (0, vec![0, 0]),
        (3, vec![]),
        (1, vec![1]),
    ] {
        let data = iota(&[time, lengths.len(), 2]);
        let expected = expected(&data, 1, 0, &lengths);
        let outputs = runnable
            .run(tvec!(data.into(), tensor1(&lengths).into()))
            .unwrap();
        assert_eq!(*outputs[0], expected);
    }
}

#[test]
fn transposes_around_the_op_cancel() {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([3, 5, 2, 4])).unwrap();
    let lengths = model.add_source("lengths", i64::fact([3])).unwrap();
    // Batch-major outside, time-major inside.
    let there = model
        .wire_node("there", AxisOp::Move(0, 2), &[data])
        .unwrap();
    let operator = Operator::ReverseSequence {
        batch_axis: 2,
        time_axis: 0,
    };
    let op = ReverseSubsequences::new(operator, 4).unwrap();
    let reversed = model
        .wire_node("reversed", op, &[there[0], lengths])
        .unwrap();
    let back = model
        .wire_node("back", AxisOp::Move(2, 0), &reversed)
        .unwrap();
    model.select_output_outlets(&back).unwrap();
    let data = iota(&[3, 5, 2, 4]);
    let inputs = || tvec!(data.clone().into(), tensor1(&[5_i64, 0, 3]).into());
    let expected = expected(&data, 0, 1, &[5, 0, 3]);

    assert_eq!(run(model.clone(), inputs()).unwrap(), expected);
    let decluttered = model.into_decluttered().unwrap();
    assert_eq!(count::<AxisOp>(&decluttered), 0, "{decluttered}");
    let op = decluttered
        .nodes()
        .iter()
        .find_map(|node| node.op_as::<ReverseSubsequences>());
    let wanted = ReverseSubsequences::new(BATCH_MAJOR, 4).unwrap();
    assert_eq!(op, Some(&wanted));
    assert_eq!(run(decluttered.clone(), inputs()).unwrap(), expected);
    assert_eq!(
        run(decluttered.into_optimized().unwrap(), inputs()).unwrap(),
        expected
    );
}

#[test]
fn lengths_of_every_subsequence_follow_the_data_s_axes() {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([2, 3, 4])).unwrap();
    let lengths = model.add_source("lengths", u32::fact([2, 1, 4])).unwrap();
    let there = model
        .wire_node("there", AxisOp::Move(0, 2), &[data])
        .unwrap();
    let lengths = model
        .wire_node("lengths_there", AxisOp::Move(0, 2), &[lengths])
        .unwrap();
    let op = ReverseSubsequences::new(Operator::ReverseSubsequences { axis: 0 }, 3).unwrap();
    let reversed = model
        .wire_node("reversed", op, &[there[0], lengths[0]])
        .unwrap();
    let back = model
        .wire_node("back", AxisOp::Move(2, 0), &reversed)
        .unwrap();
    model.select_output_outlets(&back).unwrap();
    let lengths: Vec<u32> = vec![0, 1, 2, 3, 9, u32::MAX, 2, 1];
    let lengths = Tensor::from_shape(&[2, 1, 4], &lengths).unwrap();
    let inputs = || tvec!(iota(&[2, 3, 4]).into(), lengths.clone().into());
    let plain = run(model.clone(), inputs()).unwrap();
    let decluttered = model.into_decluttered().unwrap();
    assert_eq!(count::<AxisOp>(&decluttered), 0, "{decluttered}");
    assert_eq!(run(decluttered, inputs()).unwrap(), plain);
}

#[test]
fn slices_move_up_along_all_axes_but_time() {
    for (axis, moves) in [(0, true), (1, false), (2, true)] {
        let mut model = model(BATCH_MAJOR, f32::fact([4, 4, 4]), i64::fact([4]));
        let reversed = model.output_outlets().unwrap()[0];
        let slice = Slice::new(axis, 1, 3);
        let sliced = model.wire_node("sliced", slice, &[reversed]).unwrap();
        model.select_output_outlets(&sliced).unwrap();
        let inputs = || tvec!(iota(&[4, 4, 4]).into(), tensor1(&[4_i64, 3, 2, 1]).into());
        let plain = run(model.clone(), inputs()).unwrap();
        let decluttered = model.into_decluttered().unwrap();
        let op = decluttered
            .nodes()
            .iter()
            .find(|node| node.op_is::<ReverseSubsequences>())
            .unwrap();
        let is_last = decluttered.output_outlets().unwrap()[0].node == op.id;
        assert_eq!(is_last, moves, "axis {axis}: {decluttered}");
        assert_eq!(run(decluttered, inputs()).unwrap(), plain, "axis {axis}");
    }
}

#[test]
fn data_with_one_owner_is_reversed_in_place() {
    let op = ReverseSubsequences::new(BATCH_MAJOR, 2).unwrap();
    let address = |tensor: &Tensor| tensor.try_as_plain_ram().unwrap().as_bytes().as_ptr();
    let lengths = || tensor1(&[4_i64, 2]).into_tvalue();
    let run = |data: TValue| {
        let outputs = op
            .eval(&EvalContext::out_of_plan(), tvec!(data, lengths()))
            .unwrap();
        outputs[0].clone()
    };
    let data = iota(&[2, 4]).into_tvalue();
    let expected = expected(&data, 0, 1, &[4, 2]);

    let other_holder = data.clone();
    let before = address(&other_holder);
    let output = run(data);
    assert_eq!(*output, expected);
    assert_eq!(
        *other_holder,
        iota(&[2, 4]),
        "the other holder sees no change"
    );
    assert_ne!(address(&output), before);

    let output = run(other_holder);
    assert_eq!(*output, expected);
    assert_eq!(address(&output), before);
}

#[test]
fn lengths_that_reverse_nothing_leave_no_op() {
    for (lengths, time, left) in [
        ([0_i64, 0], None, 0),
        ([0, 1], Some(3), 0),
        ([1, 1], None, 1),
        ([0, 1], Some(0), 1),
        ([0, 2], Some(3), 1),
        ([0, -1], Some(3), 1),
    ] {
        let mut model = TypedModel::default();
        let time = time.map_or_else(
            || SymbolScope::default().sym("T").to_dim(),
            |t: usize| t.to_dim(),
        );
        let fact = f32::fact(&[2.to_dim(), time.clone()]);
        let data = model.add_source("data", fact).unwrap();
        let konst = model.add_const("lengths", tensor1(&lengths)).unwrap();
        let op = ReverseSubsequences::new(BATCH_MAJOR, 2).unwrap();
        let output = model.wire_node("reversed", op, &[data, konst]).unwrap();
        model.select_output_outlets(&output).unwrap();
        let decluttered = model.into_decluttered().unwrap();
        assert_eq!(
            count::<ReverseSubsequences>(&decluttered),
            left,
            "{lengths:?} {time}"
        );
    }
}

#[test]
fn mismatched_arguments_are_errors_with_their_values() {
    let wire = |operator, data: TypedFact, lengths: TypedFact| {
        let mut model = TypedModel::default();
        let rank = data.rank();
        let data = model.add_source("data", data)?;
        let lengths = model.add_source("lengths", lengths)?;
        model.wire_node(
            "reversed",
            ReverseSubsequences::new(operator, rank)?,
            &[data, lengths],
        )
    };
    let check = |result: TractResult<TVec<OutletId>>, expected: &str| {
        let error = format!("{:#}", result.unwrap_err());
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    };
    check(
        wire(TIME_MAJOR, f32::fact([4]), i64::fact([4])),
        "input \"input\" has rank 1, expected at least 2",
    );
    check(
        wire(TIME_MAJOR, f32::fact([4, 2]), i64::fact([3])),
        "size 3 in dimension 0, expected 2",
    );
    check(
        wire(TIME_MAJOR, f32::fact([4, 2]), i64::fact([1, 2])),
        "rank 2, expected 1",
    );
    check(
        wire(TIME_MAJOR, f32::fact([4, 2]), i32::fact([2])),
        "input \"sequence_lens\" has elements of type int32, expected int64",
    );
    check(
        wire(TIME_MAJOR, f32::fact([4, 2]), f32::fact([2])),
        "sequence lengths of type F32",
    );

    let bad = |policy, lengths: [i64; 2]| {
        let op = ReverseSubsequences::new(TIME_MAJOR, 2)
            .unwrap()
            .with_policy(policy);
        let inputs = tvec!(iota(&[3, 2]).into(), tensor1(&lengths).into());
        op.eval(&EvalContext::out_of_plan(), inputs)
    };
    let error = bad(LengthsPolicy::Reject, [1, 4]).unwrap_err().to_string();
    assert_eq!(
        error,
        "sequence length 4 at index 1 is out of range: expected 0 to 3"
    );
    let clamped = bad(LengthsPolicy::Clamp, [-7, 4]).unwrap();
    assert_eq!(*clamped[0], expected(&iota(&[3, 2]), 1, 0, &[0, 3]));
}

#[cfg(feature = "multithread")]
#[test]
fn tract_s_executor_is_the_op_s() {
    let pool = multithread::Executor::multithread(2);
    let data = iota(&[64, 512, 32]);
    let lengths: Vec<i64> = (0..64).map(|index| index * 8).collect();
    let expected = expected(&data, 0, 1, &lengths);
    let output = multithread::multithread_tract_scope(pool, || {
        let model = model(BATCH_MAJOR, f32::fact([64, 512, 32]), i64::fact([64]));
        run(model, tvec!(data.into(), tensor1(&lengths).into())).unwrap()
    });
    assert_eq!(output, expected);
}
