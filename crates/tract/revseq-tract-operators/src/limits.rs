//! Limits of loops, and of outputs whose sizes come from data.
//!
//! A size from data may be anything, so an operator asks [`Limits::allow`] before it allocates its
//! output. The steps and bytes of loops are counted while they run, in `loops/budget.rs`.

use std::time::Duration;

use tract_onnx::tract_hir::internal::*;

/// Limits of one run of a loop, including its inner loops, and of outputs whose sizes come from
/// data. Without limits, a loop may run forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum number of steps, including those of inner loops.
    pub steps: Option<u64>,
    /// The maximum number of bytes of all live states and scan outputs, and of any other value in a
    /// step, as far as its size is known in advance; and of any output whose sizes come from data
    /// or constants: of `ConstantOfShape`, `Expand`, `OneHot`, `Pad` and `Tile`.
    pub bytes: Option<u64>,
    /// The maximum time of a run, from its beginning. It ends where an
    /// [`Interrupt`](crate::Interrupt) ends it, with [`Interrupted`](crate::Interrupted).
    pub time: Option<Duration>,
}

impl Limits {
    /// Sets no limits.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            steps: None,
            bytes: None,
            time: None,
        }
    }

    /// Sets the maximum number of steps.
    #[must_use]
    pub const fn with_steps(self, steps: u64) -> Self {
        Self {
            steps: Some(steps),
            ..self
        }
    }

    /// Sets the maximum number of bytes of live values.
    #[must_use]
    pub const fn with_bytes(self, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }

    /// Sets the maximum time of a run.
    ///
    /// In a model that runs on tract alone, it is that of each loop that runs step by step, with those
    /// in it.
    #[must_use]
    pub const fn with_time(self, time: Duration) -> Self {
        Self {
            time: Some(time),
            ..self
        }
    }
}

/// A run goes beyond its [`Limits`], or beyond the memory that there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BeyondLimits(String);

impl BeyondLimits {
    /// The error of what is too much, in words.
    pub(crate) fn error(what: String) -> TractError {
        Self(what).into()
    }
}

/// Number of bytes of an output from which it is tried whether there is memory: an allocation that
/// fails aborts the process.
const TRIED: usize = 1 << 28;

impl Limits {
    /// Checks the sizes of an output before it is allocated.
    pub(crate) fn allow(&self, datum_type: DatumType, shape: &[usize]) -> TractResult<()> {
        let sizes = shape.iter().map(|size| *size.max(&1));
        let elements = sizes.into_iter().try_fold(1_usize, usize::checked_mul);
        let bytes = elements.and_then(|it| it.checked_mul(datum_type.size_of()));
        let Some(bytes) = bytes.filter(|bytes| isize::try_from(*bytes).is_ok()) else {
            return Err(BeyondLimits::error(format!(
                "its output of sizes {shape:?} is larger than any memory"
            )));
        };
        if shape.contains(&0) {
            return Ok(());
        }
        let takes = || format!("its output of sizes {shape:?} takes {bytes} bytes");
        if let Some(limit) = self.bytes
            && u64::try_from(bytes).is_ok_and(|bytes| bytes > limit)
        {
            let what = format!("{}, more than the {limit} that are allowed", takes());
            return Err(BeyondLimits::error(what));
        }
        let is_there = || Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
        if bytes >= TRIED && !is_there() {
            let what = format!("{}, for which there is no memory", takes());
            return Err(BeyondLimits::error(what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_limited_before_they_are_allocated() {
        let limits = Limits::none().with_bytes(64);
        let refused = |limits: Limits, shape: &[usize]| {
            let error = limits.allow(f32::datum_type(), shape);
            error.unwrap_err().to_string()
        };
        limits.allow(f32::datum_type(), &[4, 4]).unwrap();
        limits.allow(f32::datum_type(), &[0, 1 << 40]).unwrap();
        let error = refused(limits, &[17]);
        assert!(
            error.contains("takes 68 bytes, more than the 64"),
            "{error}"
        );
        for shape in [&[1 << 40, 1 << 40][..], &[1 << 61], &[0, 1 << 40, 1 << 40]] {
            let error = refused(Limits::none(), shape);
            assert!(error.contains("larger than any memory"), "{error}");
        }
        let error = refused(Limits::none(), &[1 << 60]);
        assert!(error.contains("there is no memory"), "{error}");
    }
}
