//! The command `revseq`.

#![deny(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    if cfg!(target_os = "linux") {
        silence_wayland();
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    keep_large_memory();
    revseq_runner::main()
}

/// Has glibc keep freed memory of up to 2 GB in all. It maps each tensor above 32 MB anew in each run of a
/// model, and the pages take longer to come than an operator takes on them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "calls glibc")]
fn keep_large_memory() {
    for option in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: it takes any number, and there is no other thread yet.
        unsafe { libc::mallopt(option, i32::MAX) };
    }
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
