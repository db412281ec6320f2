//! Every case of the table through every path, bit for bit.

use std::error::Error;
use std::iter::successors;

use revseq_kernels::{LengthsPolicy, Plan, SequenceLengths, TensorDesc};
use revseq_tests::paths::{paths, rewritten};
use revseq_tests::{Case, cases};

#[test]
fn every_path_gives_the_table_s_outputs() {
    let paths = paths();
    let (mut ran, mut skipped) = (0, 0);
    for case in cases() {
        for policy in [LengthsPolicy::Reject, LengthsPolicy::Clamp] {
            for path in &paths {
                if let Some(reason) = path.lacks(&case) {
                    println!("{} skips {}: {reason}", path.name, case.name);
                    skipped += 1;
                    continue;
                }
                let result = path.run(&case, policy);
                match (case.expected(policy), result) {
                    (Some(expected), Ok(found)) => {
                        assert_eq!(found, *expected, "{}, {}, {policy:?}", case.name, path.name);
                    }
                    (None, Err(error)) => {
                        let message = chain(&*error);
                        let (right, _) = rejection(&case);
                        assert!(
                            message.contains(&right),
                            "{}: {message}, not {right}",
                            path.name
                        );
                    }
                    (Some(_), Err(error)) => {
                        panic!("{}, {}, {policy:?}: {error}", case.name, path.name)
                    }
                    (None, Ok(found)) => {
                        panic!(
                            "{}, {}, {policy:?}: no error, but {found:?}",
                            case.name, path.name
                        )
                    }
                }
                ran += 1;
            }
        }
    }
    // 69 cases, 6 of them in 6 types, under two policies. tract lacks two
    // types; a GPU lacks strings.
    let on_gpu = paths.len() - 5;
    assert_eq!(skipped, (2 + on_gpu) * 2);
    assert_eq!(ran + skipped, 99 * paths.len() * 2);
}

/// The operator's portable replacement. Its lengths are clamped.
#[test]
fn standard_operators_give_the_table_s_outputs() {
    let path = rewritten();
    let mut ran = 0;
    for case in cases() {
        let policy = LengthsPolicy::Clamp;
        let Some(expected) = case.expected(policy) else {
            continue;
        };
        if path.lacks(&case).is_none() {
            let found = path.run(&case, policy);
            let found = found.unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert_eq!(found, *expected, "{}", case.name);
            ran += 1;
        }
    }
    // All that have a result but the two of complex types.
    assert_eq!(ran, 85);
}

/// The typed error of every case that is one, before anything runs.
#[test]
fn every_error_case_has_a_typed_error() {
    let mut errors = String::new();
    for case in cases().iter().filter(|case| case.rejecting.is_none()) {
        let (message, error) = rejection(case);
        errors += &format!("{}\n    {message}\n    {error}\n", case.name);
    }
    insta::assert_snapshot!(errors);
}

/// An error with all that it was caused by.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = successors(Some(error), |&error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// The error of a case, as a message and as a value.
fn rejection(case: &Case) -> (String, String) {
    let steps = match &case.steps {
        Err(error) => return (error.to_string(), format!("{:?}", error.kind)),
        Ok(steps) => steps,
    };
    let [step] = steps.as_slice() else {
        panic!("{} has {} steps", case.name, steps.len())
    };
    let data = revseq_graph::TensorType {
        element_type: case.element_type,
        sizes: &case.sizes,
    };
    let lengths = revseq_graph::TensorType {
        element_type: revseq_kernels::DataType::Int64.into(),
        sizes: &step.lengths_sizes,
    };
    let plan = step
        .operator
        .lower(&case.name, data, lengths)
        .map(|desc| Plan::new(&desc).expect("a lowered node has a plan"))
        .expect("a node that was read lowers");
    let error = SequenceLengths::new(&plan, step.lengths.data(), LengthsPolicy::Reject)
        .expect_err("lengths out of range");
    (error.to_string(), format!("{error:?}"))
}

/// The descriptor's own words for the page's examples, without ONNX.
#[test]
fn the_page_s_examples_give_its_outputs() {
    use revseq_kernels::cpu::{Threads, run};
    use revseq_kernels::{DataType, FeatureLevel, ReverseSubsequencesDesc};

    let input: Vec<u8> = (1..=12)
        .flat_map(|value: u8| f32::from(value).to_ne_bytes())
        .collect();
    let check = |axis, lengths_sizes: [u64; 4], lengths: &[u32], expected: [u8; 12]| {
        let data = TensorDesc::packed(DataType::Float32, [1, 1, 3, 4]);
        let desc = ReverseSubsequencesDesc {
            input: data.clone(),
            sequence_lengths: TensorDesc::packed(DataType::Uint32, lengths_sizes),
            output: data,
            axis,
        };
        assert_eq!(desc.lowest_feature_level(), Ok(FeatureLevel::V2_1));
        let plan = Plan::new(&desc).unwrap();
        let lengths = SequenceLengths::new(&plan, lengths, LengthsPolicy::Clamp).unwrap();
        let mut output = vec![0; 48];
        run(&plan, &lengths, &input, &mut output, Threads::Serial).unwrap();
        let expected: Vec<u8> = expected
            .iter()
            .flat_map(|&v| f32::from(v).to_ne_bytes())
            .collect();
        assert_eq!(output, expected);
    };
    check(
        3,
        [1, 1, 3, 1],
        &[2, 4, 3],
        [2, 1, 3, 4, 8, 7, 6, 5, 11, 10, 9, 12],
    );
    check(
        2,
        [1, 1, 1, 4],
        &[2, 3, 1, 0],
        [5, 10, 3, 4, 1, 6, 7, 8, 9, 2, 11, 12],
    );
}
