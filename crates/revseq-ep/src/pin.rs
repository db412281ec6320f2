//! Staying in memory while somebody still points here.

/// Keeps the library mapped until the process ends, whoever unloads it.
///
/// ONNX Runtime lets a library be unregistered while sessions use it, unloads
/// it, and calls into it when they run or end. Python makes that easy: what a
/// session returned may keep it alive unseen.
#[cfg(unix)]
pub(crate) fn library() {
    use std::mem::MaybeUninit;

    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let here: fn() = library;
    // SAFETY: `here` is an address in this library, whose path `dladdr` tells
    // if it returns anything but 0. The handle is never closed.
    unsafe {
        if libc::dladdr(here as *const libc::c_void, info.as_mut_ptr()) != 0 {
            let path = info.assume_init().dli_fname;
            libc::dlopen(
                path,
                libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
            );
        }
    }
}

/// Other systems have other ways, and this library is built for none of them yet.
#[cfg(not(unix))]
pub(crate) fn library() {}
