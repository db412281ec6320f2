//! Recognises a shared library by its first bytes, before the system loads it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Result, bail};

/// The kinds of libraries: how their files begin, and what they are called.
const KINDS: [(&[&[u8]], &str); 3] = [
    (&[b"\x7fELF"], "an ELF library (.so)"),
    (
        // One processor's, or those of several in a row.
        &[b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"],
        "a Mach-O library (.dylib)",
    ),
    (&[b"MZ"], "a Windows library (.dll)"),
];

/// The kind of this system.
const OWN: usize = if cfg!(windows) {
    2
} else if cfg!(target_os = "macos") {
    1
} else {
    0
};

/// Checks that a file is a library of this system.
///
/// # Errors
/// It is of another kind.
pub(super) fn check(path: &Path) -> Result<()> {
    let mut magic = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut magic)?;
    let is_of = |(begins, _): &(&[&[u8]], &str)| begins.iter().any(|it| magic.starts_with(it));
    let expected = KINDS[OWN].1;
    match KINDS.iter().position(is_of) {
        Some(OWN) => Ok(()),
        Some(other) => bail!("it is {}, expected {expected}", KINDS[other].1),
        None => bail!("it is not a shared library, expected {expected}"),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_other_systems_are_named() {
        check(&std::env::current_exe().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library");
        for (bytes, why) in [
            (&b""[..], "it is not a shared library, "),
            (b"\x7fEL", "it is not a shared library, "),
            (b"\xcf\xfa\xed\xfe\0", "it is a Mach-O library (.dylib), "),
            (b"\xca\xfe\xba\xbe", "it is a Mach-O library (.dylib), "),
            (b"MZ\x90\0", "it is a Windows library (.dll), "),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = check(&path).unwrap_err().to_string();
            assert_eq!(error, format!("{why}expected an ELF library (.so)"));
        }
    }
}
