//! tract's vectorised functions, which keep NaN here.
//!
//! The result of a function is the same as tract's for all other numbers, to the last bit, whether
//! or not there is a NaN beside them.

use tract_onnx::tract_core::tract_linalg::element_wise::ElementWise;
use tract_onnx::tract_core::tract_linalg::routines::Func;
use tract_onnx::tract_hir::internal::*;

/// One of tract's vectorised functions, which keeps NaN: tract's own makes a number of it on some
/// processors.
#[derive(Clone, Debug)]
pub(crate) struct Kernel(Box<dyn ElementWise<f32>>);

impl Kernel {
    pub(crate) fn new(function: Func) -> TractResult<Self> {
        function.ew_f32().map(Self)
    }

    /// Applies the function in place.
    pub(crate) fn run(&self, all: &mut [f32]) -> TractResult<()> {
        if !has_nan(all) {
            return self.0.run(all);
        }
        let nan: Vec<bool> = all.iter().map(|x| x.is_nan()).collect();
        self.0.run(all)?;
        for (x, is_nan) in std::iter::zip(all, nan) {
            if is_nan {
                *x = f32::NAN;
            }
        }
        Ok(())
    }
}

/// Whether any number is NaN. The differences from infinity are integers, whose signs are collected by
/// vectors of any instruction set.
fn has_nan(all: &[f32]) -> bool {
    let signs = all.iter().fold(0, |signs, x| {
        let magnitude = x.abs().to_bits().cast_signed();
        signs | (f32::INFINITY.to_bits().cast_signed()).wrapping_sub(magnitude)
    });
    signs < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_stays_nan_wherever_it_is() {
        let functions = [Func::Sigmoid, Func::Tanh, Func::Exp, Func::Ln, Func::Erf];
        for kernel in functions.map(|function| Kernel::new(function).unwrap()) {
            for len in [1, 3, 8, 67, 261] {
                let plain: Vec<f32> = (0..len).map(|it| 0.5 + it as f32 / 64.0).collect();
                let mut expected = plain.clone();
                kernel.0.run(&mut expected).unwrap();
                for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)] {
                    for at in 0..len {
                        let mut found = plain.clone();
                        found[at] = nan;
                        kernel.run(&mut found).unwrap();
                        assert!(found[at].is_nan(), "{kernel:?} of {len} at {at}");
                        found[at] = expected[at];
                        assert_eq!(found, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn only_nan_is_nan() {
        let numbers = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-40];
        assert!(!has_nan(&numbers) && !has_nan(&[]));
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0xff80_0001)] {
            assert!(has_nan(&[&numbers[..], &[nan]].concat()));
        }
    }
}
