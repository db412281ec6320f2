//! The tests that could not run on this machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The reasons for which a test may be skipped even in CI.
const ALLOWED: [&str; 2] = [
    // Depends on the processor; the levels that it has are run.
    "the processor has no ",
    // The headers of an ONNX Runtime release, which no registry has.
    "REVSEQ_ORT_INCLUDE is not set",
];

/// The file to which tests append their skips, one `test: reason` per line.
pub(crate) fn file() -> PathBuf {
    crate::target().join("skips.txt")
}

/// Removes the skips of earlier runs.
pub(crate) fn clear() -> Result<(), String> {
    match fs::remove_file(file()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", file().display()))
        }
        _ => Ok(()),
    }
}

/// Prints the skips. With `CI=true` in the environment, a skip that is not
/// [allowed](ALLOWED) is an error.
pub(crate) fn print() -> Result<(), String> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    let skips: BTreeSet<&str> = text.lines().collect();
    eprintln!("\n{} skipped", skips.len());
    for skip in &skips {
        eprintln!("  {skip}");
    }
    let refused = refused(&skips);
    let in_ci = std::env::var("CI").as_deref() == Ok("true");
    if in_ci && !refused.is_empty() {
        return Err(format!(
            "{} of them may not be skipped in CI: {}",
            refused.len(),
            refused.join("; ")
        ));
    }
    Ok(())
}

fn refused<'a>(skips: &BTreeSet<&'a str>) -> Vec<&'a str> {
    let allowed = |skip: &str| ALLOWED.iter().any(|reason| skip.contains(reason));
    skips
        .iter()
        .copied()
        .filter(|skip| !allowed(skip))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_listed_skips_are_allowed() {
        let skips = ["a: REVSEQ_ORT_INCLUDE is not set", "b: no software adapter"].into();
        assert_eq!(super::refused(&skips), ["b: no software adapter"]);
    }
}
