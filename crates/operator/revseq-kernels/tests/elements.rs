//! Slices of elements, and lengths of the processor's own size.

use std::fmt::Debug;

use revseq_kernels::cpu::{self, Threads};
use revseq_kernels::{
    Element, Error, LengthsData, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths,
};

/// 3 sequences of 4 elements, of lengths 2, 4 and 0.
const REVERSED: [usize; 12] = [1, 0, 2, 3, 7, 6, 5, 4, 8, 9, 10, 11];
const LENGTHS: [usize; 3] = [2, 4, 0];

fn plan<T: Element>() -> Plan {
    let lengths = u64::DATA_TYPE;
    let desc = ReverseSubsequencesDesc::reverse_sequence(T::DATA_TYPE, &[3, 4], 0, 1, lengths);
    Plan::new(&desc.unwrap()).unwrap()
}

fn check<T: Element + PartialEq + Debug>(element: impl Fn(u8) -> T) {
    let plan = plan::<T>();
    let lengths = SequenceLengths::new(&plan, LENGTHS.as_slice(), LengthsPolicy::Reject).unwrap();
    let input: Vec<T> = (0..12).map(&element).collect();
    let expected: Vec<T> = REVERSED.iter().map(|&index| input[index]).collect();

    let mut output = vec![element(0); 12];
    cpu::run_elements(&plan, &lengths, &input, &mut output, Threads::default()).unwrap();
    assert_eq!(output, expected);

    let mut data = input;
    cpu::run_elements_in_place(&plan, &lengths, &mut data, Threads::default()).unwrap();
    assert_eq!(data, expected);
}

#[test]
fn slices_of_every_element_type_are_reversed() {
    check(f32::from);
    check(f64::from);
    check(|it| it);
    check(u16::from);
    check(u32::from);
    check(u64::from);
    check(|it| it as i8);
    check(i16::from);
    check(i32::from);
    check(i64::from);
    check(|it| it % 3 == 0);
    check(|it| [f32::from(it), -1.0]);
    check(|it| [f64::from(it), -1.0]);
    #[cfg(feature = "half")]
    {
        check(half::f16::from);
        check(half::bf16::from);
    }
}

#[test]
fn elements_of_another_size_are_refused() {
    let plan = plan::<f32>();
    let lengths = SequenceLengths::new(&plan, LENGTHS.as_slice(), LengthsPolicy::Reject).unwrap();
    let mismatch = Error::ElementSizeMismatch {
        expected: 4,
        actual: 8,
    };
    let (input, mut output) = ([0_u64; 12], [0_u64; 12]);
    let refused = cpu::run_elements(&plan, &lengths, &input, &mut output, Threads::Serial);
    assert_eq!(refused, Err(mismatch.clone()));
    let refused = cpu::run_elements_in_place(&plan, &lengths, &mut output, Threads::Serial);
    assert_eq!(refused, Err(mismatch));
}

#[test]
fn slices_that_are_too_short_are_refused() {
    let plan = plan::<f32>();
    let lengths = SequenceLengths::new(&plan, LENGTHS.as_slice(), LengthsPolicy::Reject).unwrap();
    let (input, mut output) = ([0_f32; 11], [0_f32; 12]);
    let refused = cpu::run_elements(&plan, &lengths, &input, &mut output, Threads::Serial);
    let message = refused.unwrap_err().to_string();
    assert_eq!(
        message,
        "the input: a buffer of 44 bytes, but its sizes and strides need 48"
    );
}

/// Calls both functions of one call on the same data.
fn one_call<'a, T: Element>(
    input: &[T],
    sizes: &[usize],
    axes: [usize; 2],
    lengths: impl Into<LengthsData<'a>>,
) -> Result<[Vec<T>; 2], Error> {
    let [batch, time] = axes;
    let lengths = lengths.into();
    let (mut data, mut output) = (input.to_vec(), input.to_vec());
    revseq_kernels::reverse_sequence(&mut data, sizes, batch, time, lengths)?;
    revseq_kernels::reverse_sequence_into(input, &mut output, sizes, batch, time, lengths)?;
    Ok([data, output])
}

#[test]
fn one_call_does_the_same_as_a_plan() {
    let expected: Vec<u8> = REVERSED.iter().map(|&index| index as u8).collect();
    let input: Vec<u8> = (0..12).collect();
    let both = one_call(&input, &[3, 4], [0, 1], LENGTHS.as_slice());
    assert_eq!(both, Ok([expected.clone(), expected]));
    // Time-major, rank 3: 2 steps of a batch of 3, with 2 features. Lengths of every type.
    let expected = [6., 7., 2., 3., 4., 5., 0., 1., 8., 9., 10., 11.]
        .map(f64::from)
        .to_vec();
    let input: Vec<f64> = (0..12).map(f64::from).collect();
    for lengths in [
        LengthsData::from(&[2_i32, 1, 0]),
        (&[2_i64, 1, 0]).into(),
        (&[2_u32, 1, 0]).into(),
        (&[2_u64, 1, 0]).into(),
        (&[2_usize, 1, 0]).into(),
        (&vec![2_usize, 1, 0]).into(),
    ] {
        let both = one_call(&input, &[2, 3, 2], [1, 0], lengths);
        assert_eq!(
            both,
            Ok([expected.clone(), expected.clone()]),
            "{lengths:?}"
        );
    }
    // Nothing to reverse is no error.
    let none: [i16; 0] = [];
    assert_eq!(
        one_call(&none, &[3, 0, 5], [0, 1], &[0, 0, 0]),
        Ok([vec![], vec![]])
    );
}

#[test]
fn one_call_refuses_mismatched_sizes_and_changes_nothing() {
    let message = |elements: usize, sizes: &[usize], axes: [usize; 2], lengths: &[i64]| {
        let input: Vec<u16> = (0..elements as u16).collect();
        let (mut data, mut output) = (input.clone(), vec![7; elements]);
        let [batch, time] = axes;
        let refused = revseq_kernels::reverse_sequence(&mut data, sizes, batch, time, lengths);
        assert_eq!(data, input);
        let into =
            revseq_kernels::reverse_sequence_into(&input, &mut output, sizes, batch, time, lengths);
        assert_eq!(refused, into);
        assert_eq!(output, vec![7; elements]);
        refused.unwrap_err().to_string()
    };
    let lengths = [2, 4, 0];
    for elements in [11, 13] {
        assert_eq!(
            message(elements, &[3, 4], [0, 1], &lengths),
            format!("the input: a slice of {elements} elements, but sizes [3, 4] have 12")
        );
    }
    assert_eq!(
        message(12, &[3, 4], [0, 2], &lengths),
        "axis 2 is out of range: the input has 2 dimensions"
    );
    assert_eq!(
        message(12, &[3, 4], [usize::MAX, 1], &lengths),
        format!(
            "axis {} is out of range: the input has 2 dimensions",
            usize::MAX
        )
    );
    assert_eq!(
        message(12, &[3, 4], [1, 1], &lengths),
        "the batch axis and the time axis are both 1, but have to differ"
    );
    assert_eq!(
        message(12, &[3, 4], [0, 1], &lengths[..2]),
        "2 sequence lengths, expected 3"
    );
    assert_eq!(
        message(12, &[3, 4], [0, 1], &[2, -1, 0]),
        "sequence length -1 at index 1 is out of range: expected 0 to 4"
    );
    let overflow = message(12, &[usize::MAX, 3], [0, 1], &lengths);
    assert!(overflow.contains("reach further than"), "{overflow}");
    let short = revseq_kernels::reverse_sequence_into(&[0; 4], &mut [0; 3], &[2, 2], 0, 1, &[2, 2]);
    assert_eq!(
        short.unwrap_err().to_string(),
        "the output: a slice of 3 elements, but sizes [2, 2] have 4"
    );
}
