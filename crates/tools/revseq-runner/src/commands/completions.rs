//! `revseq completions`.

use std::io::Write;

use anyhow::Result;
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::Outcome;
use crate::cli::{Arguments, Backend};

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> Result<Outcome> {
    let mut command = Arguments::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "revseq", &mut script);
    let script = String::from_utf8(script)?;
    std::io::stdout().write_all(after_a_comma(&script).as_bytes())?;
    Ok(Outcome::Done)
}

/// Has bash complete the last of several backends, too, which clap's script does not.
fn after_a_comma(script: &str) -> String {
    let backends = Backend::value_variants().iter().map(|it| it.name());
    let backends = backends.collect::<Vec<_>>().join(" ");
    script.replace(
        &format!(r#"compgen -W "{backends}" -- "${{cur}}""#),
        &format!(r#"compgen -P "${{cur%"${{cur##*,}}"}}" -W "{backends}" -- "${{cur##*,}}""#),
    )
}
