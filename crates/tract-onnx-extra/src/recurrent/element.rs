//! The numbers that layers compute with: floats by vectors, doubles one by one.

use rten_simd::ops::{BitOps, NumOps};
use rten_simd::{Isa, SimdUnaryOp};
use tract_onnx::tract_hir::internal::*;

use super::activation::{Activation, Functions, GateFunction, Number};
use super::logistic::{Sigmoid, Tanh};
use super::product::AddProducts;

/// A type of numbers, with the instructions of a processor.
pub(super) trait Element: Number + Datum {
    /// Some numbers beside each other.
    type Vector<I: Isa>: Copy;

    fn lanes<I: Isa>(isa: I) -> usize;
    fn load<I: Isa>(isa: I, from: &[Self]) -> Self::Vector<I>;
    fn store<I: Isa>(isa: I, vector: Self::Vector<I>, to: &mut [Self]);
    fn splat<I: Isa>(isa: I, number: Self) -> Self::Vector<I>;
    fn sum<I: Isa>(isa: I, a: Self::Vector<I>, b: Self::Vector<I>) -> Self::Vector<I>;
    fn difference<I: Isa>(isa: I, a: Self::Vector<I>, b: Self::Vector<I>) -> Self::Vector<I>;
    fn product<I: Isa>(isa: I, a: Self::Vector<I>, b: Self::Vector<I>) -> Self::Vector<I>;

    fn add_products<I: Isa>(isa: I, products: AddProducts<'_, Self>);

    /// Applies the function of a gate to whole vectors.
    fn activate<I: Isa>(
        isa: I,
        function: GateFunction,
        functions: &Functions,
        all: &mut [Self],
    ) -> TractResult<()>;
}

impl Element for f32 {
    type Vector<I: Isa> = I::F32;

    #[inline(always)]
    fn lanes<I: Isa>(isa: I) -> usize {
        isa.f32().len()
    }

    #[inline(always)]
    fn load<I: Isa>(isa: I, from: &[Self]) -> I::F32 {
        isa.f32().load(from)
    }

    #[inline(always)]
    fn store<I: Isa>(isa: I, vector: I::F32, to: &mut [Self]) {
        isa.f32().store(vector, to);
    }

    #[inline(always)]
    fn splat<I: Isa>(isa: I, number: Self) -> I::F32 {
        isa.f32().splat(number)
    }

    #[inline(always)]
    fn sum<I: Isa>(isa: I, a: I::F32, b: I::F32) -> I::F32 {
        isa.f32().add(a, b)
    }

    #[inline(always)]
    fn difference<I: Isa>(isa: I, a: I::F32, b: I::F32) -> I::F32 {
        isa.f32().sub(a, b)
    }

    #[inline(always)]
    fn product<I: Isa>(isa: I, a: I::F32, b: I::F32) -> I::F32 {
        isa.f32().mul(a, b)
    }

    #[inline(always)]
    fn add_products<I: Isa>(isa: I, products: AddProducts<'_, Self>) {
        products.by_vectors(isa);
    }

    #[inline(always)]
    fn activate<I: Isa>(
        isa: I,
        function: GateFunction,
        functions: &Functions,
        all: &mut [Self],
    ) -> TractResult<()> {
        match function.activation {
            Activation::Sigmoid => {
                function.bound(all);
                by_vectors::<I, Sigmoid>(isa, all);
            }
            Activation::Tanh => {
                function.bound(all);
                by_vectors::<I, Tanh>(isa, all);
            }
            _ => return function.apply(functions, all),
        }
        Ok(())
    }
}

#[inline(always)]
fn by_vectors<I: Isa, F: SimdUnaryOp<f32> + Default>(isa: I, all: &mut [f32]) {
    let ops = isa.f32();
    for part in all.chunks_exact_mut(ops.len()) {
        ops.store(F::apply(isa, ops.load(part)), part);
    }
}

impl Element for f64 {
    type Vector<I: Isa> = f64;

    #[inline(always)]
    fn lanes<I: Isa>(_isa: I) -> usize {
        1
    }

    #[inline(always)]
    fn load<I: Isa>(_isa: I, from: &[Self]) -> f64 {
        from[0]
    }

    #[inline(always)]
    fn store<I: Isa>(_isa: I, vector: f64, to: &mut [Self]) {
        to[0] = vector;
    }

    #[inline(always)]
    fn splat<I: Isa>(_isa: I, number: Self) -> f64 {
        number
    }

    #[inline(always)]
    fn sum<I: Isa>(_isa: I, a: f64, b: f64) -> f64 {
        a + b
    }

    #[inline(always)]
    fn difference<I: Isa>(_isa: I, a: f64, b: f64) -> f64 {
        a - b
    }

    #[inline(always)]
    fn product<I: Isa>(_isa: I, a: f64, b: f64) -> f64 {
        a * b
    }

    #[inline(always)]
    fn add_products<I: Isa>(_isa: I, products: AddProducts<'_, Self>) {
        products.plain();
    }

    #[inline(always)]
    fn activate<I: Isa>(
        _isa: I,
        function: GateFunction,
        functions: &Functions,
        all: &mut [Self],
    ) -> TractResult<()> {
        function.apply(functions, all)
    }
}
