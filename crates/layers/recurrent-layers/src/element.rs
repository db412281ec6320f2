//! The numbers that layers compute with: floats by vectors, doubles one by one.

use std::fmt::Debug;

use num_traits::Float;
use rten_simd::ops::{BitOps, NumOps};
use rten_simd::{Isa, SimdUnaryOp};

use crate::logistic::{Sigmoid, Tanh};
use crate::product::AddProducts;
use crate::quantized::Quantizing;
use crate::unpacked::AddDots;

/// The numbers that layers compute with: `f32` and `f64`.
pub trait Element: Number {}

impl Element for f32 {}
impl Element for f64 {}

/// Numbers, with the instructions of a processor.
pub trait Number: Float + From<f32> + Debug + Send + Sync + 'static {
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
    fn add_dots<I: Isa>(isa: I, products: AddDots<'_, Self>);

    /// The logistic function of whole vectors, in place.
    fn sigmoid_all<I: Isa>(isa: I, all: &mut [Self]);
    /// The hyperbolic tangent of whole vectors, in place.
    fn tanh_all<I: Isa>(isa: I, all: &mut [Self]);

    /// How numbers are quantised to uint8, if they can be.
    const QUANTIZING: Option<Quantizing<Self>>;

    /// The nearest number.
    fn of(number: f32) -> Self {
        number.into()
    }
}

impl Number for f32 {
    const QUANTIZING: Option<Quantizing<Self>> = Some(Quantizing::FLOATS);

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
    fn add_dots<I: Isa>(isa: I, products: AddDots<'_, Self>) {
        products.by_vectors(isa);
    }

    #[inline(always)]
    fn sigmoid_all<I: Isa>(isa: I, all: &mut [Self]) {
        by_vectors::<I, Sigmoid>(isa, all);
    }

    #[inline(always)]
    fn tanh_all<I: Isa>(isa: I, all: &mut [Self]) {
        by_vectors::<I, Tanh>(isa, all);
    }
}

#[inline(always)]
fn by_vectors<I: Isa, F: SimdUnaryOp<f32> + Default>(isa: I, all: &mut [f32]) {
    let ops = isa.f32();
    for part in all.chunks_exact_mut(ops.len()) {
        ops.store(F::apply(isa, ops.load(part)), part);
    }
}

impl Number for f64 {
    const QUANTIZING: Option<Quantizing<Self>> = None;

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
    fn add_dots<I: Isa>(_isa: I, products: AddDots<'_, Self>) {
        products.plain();
    }

    #[inline(always)]
    fn sigmoid_all<I: Isa>(_isa: I, all: &mut [Self]) {
        for x in all {
            *x = 1.0 / (1.0 + (-*x).exp());
        }
    }

    #[inline(always)]
    fn tanh_all<I: Isa>(_isa: I, all: &mut [Self]) {
        for x in all {
            *x = f64::tanh(*x);
        }
    }
}
