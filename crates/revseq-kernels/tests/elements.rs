//! Slices of elements, and lengths of the processor's own size.

use std::fmt::Debug;

use revseq_kernels::cpu::{self, Threads};
use revseq_kernels::{
    Element, Error, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths,
};

/// 3 sequences of 4 elements, of lengths 2, 4 and 0.
const REVERSED: [usize; 12] = [1, 0, 2, 3, 7, 6, 5, 4, 8, 9, 10, 11];
const LENGTHS: [usize; 3] = [2, 4, 0];

fn plan<T: Element>() -> Plan {
    let lengths = u64::DATA_TYPE;
    let desc = ReverseSubsequencesDesc::reverse_sequence(T::DATA_TYPE, &[3, 4], 0, 1, lengths);
    Plan::new(&desc.unwrap()).unwrap()
}

fn check<T: Element + PartialEq + Debug>(of: impl Fn(u8) -> T) {
    let plan = plan::<T>();
    let lengths = SequenceLengths::new(&plan, LENGTHS.as_slice(), LengthsPolicy::Reject).unwrap();
    let input: Vec<T> = (0..12).map(&of).collect();
    let expected: Vec<T> = REVERSED.iter().map(|&index| input[index]).collect();

    let mut output = vec![of(0); 12];
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
