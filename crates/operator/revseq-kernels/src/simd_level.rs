//! Sets of instructions for the kernels.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// A set of vector instructions that kernels are compiled for.
///
/// The best that the CPU has is used; the environment variable `REVSEQ_SIMD`
/// (`portable`, `neon`, `avx2` or `avx512`), read once, can lower it, and
/// [`Options::with_simd_level`](crate::cpu::Options::with_simd_level) chooses for one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SimdLevel {
    /// The baseline of the target: SSE2 on x86-64, elsewhere the compiler's own
    /// vectorisation of arrays.
    Portable,
    /// NEON, on aarch64.
    Neon,
    /// AVX2, with BMI1 and BMI2.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and VBMI, with all of AVX2's level.
    Avx512,
}

impl SimdLevel {
    /// Every level, from the lowest to the highest.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Neon, Self::Avx2, Self::Avx512];

    /// The name, as `REVSEQ_SIMD` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Whether this CPU has the level's instructions.
    #[must_use]
    pub fn is_supported(self) -> bool {
        match self {
            Self::Portable => true,
            Self::Neon => cfg!(target_arch = "aarch64"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_supported()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// The bytes of its widest vector.
    pub(crate) const fn vector_bytes(self) -> usize {
        match self {
            Self::Portable | Self::Neon => 16,
            Self::Avx2 => 32,
            Self::Avx512 => 64,
        }
    }

    /// The highest level at or below this one whose vectors are filled by `bytes` bytes, or the one
    /// of the narrowest.
    pub(crate) fn narrowed(self, bytes: usize) -> Self {
        match self {
            Self::Avx512 if bytes < self.vector_bytes() => Self::Avx2.narrowed(bytes),
            Self::Avx2 if bytes < self.vector_bytes() => Self::Portable,
            _ => self,
        }
    }

    /// The supported levels below this one, from the lowest to the highest, to
    /// which `REVSEQ_SIMD` can lower it.
    pub fn lower(self) -> impl Iterator<Item = Self> {
        let supported = move |level: &Self| *level < self && level.is_supported();
        Self::ALL.into_iter().filter(supported)
    }

    /// The level, or the highest supported one below it.
    pub(crate) fn or_lower(self) -> Self {
        match self.is_supported() {
            true => self,
            false => self.lower().last().unwrap_or(Self::Portable),
        }
    }

    /// The level that the environment variable `REVSEQ_SIMD` names; `None` if it is not set.
    ///
    /// # Errors
    /// It names no level.
    pub fn from_environment() -> Result<Option<Self>, UnknownSimdLevel> {
        match std::env::var_os("REVSEQ_SIMD") {
            Some(name) if !name.is_empty() => name.to_string_lossy().parse().map(Some),
            _ => Ok(None),
        }
    }

    /// The default level: the highest supported one, or a lower one that
    /// `REVSEQ_SIMD` names. A name of no level is ignored here, not by
    /// [`from_environment`](Self::from_environment).
    #[must_use]
    pub fn current() -> Self {
        static CURRENT: OnceLock<SimdLevel> = OnceLock::new();
        *CURRENT.get_or_init(|| {
            let named = Self::from_environment().ok().flatten();
            named.unwrap_or(Self::Avx512).or_lower()
        })
    }
}

/// A name of no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "REVSEQ_SIMD is {name:?}, expected one of {}",
    SimdLevel::ALL.map(SimdLevel::name).join(", ")
)]
pub struct UnknownSimdLevel {
    name: String,
}

impl FromStr for SimdLevel {
    type Err = UnknownSimdLevel;

    /// Finds the level of a name in upper or lower case.
    fn from_str(name: &str) -> Result<Self, UnknownSimdLevel> {
        let mut all = Self::ALL.into_iter();
        all.find(|level| level.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownSimdLevel {
                name: name.to_owned(),
            })
    }
}

impl fmt::Display for SimdLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_a_name_in_any_case() {
        for level in SimdLevel::ALL {
            assert_eq!(level.name().parse(), Ok(level));
            assert_eq!(level.name().to_uppercase().parse(), Ok(level));
        }
        let error = "foo".parse::<SimdLevel>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "REVSEQ_SIMD is \"foo\", expected one of portable, neon, avx2, avx512"
        );
    }
}
