//! Inputs, sizes and tolerances.

use clap::Args;

use super::values::{
    NamedFile, NamedFileParser, NamedSizes, name_and_fill, names_and_sizes, output_and_tolerance,
};
use crate::tensor::compare::Tolerance;
use crate::tensor::fill::Fill;

/// Inputs of a run, and their symbolic sizes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArguments {
    #[command(flatten)]
    pub(crate) values: ValueArguments,
    #[command(flatten)]
    pub(crate) sizes: SizeArguments,
}

/// Sizes that the model leaves open.
#[derive(Clone, Debug, Args)]
pub(crate) struct SizeArguments {
    /// Set a size: a symbolic one, or as in x.0 the first of input x
    #[arg(short, long = "dim", value_name = "NAME=SIZE,…", value_parser = names_and_sizes)]
    dims: Vec<NamedSizes>,
}

impl SizeArguments {
    /// All of them, in order.
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        self.dims.iter().flat_map(|it| it.0.clone()).collect()
    }

    /// Keeps those that there are.
    pub(crate) fn retain(&mut self, mut is_size: impl FnMut(&str) -> bool) {
        for sizes in &mut self.dims {
            sizes.0.retain(|(name, _)| is_size(name));
        }
    }
}

/// Values of inputs: from files, or made up.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct ValueArguments {
    /// Feed an input from a file: .pb (TensorProto) or .npy
    ///
    /// The name, the longest of an input before an =, may be left out if the model has one input. Of
    /// an .npz file each array is the input of its name, unless that is given by itself.
    #[arg(short, long = "input", value_name = "[NAME=]FILE", value_parser = NamedFileParser)]
    pub(crate) inputs: Vec<NamedFile>,
    /// Make up the inputs that are not given, or the one named: iota, random, zeros, …
    ///
    /// FILL is iota, random[:SEED], ints:LOW..HIGH, floats:LOW..HIGH or zeros. iota counts 0, 1, 2, …;
    /// random draws floats from -1 to 1 and integers from 0 to 99, the same for the same seed;
    /// ints:0..20 draws integers from 0 to 19, floats:0..1 floats from 0 to 1. Lengths stay within
    /// their axis, and indices, such as token ids, within the axis that they index.
    #[arg(
        short,
        long,
        value_name = "[NAME=]FILL",
        value_parser = name_and_fill
    )]
    pub(crate) fill: Vec<(Option<String>, Fill)>,
}

impl ValueArguments {
    /// The fill of inputs that are not named.
    pub(crate) fn fill(&self) -> Option<Fill> {
        let unnamed = self.fill.iter().rfind(|(name, _)| name.is_none());
        unnamed.map(|(_, fill)| *fill)
    }
}

/// Tolerances of outputs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ToleranceArguments {
    /// Relative tolerance for floats
    ///
    /// --rtol and --atol together replace the default, for all outputs or for the one named. By
    /// default only floats of models that compute may differ, by 1e-4 of the expected value plus
    /// 1e-5, half floats by 1e-3 of it (bfloat16 8e-3) plus 1e-5. NaN is the same as NaN, and as nothing else.
    #[arg(long, allow_negative_numbers = true, value_name = "[OUTPUT=]X", value_parser = output_and_tolerance)]
    pub(crate) rtol: Vec<(Option<String>, f64)>,
    /// Absolute tolerance for floats
    #[arg(long, allow_negative_numbers = true, value_name = "[OUTPUT=]X", value_parser = output_and_tolerance)]
    pub(crate) atol: Vec<(Option<String>, f64)>,
}

impl ToleranceArguments {
    /// Returns the tolerance of an output, if one is given for it.
    pub(crate) fn of(&self, output: &str) -> Option<Tolerance> {
        let given = |all: &[(Option<String>, f64)]| {
            let named = all
                .iter()
                .rfind(|(name, _)| name.as_deref() == Some(output));
            let found = named.or_else(|| all.iter().rfind(|(name, _)| name.is_none()));
            found.map(|(_, tolerance)| *tolerance)
        };
        match (given(&self.rtol), given(&self.atol)) {
            (None, None) => None,
            (relative, absolute) => Some(Tolerance::Within {
                relative: relative.unwrap_or(0.0),
                absolute: absolute.unwrap_or(0.0),
            }),
        }
    }

    /// Keeps what is for any output, and for those that there are.
    pub(crate) fn retain(&mut self, mut is_output: impl FnMut(&str) -> bool) {
        for all in [&mut self.rtol, &mut self.atol] {
            all.retain(|(name, _)| name.as_deref().is_none_or(&mut is_output));
        }
    }

    /// Whether there is one for any output.
    pub(crate) fn is_given(&self) -> bool {
        !self.rtol.is_empty() || !self.atol.is_empty()
    }

    /// The outputs that are named.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.rtol.iter().chain(&self.atol);
        all.filter_map(|(name, _)| name.as_deref())
    }
}
