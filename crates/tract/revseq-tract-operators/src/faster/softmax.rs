//! Softmax and LogSoftmax of floats, by vectors.
//!
//! tract has a kernel for rows of whole vectors, and takes all others element by element. Here the powers
//! of a row's last elements are one vector, too, and along another axis than the last one rows of what
//! lies behind it are computed together.

use rten_simd::functional::simd_map;
use rten_simd::ops::{BitOps, FloatOps, IntOps, NumOps};
use rten_simd::{Isa, Simd, SimdOp};
use tract_onnx::tract_core::ops::nn::{Softmax, SoftmaxKind};
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;
use tract_onnx::tract_hir::internal::*;

use super::rows::{Layout, greater, greatest_of_row};
use crate::operators::along_axes::AlongAxes;
use crate::typed_op::{Stateless, Typed};

/// The operator by vectors.
pub(crate) fn by_vectors(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<Box<dyn TypedOp>>> {
    rule_if_some!(Typed(AlongAxes(op)) = node.op_as());
    rule_if_some!(op = op.downcast_ref::<Softmax>());
    let fact = model.outlet_fact(node.inputs[0])?;
    rule_if!(fact.datum_type == f32::datum_type() && !fact.is_exotic());
    let mut axes = op.axes.clone();
    axes.sort_unstable();
    rule_if!(axes.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    let op = OfRows {
        axes,
        is_log: op.kind == SoftmaxKind::LogSoftmax,
    };
    Ok(Some(Box::new(Typed(op))))
}

/// A Softmax along neighbouring axes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OfRows {
    axes: TVec<usize>,
    is_log: bool,
}

impl Stateless for OfRows {
    const NAME: &str = "Softmax";

    fn name(&self) -> StaticName {
        if self.is_log { "LogSoftmax" } else { "Softmax" }.into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axes: {:?}", self.axes)])
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let mut value = args_1!(inputs).into_tensor();
        let layout = Layout::each(value.shape(), &self.axes);
        if let ([layout], true) = (&*layout, value.len() > 0) {
            let (part, work) = (layout.along * layout.inner, value.len());
            let mut plain = value.try_as_plain_ram_mut()?;
            par_chunks_mut(plain.as_slice_mut::<f32>()?, part, work, |_, values| {
                SoftmaxParts {
                    values,
                    layout: *layout,
                    is_log: self.is_log,
                }
                .dispatch();
                Ok(())
            })?;
        }
        Ok(tvec![value.into_tvalue()])
    }
}

/// The parts of a value that one thread computes.
struct SoftmaxParts<'a> {
    values: &'a mut [f32],
    layout: Layout,
    is_log: bool,
}

impl SimdOp for SoftmaxParts<'_> {
    type Output = ();

    // Everything is inlined, so that it is compiled for the instructions of the processor.
    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let Layout { along, inner, .. } = self.layout;
        if inner == 1 {
            for row in self.values.chunks_exact_mut(along) {
                match self.is_log {
                    true => log_softmax(isa, row),
                    false => softmax(isa, row),
                }
            }
            return;
        }
        let mut rows = [(); 3].map(|()| vec![0.0; inner]);
        for part in self.values.chunks_exact_mut(along * inner) {
            match self.is_log {
                true => log_softmax_of_columns(isa, part, &mut rows),
                false => softmax_of_columns(isa, part, &mut rows),
            }
        }
    }
}

#[inline(always)]
fn softmax<I: Isa>(isa: I, row: &mut [f32]) {
    let ops = isa.f32();
    let shift = ops.splat(greatest_of_row(row, |it| it));
    let (vectors, rest) = row.split_at_mut(row.len() / ops.len() * ops.len());
    let mut sums = ops.zero();
    // Closures with vectors are inlined, too, or each vector would be passed in memory.
    simd_map(
        ops,
        &mut *vectors,
        #[inline(always)]
        |x| {
            let power = exp(isa, ops.sub(x, shift));
            sums = ops.add(sums, power);
            power
        },
    );
    simd_map(
        ops,
        &mut *rest,
        #[inline(always)]
        |x| exp(isa, ops.sub(x, shift)),
    );
    let factor = (ops.sum(sums) + rest.iter().sum::<f32>()).recip();
    row.iter_mut().for_each(|it| *it *= factor);
}

#[inline(always)]
fn log_softmax<I: Isa>(isa: I, row: &mut [f32]) {
    let ops = isa.f32();
    let most = greatest_of_row(row, |it| it);
    let shift = ops.splat(most);
    let mut sums = ops.zero();
    let mut vectors = row.chunks_exact(ops.len());
    for vector in &mut vectors {
        sums = ops.add(sums, exp(isa, ops.sub(ops.load(vector), shift)));
    }
    let (rest, mask) = ops.load_pad(vectors.remainder());
    let powers = exp(isa, ops.sub(rest, shift));
    sums = ops.add(sums, ops.select(powers, ops.zero(), mask));
    let log = ops.sum(sums).ln();
    row.iter_mut().for_each(|it| *it = *it - most - log);
}

/// The greatest of each column, and the sums of the powers of what is below them. A row of powers is
/// given to what keeps it.
#[inline(always)]
fn sums<'a, I: Isa>(
    isa: I,
    part: &mut [f32],
    [most, sums, powers]: &'a mut [Vec<f32>; 3],
    keeps: bool,
) -> (&'a [f32], &'a mut [f32]) {
    let inner = most.len();
    most.fill(f32::NEG_INFINITY);
    for row in part.chunks_exact(inner) {
        for (most, it) in std::iter::zip(&mut *most, row) {
            *most = greater(*most, *it);
        }
    }
    sums.fill(0.0);
    for row in part.chunks_exact_mut(inner) {
        for (power, (it, most)) in std::iter::zip(&mut *powers, std::iter::zip(&*row, &*most)) {
            *power = it - most;
        }
        simd_map(
            isa.f32(),
            &mut **powers,
            #[inline(always)]
            |x| exp(isa, x),
        );
        for (sum, power) in std::iter::zip(&mut *sums, &*powers) {
            *sum += power;
        }
        if keeps {
            row.copy_from_slice(powers);
        }
    }
    (most, sums)
}

#[inline(always)]
fn softmax_of_columns<I: Isa>(isa: I, part: &mut [f32], rows: &mut [Vec<f32>; 3]) {
    let (_, factors) = sums(isa, part, rows, true);
    factors.iter_mut().for_each(|it| *it = it.recip());
    for row in part.chunks_exact_mut(factors.len()) {
        for (it, factor) in std::iter::zip(row, &*factors) {
            *it *= factor;
        }
    }
}

#[inline(always)]
fn log_softmax_of_columns<I: Isa>(isa: I, part: &mut [f32], rows: &mut [Vec<f32>; 3]) {
    let (most, logs) = sums(isa, part, rows, false);
    logs.iter_mut().for_each(|it| *it = it.ln());
    for row in part.chunks_exact_mut(logs.len()) {
        for (it, (most, log)) in std::iter::zip(row, std::iter::zip(most, &*logs)) {
            *it = *it - most - log;
        }
    }
}

/// The power of e of a number that is not above 0, to 2e-7 of it, or 0 below the least normal float. NaN
/// stays NaN.
///
/// ```text
/// e^x = 2^n e^r, where n is the integer that is next to x / ln 2, and r is at most ln 2 / 2
/// ```
#[inline(always)]
pub(crate) fn exp<I: Isa>(isa: I, x: I::F32) -> I::F32 {
    const LEAST: f32 = -87.336_54;
    // Beside this number, floats are 1 apart, and their last bits are an integer. It has the exponent's bias.
    const ROUNDER: f32 = 12_582_912.0 + 127.0;
    // Ln 2 in two parts, of which the first has few bits.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    // Those of Cephes' expf.
    const COEFFICIENTS: [f32; 6] = [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        0.166_666_66,
        0.5,
        1.0,
    ];
    let (ops, integers) = (isa.f32(), isa.i32());
    let rounder = ops.splat(ROUNDER);
    let biased = ops.mul_add(x, ops.splat(std::f32::consts::LOG2_E), rounder);
    let n = ops.sub(biased, rounder);
    let r = ops.mul_sub_from(n, ops.splat(LN_2[0]), x);
    let r = ops.mul_sub_from(n, ops.splat(LN_2[1]), r);
    let mut power = ops.splat(1.987_569_2e-4);
    for coefficient in COEFFICIENTS {
        power = ops.mul_add(power, r, ops.splat(coefficient));
    }
    power = ops.mul_add(power, r, ops.one());
    let exponent = integers.shift_left::<23>(biased.reinterpret_cast::<I::I32>());
    let power = ops.mul(power, exponent.reinterpret_cast::<I::F32>());
    ops.select(ops.zero(), power, ops.lt(x, ops.splat(LEAST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Exp<'a>(&'a mut [f32]);

    impl SimdOp for Exp<'_> {
        type Output = ();

        #[inline(always)]
        fn eval<I: Isa>(self, isa: I) {
            simd_map(
                isa.f32(),
                self.0,
                #[inline(always)]
                |x| exp(isa, x),
            );
        }
    }

    #[test]
    fn powers_are_those_of_doubles() {
        let all: Vec<f32> = (-105_000..=0).map(|it| it as f32 * 1e-3).collect();
        let mut powers = all.clone();
        Exp(&mut powers).dispatch();
        for (x, power) in std::iter::zip(all, powers) {
            let exact = f64::from(x).exp();
            let bound = 2e-7 * exact + f64::from(f32::MIN_POSITIVE);
            assert!((f64::from(power) - exact).abs() <= bound, "{x}: {power}");
        }
        let mut special = [f32::NEG_INFINITY, -1e30, -88.0, 0.0, -0.0];
        Exp(&mut special).dispatch();
        assert_eq!(special, [0.0, 0.0, 0.0, 1.0, 1.0]);
        let mut nan = [f32::NAN; 3];
        Exp(&mut nan).dispatch();
        assert!(nan.iter().all(|it| it.is_nan()));
    }

    fn run(sizes: [usize; 3], axes: &[usize], is_log: bool, values: &[f32]) -> Vec<f32> {
        let op = OfRows {
            axes: axes.into(),
            is_log,
        };
        let input = Tensor::from_shape(&sizes, values).unwrap();
        let found = op.eval(&EvalContext::out_of_plan(), tvec![input.into_tvalue()]);
        let found = found.unwrap();
        found[0]
            .try_as_plain_ram()
            .unwrap()
            .as_slice::<f32>()
            .unwrap()
            .to_vec()
    }

    #[test]
    fn parts_along_any_axis_sum_to_one() {
        for sizes in [[2, 3, 5], [3, 10, 1], [1, 4, 97], [2, 33, 300], [1, 1, 1]] {
            let count: usize = sizes.iter().product();
            let values: Vec<f32> = (0..count)
                .map(|it| ((it * 7919 + 13) % 2001) as f32 / 50.0 - 20.0)
                .collect();
            for axes in [&[0][..], &[1], &[2], &[1, 2], &[0, 1, 2]] {
                let layout = Layout::each(&sizes, axes)[0];
                let [powers, logs] = [false, true].map(|log| run(sizes, axes, log, &values));
                for index in 0..count {
                    let (part, column) =
                        (index / (layout.along * layout.inner), index % layout.inner);
                    let sum: f64 = (0..layout.along)
                        .map(|row| (part * layout.along + row) * layout.inner + column)
                        .map(|it| f64::from(values[it]).exp())
                        .sum();
                    let exact = f64::from(values[index]).exp() / sum;
                    assert!((f64::from(powers[index]) - exact).abs() <= 5e-6 * exact.max(1e-30));
                    assert!((f64::from(logs[index]) - exact.ln()).abs() <= 1e-5);
                }
            }
        }
    }

    #[test]
    fn nothing_but_infinity_has_no_parts() {
        for is_log in [false, true] {
            for axis in [1, 2] {
                let found = run([1, 3, 3], &[axis], is_log, &[f32::NEG_INFINITY; 9]);
                assert!(found.iter().all(|it| it.is_nan()));
            }
        }
    }
}
