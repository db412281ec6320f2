//! The arguments of `revseq devices`.

use clap::Args;

use super::{Format, LibraryArguments, ReportArguments};

#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    #[command(flatten)]
    pub(crate) libraries: LibraryArguments,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}
