//! Provider options.

use std::ffi::OsStr;

use revseq_graph::Operator;
use revseq_kernels::LengthsPolicy;
use revseq_rewrite::Assumptions;

use super::error::Error;

/// The variable of the environment that switches layers and loops off, whatever the options say.
pub(crate) const SWITCH: &str = "REVSEQ_EP";

/// The options, each with its values for messages.
const OPTIONS: [(&str, &str); 4] = [
    ("lengths", r#""reject" or "clamp""#),
    ("layers", r#""on" or "off""#),
    ("loops", r#""keep", "layers" or "steps""#),
    ("assume", r#""right-padded""#),
];

/// What becomes of loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Loops {
    /// They stay.
    #[default]
    Keep,
    /// Layers replace those that are some.
    Layers,
    /// Others run as programs, too.
    Steps,
}

/// The options of an EP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The policy for lengths out of range: the option `lengths`. It applies to both operators. By
    /// default ReverseSequence rejects them, and ReverseSubsequences clamps them.
    lengths: Option<LengthsPolicy>,
    /// Whether recurrent layers of the model are taken, too: the option `layers`.
    layers: Option<bool>,
    /// What becomes of loops: the option `loops`.
    loops: Option<Loops>,
    /// The facts that the session vouches for, as to its loops: the option `assume`.
    assume: Assumptions,
}

impl Options {
    /// # Errors
    /// [`Error::UnknownOption`], [`Error::OptionValue`] and [`Error::AssumesWithoutLoops`].
    pub(crate) fn new<'a>(
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Error> {
        let mut read = Self::default();
        for (key, value) in options {
            match (key, value) {
                ("lengths", "reject") => read.lengths = Some(LengthsPolicy::Reject),
                ("lengths", "clamp") => read.lengths = Some(LengthsPolicy::Clamp),
                ("layers", "on") => read.layers = Some(true),
                ("layers", "off") => read.layers = Some(false),
                ("loops", "layers") => read.loops = Some(Loops::Layers),
                ("loops", "steps") => read.loops = Some(Loops::Steps),
                ("loops", "keep") => read.loops = Some(Loops::Keep),
                ("assume", "right-padded") => read.assume.right_padded = true,
                _ => return Err(wrong(key, value)),
            }
        }
        // Loops may be switched off by their option alone.
        match read.loops {
            None if read.assume != Assumptions::default() => Err(Error::AssumesWithoutLoops),
            _ => Ok(read),
        }
    }

    /// The options where an operator of the host's process may have switched layers and loops off: by the
    /// [variable](SWITCH)'s value "off".
    ///
    /// # Errors
    /// [`Error::Switch`].
    pub(crate) fn switched(mut self, switch: Option<&OsStr>) -> Result<Self, Error> {
        match switch.map(OsStr::to_string_lossy).as_deref() {
            None | Some("" | "on") => {}
            Some("off") => (self.layers, self.loops) = (Some(false), Some(Loops::Keep)),
            Some(other) => {
                let value = other.to_owned();
                return Err(Error::Switch { value });
            }
        }
        Ok(self)
    }

    /// Whether recurrent layers of the model are taken, too: unless told otherwise, they are where loops
    /// become layers.
    pub(crate) fn layers(&self) -> bool {
        let loops = self.loops.map(|loops| loops != Loops::Keep);
        self.layers.or(loops).unwrap_or_default()
    }

    /// Whether loops that are layers are replaced, too, and what is assumed of them.
    pub(crate) fn loops(&self) -> Option<Assumptions> {
        let loops = self.loops.unwrap_or_default();
        (loops != Loops::Keep).then_some(self.assume)
    }

    /// Whether loops that are no layers run as programs.
    pub(crate) fn steps(&self) -> bool {
        self.loops == Some(Loops::Steps)
    }

    /// The options of a session within this one, whose model is the replacement of a loop.
    pub(crate) fn of_inner_session(&self) -> Vec<(&'static str, String)> {
        self.of_session(if self.steps() { "steps" } else { "keep" })
    }

    /// The options of a session within this one, whose model is a loop that stays.
    pub(crate) fn of_plain_session(&self) -> Vec<(&'static str, String)> {
        self.of_session("keep")
    }

    fn of_session(&self, loops: &str) -> Vec<(&'static str, String)> {
        let mut options = vec![("layers", String::from("on")), ("loops", loops.to_owned())];
        if let Some(policy) = self.lengths {
            let policy = match policy {
                LengthsPolicy::Clamp => "clamp",
                _ => "reject",
            };
            options.push(("lengths", policy.to_owned()));
        }
        options
    }

    /// The policy of an operator for lengths out of range.
    pub(crate) fn lengths_policy(&self, operator: Operator) -> LengthsPolicy {
        self.lengths.unwrap_or_else(|| operator.lengths_policy())
    }
}

/// The error of an option that there is not, or not with this value.
fn wrong(key: &str, value: &str) -> Error {
    match OPTIONS.into_iter().find(|(known, _)| *known == key) {
        Some((key, expected)) => Error::OptionValue {
            key,
            value: value.to_owned(),
            expected,
        },
        None => Error::UnknownOption {
            key: key.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCE: Operator = Operator::ReverseSequence {
        batch_axis: 1,
        time_axis: 0,
    };
    const SUBSEQUENCES: Operator = Operator::ReverseSubsequences { axis: 0 };

    fn policies(entries: &[(&str, &str)]) -> Result<[LengthsPolicy; 2], Error> {
        let options = Options::new(entries.iter().copied())?;
        Ok([SEQUENCE, SUBSEQUENCES].map(|operator| options.lengths_policy(operator)))
    }

    #[test]
    fn each_operator_has_its_own_policy_unless_one_is_asked_for() {
        use LengthsPolicy::{Clamp, Reject};
        let key = "lengths";
        assert_eq!(policies(&[]), Ok([Reject, Clamp]));
        assert_eq!(policies(&[(key, "clamp")]), Ok([Clamp, Clamp]));
        assert_eq!(policies(&[(key, "reject")]), Ok([Reject, Reject]));
    }

    #[test]
    fn loops_bring_the_layers_of_the_model_unless_told_otherwise() {
        let layers = |entries: &[(&str, &str)]| {
            let options = Options::new(entries.iter().copied()).unwrap();
            (options.layers(), options.loops().is_some())
        };
        let (loops, on, off) = (("loops", "layers"), ("layers", "on"), ("layers", "off"));
        assert_eq!(layers(&[]), (false, false));
        assert_eq!(layers(&[on]), (true, false));
        assert_eq!(layers(&[loops]), (true, true));
        assert_eq!(layers(&[loops, off]), (false, true));
        assert_eq!(layers(&[off, loops]), (false, true));
        assert_eq!(layers(&[("loops", "keep"), on]), (true, false));
        let inner = Options::new([loops, off]).unwrap().of_inner_session();
        assert!(inner.contains(&("layers", String::from("on"))), "{inner:?}");
    }

    #[test]
    fn a_variable_switches_layers_and_loops_off() {
        let options = Options::new([("loops", "steps"), ("lengths", "clamp")]).unwrap();
        let switched = |value: &str| options.clone().switched(Some(OsStr::new(value)));
        let off = switched("off").unwrap();
        assert_eq!(
            (off.layers(), off.loops(), off.steps()),
            (false, None, false)
        );
        assert_eq!(off.lengths, options.lengths);
        for value in ["", "on"] {
            assert_eq!(switched(value).as_ref(), Ok(&options));
        }
        assert_eq!(
            switched("no").unwrap_err().to_string(),
            "the environment has REVSEQ_EP=no, expected REVSEQ_EP=off or REVSEQ_EP=on"
        );
    }

    #[test]
    fn an_assumption_needs_loops() {
        let assume = ("assume", "right-padded");
        let error = policies(&[assume]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "provider option \"assume\" is about loops that become layers, and \"loops\" is not given, \
             expected \"layers\" beside it"
        );
        for loops in ["layers", "keep"] {
            assert!(policies(&[assume, ("loops", loops)]).is_ok());
        }
    }

    #[test]
    fn a_wrong_option_is_named_with_the_right_ones() {
        for (key, value, message) in [
            (
                "length",
                "clamp",
                "unknown provider option \"length\" of RevSeqExecutionProvider, expected \
                 \"lengths\", \"layers\", \"loops\" or \"assume\"",
            ),
            (
                "layers",
                "yes",
                "provider option \"layers\" is \"yes\", expected \"on\" or \"off\"",
            ),
            (
                "loops",
                "on",
                "provider option \"loops\" is \"on\", expected \"keep\", \"layers\" or \"steps\"",
            ),
            (
                "assume",
                "left-padded",
                "provider option \"assume\" is \"left-padded\", expected \"right-padded\"",
            ),
            (
                "lengths",
                "Clamp",
                "provider option \"lengths\" is \"Clamp\", expected \"reject\" or \"clamp\"",
            ),
        ] {
            assert_eq!(policies(&[(key, value)]).unwrap_err().to_string(), message);
        }
    }
}
