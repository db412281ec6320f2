//! Numbers of threads that a user may ask for.

use anyhow::{Result, ensure};

/// The most threads that are taken from a user.
pub(crate) const MAXIMUM_THREADS: u16 = 1024;

/// Checks the variable of the environment that rayon reads: it ignores what is no number, and never
/// returns if there are too many.
///
/// # Errors
/// The variable is no number of threads; 0 is the default.
pub(crate) fn check_environment() -> Result<()> {
    let variable = "RAYON_NUM_THREADS";
    let Some(value) = std::env::var_os(variable) else {
        return Ok(());
    };
    let number = value.to_str().and_then(|it| it.parse::<u16>().ok());
    ensure!(
        number.is_some_and(|it| it <= MAXIMUM_THREADS),
        "{variable} is {}, expected a number of threads from 1 to {MAXIMUM_THREADS}, or 0 for one \
         per core",
        value.display()
    );
    Ok(())
}
