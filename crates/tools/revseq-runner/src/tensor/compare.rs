//! Whether an output is the expected one.

use std::fmt;

use serde::{Serialize, Serializer};

use revseq_graph::ElementType;
use revseq_kernels::DataType;

use super::element::Element;
use super::{Data, Tensor, coordinates, type_and_shape};

/// Tolerance of an output's elements around the expected ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tolerance {
    /// Every element has the same bits.
    Exact,
    /// That of floats that were computed: 1e-4 of the value plus 1e-5; for types of fewer digits, the last of these
    /// in place of the 1e-4.
    Computed,
    /// Floats may be off by a part of the expected value and a distance besides, and
    /// any NaN is as good as any other.
    Within { relative: f64, absolute: f64 },
}

impl Tolerance {
    /// The same tolerance for elements of a type.
    fn of(self, element_type: ElementType) -> Self {
        let relative = match (self, element_type) {
            (Self::Exact | Self::Within { .. }, _) => return self,
            (_, ElementType::Fixed(DataType::Float16)) => half::f16::EPSILON.to_f64(),
            (_, ElementType::Fixed(DataType::Bfloat16)) => half::bf16::EPSILON.to_f64(),
            _ => 1e-4,
        };
        Self::Within {
            relative,
            absolute: 1e-5,
        }
    }

    fn allows(self, expected: f64, got: f64) -> bool {
        let Self::Within { relative, absolute } = self else {
            return false;
        };
        // Beside an infinity, everything would be within the tolerance.
        expected == got
            || (expected.is_nan() && got.is_nan())
            || (expected.is_finite()
                && (expected - got).abs() <= absolute + relative * expected.abs())
    }
}

/// Difference between an output and the expected one.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Difference {
    /// A difference of type or shape.
    Type { expected: String, got: String },
    /// A difference of values.
    Values {
        /// The first element that differs.
        at: Vec<usize>,
        expected: String,
        got: String,
        /// Number of elements that differ, out of `count`.
        differing: usize,
        count: usize,
        /// The largest distance between floats that differ. NaN beside a number is infinitely far.
        #[serde(serialize_with = "as_element")]
        maximum_error: Option<f64>,
    },
}

/// Compares an output with the expected one.
///
/// Elements are the same if their bits are, or if the tolerance allows it.
pub(crate) fn compare(
    expected: &Tensor,
    got: &Tensor,
    tolerance: Tolerance,
) -> Result<(), Difference> {
    if (expected.element_type(), expected.shape()) != (got.element_type(), got.shape()) {
        return Err(Difference::Type {
            expected: type_and_shape(expected.element_type(), expected.shape()),
            got: type_and_shape(got.element_type(), got.shape()),
        });
    }
    if expected.data() == got.data() {
        return Ok(());
    }
    let tolerance = tolerance.of(expected.element_type());
    let mut first = None;
    let mut differing = 0;
    let mut maximum_error: Option<f64> = None;
    for index in 0..expected.len() {
        if same_bits(expected, got, index) {
            continue;
        }
        let values = (
            expected.value(index).components(),
            got.value(index).components(),
        );
        if let (Some(expected), Some(got)) = values {
            if std::iter::zip(expected, got).all(|(expected, got)| tolerance.allows(expected, got))
            {
                continue;
            }
            let error = std::iter::zip(expected, got)
                .map(|(expected, got)| distance(expected, got))
                .fold(0.0, f64::max);
            maximum_error = Some(maximum_error.map_or(error, |maximum| maximum.max(error)));
        }
        first.get_or_insert(index);
        differing += 1;
    }
    let Some(first) = first else {
        return Ok(());
    };
    let (expected_text, got_text) = texts(expected, got, first);
    Err(Difference::Values {
        at: coordinates(expected.shape(), first),
        expected: expected_text,
        got: got_text,
        differing,
        count: expected.len(),
        maximum_error,
    })
}

fn same_bits(expected: &Tensor, got: &Tensor, index: usize) -> bool {
    match (expected.data(), got.data()) {
        (Data::Strings(expected), Data::Strings(got)) => expected[index] == got[index],
        _ => expected.element(index) == got.element(index),
    }
}

fn distance(expected: f64, got: f64) -> f64 {
    if expected == got || (expected.is_nan() && got.is_nan()) {
        return 0.0;
    }
    let distance = (expected - got).abs();
    if distance.is_nan() {
        f64::INFINITY
    } else {
        distance
    }
}

/// Returns the texts of both values, with their bits if they read the same.
fn texts(expected: &Tensor, got: &Tensor, index: usize) -> (String, String) {
    let (one, other) = (
        expected.value(index).to_string(),
        got.value(index).to_string(),
    );
    if one != other {
        return (one, other);
    }
    let bits = |tensor: &Tensor| {
        let digits: Vec<String> = tensor
            .element(index)
            .iter()
            .rev()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{} (0x{})", tensor.value(index), digits.concat())
    };
    (bits(expected), bits(got))
}

impl Difference {
    /// The difference of a value, behind its name.
    pub(crate) fn of(&self, value: &str) -> String {
        match self {
            Self::Type { .. } => format!("{value}: {self}"),
            Self::Values { .. } => format!("{value}{self}"),
        }
    }
}

/// An infinity is no number in JSON.
fn as_element<S: Serializer>(error: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    let error = error.map(|error| Element::Double(error).json());
    error.serialize(serializer)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { expected, got } => write!(f, "expected {expected}, got {got}"),
            Self::Values {
                at,
                expected,
                got,
                differing,
                count,
                maximum_error,
            } => {
                write!(
                    f,
                    "{at:?}: expected {expected}, got {got}; {differing} of {count} differ"
                )?;
                match maximum_error {
                    Some(error) => write!(f, ", max error {error:.3e}"),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Tensor {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Tensor::new(vec![values.len()], Data::Fixed(DataType::Float32, bytes)).unwrap()
    }

    #[test]
    fn floats_may_be_off_by_a_little_unless_exact() {
        let check = |expected: f32, got: f32, exact, same| {
            let tolerance = if exact {
                Tolerance::Exact
            } else {
                Tolerance::Computed
            };
            let result = compare(&floats(&[0.0, expected]), &floats(&[0.0, got]), tolerance);
            assert_eq!(result.is_ok(), same, "{expected} {got} {exact}: {result:?}");
        };
        let quiet = f32::from_bits(0x7fc0_0001);
        check(1.0, 1.0, true, true);
        check(1.0, 1.00001, false, true);
        check(1.0, 1.00001, true, false);
        check(1.0, 1.001, false, false);
        check(0.0, 5e-6, false, true);
        check(0.0, -0.0, false, true);
        check(0.0, -0.0, true, false);
        check(f32::NAN, quiet, false, true);
        check(f32::NAN, quiet, true, false);
        check(f32::NAN, 1.0, false, false);
        check(f32::INFINITY, f32::INFINITY, false, true);
        check(f32::INFINITY, 1.0, false, false);
        check(1.0, f32::INFINITY, false, false);
    }

    #[test]
    fn half_floats_may_be_off_by_their_last_digit() {
        let halves = |data_type, bits: u16| {
            Tensor::new(vec![1], Data::Fixed(data_type, bits.to_le_bytes().into())).unwrap()
        };
        for (data_type, one) in [(DataType::Float16, 0x3c00), (DataType::Bfloat16, 0x3f80)] {
            let is_close = |got, tolerance| {
                let (expected, got) = (halves(data_type, one), halves(data_type, got));
                compare(&expected, &got, tolerance).is_ok()
            };
            assert!(is_close(one + 1, Tolerance::Computed));
            assert!(!is_close(one + 2, Tolerance::Computed));
            let given = Tolerance::Within {
                relative: 1e-4,
                absolute: 1e-5,
            };
            assert!(!is_close(one + 1, given));
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        let difference = compare(
            &floats(&[1.0, 2.0, 3.0]),
            &floats(&[1.0, 4.0, 0.0]),
            Tolerance::Computed,
        );
        assert_eq!(
            difference.unwrap_err().to_string(),
            "[1]: expected 2.0, got 4.0; 2 of 3 differ, max error 3.000e0"
        );
        let zeros = compare(&floats(&[0.0]), &floats(&[-0.0]), Tolerance::Exact).unwrap_err();
        assert!(
            zeros
                .to_string()
                .starts_with("[0]: expected 0.0, got -0.0;"),
            "{zeros}"
        );
    }
}
