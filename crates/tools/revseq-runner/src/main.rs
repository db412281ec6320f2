//! The command `revseq`.

#![deny(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    if cfg!(target_os = "linux") {
        silence_wayland();
    }
    revseq_runner::main()
}

/// Sets `XDG_RUNTIME_DIR` to an absolute path if it has none. When GPUs are listed, a Vulkan layer
/// of Mesa's looks for a compositor, and without such a path libwayland writes an error of its own.
/// Nothing can be in the one that it gets here.
#[expect(unsafe_code, reason = "sets a variable of the environment")]
fn silence_wayland() {
    let variable = "XDG_RUNTIME_DIR";
    let is_absolute = std::env::var_os(variable).is_some_and(|it| Path::new(&it).is_absolute());
    if !is_absolute {
        // SAFETY: there is no other thread yet.
        unsafe { std::env::set_var(variable, "/dev/null") };
    }
}
