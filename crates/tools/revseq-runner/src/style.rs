//! The styles of text on a terminal.

use anstyle::{AnsiColor, Style};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const RED: Style = AnsiColor::Red.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();

/// What has failed.
pub(crate) const FAILED: Style = RED.bold();
