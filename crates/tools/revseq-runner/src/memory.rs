//! The memory that glibc's allocator keeps for the command; others are left alone.

/// Has all threads allocate from the first one's memory. What is larger than 64 MB glibc maps anew for any
/// other thread, whatever it is told to [`keep`].
pub(crate) fn share() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    set(&[(libc::M_ARENA_MAX, 1)]);
}

/// Has up to 2 GB of freed memory kept. Otherwise each tensor above 32 MB is mapped anew in each run of a
/// model, and its pages take longer to come than an operator takes on them. Before a model is loaded, copies
/// of its weights would be kept, too.
pub(crate) fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    set(&[
        (libc::M_MMAP_THRESHOLD, i32::MAX),
        (libc::M_TRIM_THRESHOLD, i32::MAX),
    ]);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "calls glibc")]
fn set(options: &[(libc::c_int, libc::c_int)]) {
    for (option, value) in options {
        // SAFETY: it takes any numbers, on any thread.
        unsafe { libc::mallopt(*option, *value) };
    }
}
