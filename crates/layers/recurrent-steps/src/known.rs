//! Numbers that are known while a program is made: sizes, axes, indices, and what follows the step's
//! number.

use crate::elements::Kind;

/// The most elements that are known.
pub(crate) const MOST_KNOWN: usize = 1 << 12;

/// A comparison of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    #[inline(always)]
    pub(crate) fn holds<T: PartialOrd>(self, one: T, other: T) -> bool {
        match self {
            Self::Equal => one == other,
            Self::NotEqual => one != other,
            Self::Less => one < other,
            Self::LessOrEqual => one <= other,
            Self::Greater => one > other,
            Self::GreaterOrEqual => one >= other,
        }
    }

    /// The one that holds where this does not, for whole numbers.
    fn opposite(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }
}

/// A number at each step: `base + slope * step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) base: i64,
    pub(crate) slope: i64,
}

impl Line {
    pub(crate) fn at(self, step: i64) -> i64 {
        self.base.wrapping_add(self.slope.wrapping_mul(step))
    }

    pub(crate) fn constant(self) -> Option<i64> {
        (self.slope == 0).then_some(self.base)
    }
}

/// A known element: a number, or how one compares with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) line: Line,
    pub(crate) truth: Option<Comparison>,
}

impl From<i64> for Scalar {
    fn from(base: i64) -> Self {
        Line { base, slope: 0 }.into()
    }
}

impl From<bool> for Scalar {
    fn from(truth: bool) -> Self {
        i64::from(truth).into()
    }
}

impl From<Line> for Scalar {
    fn from(line: Line) -> Self {
        Self { line, truth: None }
    }
}

impl Scalar {
    /// The number of all steps.
    pub(crate) fn constant(self) -> Option<i64> {
        self.line().and_then(Line::constant)
    }

    pub(crate) fn line(self) -> Option<Line> {
        self.truth.is_none().then_some(self.line)
    }

    /// The number at a step; 0 and 1 for truth values.
    pub(crate) fn at(self, step: i64) -> i64 {
        let number = self.line.at(step);
        match self.truth {
            Some(comparison) => comparison.holds(number, 0).into(),
            None => number,
        }
    }
}

/// A function of whole numbers and truth values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Add,
    Sub,
    Mul,
    Div,
    Mod { of_dividend: bool },
    Min,
    Max,
    And,
    Or,
    Xor,
    Compare(Comparison),
}

impl Fold {
    /// The function of numbers of one type; `None` if it is not defined or not followed.
    pub(crate) fn apply(self, kind: Kind, one: Scalar, other: Scalar) -> Option<Scalar> {
        if let Fold::Compare(comparison) = self {
            return compare(comparison, one, other);
        }
        let (a, b) = (one.line()?, other.line()?);
        let line = |base: Option<i64>, slope: Option<i64>| {
            Some(Line {
                base: base?,
                slope: slope?,
            })
        };
        let made = match (self, a.constant(), b.constant()) {
            (Fold::Add, ..) => line(a.base.checked_add(b.base), a.slope.checked_add(b.slope)),
            (Fold::Sub, ..) => line(a.base.checked_sub(b.base), a.slope.checked_sub(b.slope)),
            (Fold::Mul, Some(factor), _) => {
                line(b.base.checked_mul(factor), b.slope.checked_mul(factor))
            }
            (Fold::Mul, _, Some(factor)) => {
                line(a.base.checked_mul(factor), a.slope.checked_mul(factor))
            }
            (_, Some(a), Some(b)) => line(self.of_numbers(a, b), Some(0)),
            _ => None,
        }?;
        let fits = kind != Kind::Int32
            || i32::try_from(made.base).is_ok() && i32::try_from(made.slope).is_ok();
        fits.then(|| made.into())
    }

    fn of_numbers(self, a: i64, b: i64) -> Option<i64> {
        Some(match self {
            Fold::Div => a.checked_div(b)?,
            Fold::Mod { of_dividend } => modulo(a, b, of_dividend)?,
            Fold::Min => a.min(b),
            Fold::Max => a.max(b),
            Fold::And => a & b,
            Fold::Or => a | b,
            Fold::Xor => a ^ b,
            Fold::Add | Fold::Sub | Fold::Mul | Fold::Compare(_) => return None,
        })
    }
}

/// The remainder with the sign of the divisor, or that of the dividend; `None` if there is none.
pub(crate) fn modulo(a: i64, b: i64, of_dividend: bool) -> Option<i64> {
    let rest = a.checked_rem(b)?;
    let is_other_side = rest != 0 && (rest < 0) != (b < 0);
    Some(if is_other_side && !of_dividend {
        rest + b
    } else {
        rest
    })
}

fn compare(comparison: Comparison, one: Scalar, other: Scalar) -> Option<Scalar> {
    // A truth value that is compared with a constant is itself or its opposite.
    if let (Some(truth), Some(with), Comparison::Equal) = (one.truth, other.constant(), comparison)
    {
        let truth = if with == 0 { truth.opposite() } else { truth };
        return Some(Scalar {
            truth: Some(truth),
            ..one
        });
    }
    let line = Line {
        base: one.line()?.base.checked_sub(other.line()?.base)?,
        slope: one.line()?.slope.checked_sub(other.line()?.slope)?,
    };
    Some(match line.constant() {
        Some(difference) => comparison.holds(difference, 0).into(),
        None => Scalar {
            line,
            truth: Some(comparison),
        },
    })
}

/// The opposite of a truth value.
pub(crate) fn not(scalar: Scalar) -> Scalar {
    match scalar.truth {
        Some(truth) => Scalar {
            truth: Some(truth.opposite()),
            ..scalar
        },
        None => (scalar.line.base == 0).into(),
    }
}
