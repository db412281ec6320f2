//! Where the tokens of each sequence are.

use std::ops::Range;

use crate::error::Error;

/// Sequences beside each other: of as many tokens each, or between offsets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packing<'a> {
    Even { batch: usize, steps: usize },
    Offsets(&'a [i32]),
}

impl<'a> Packing<'a> {
    /// Checks that offsets go from the first token to the last.
    pub(super) fn of(
        operand: &'static str,
        offsets: &'a [i32],
        tokens: usize,
    ) -> Result<Self, Error> {
        let mut least = 0;
        for (index, &value) in offsets.iter().enumerate() {
            // The last one alone may not be less than all.
            let range = match index {
                0 => 0..=0,
                _ if index + 1 == offsets.len() => tokens.max(least)..=tokens,
                _ => least..=tokens,
            };
            least = match usize::try_from(value) {
                Ok(offset) if range.contains(&offset) => offset,
                _ => {
                    return Err(Error::Offset {
                        operand,
                        index,
                        value,
                        least: *range.start(),
                        most: *range.end(),
                    });
                }
            };
        }
        Ok(Self::Offsets(offsets))
    }

    pub(super) fn sequences(self) -> usize {
        match self {
            Self::Even { batch, .. } => batch,
            Self::Offsets(offsets) => offsets.len().saturating_sub(1),
        }
    }

    /// The tokens of a sequence.
    pub(super) fn tokens(self, sequence: usize) -> Range<usize> {
        match self {
            Self::Even { steps, .. } => sequence * steps..(sequence + 1) * steps,
            Self::Offsets(offsets) => offsets[sequence] as usize..offsets[sequence + 1] as usize,
        }
    }

    /// The tokens of all sequences.
    pub(super) fn count(self) -> usize {
        match self {
            Self::Even { batch, steps } => batch * steps,
            Self::Offsets(offsets) => offsets.last().map_or(0, |last| *last as usize),
        }
    }
}
