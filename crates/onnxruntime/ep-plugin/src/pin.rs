//! Staying in memory while somebody still points here.

/// Keeps the library mapped until the process ends, even if it is unloaded.
///
/// ONNX Runtime lets a library be unregistered while sessions use it, unloads
/// it, and calls into it when they run or end. That happens easily in Python,
/// where a value that a session returned may keep the session alive. A thread
/// that ran code of the library calls into it when it ends: Rust's standard
/// library frees there what it has of the thread.
#[cfg(all(unix, not(miri)))]
pub fn library() {
    use std::mem::MaybeUninit;

    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let here: fn() = library;
    // SAFETY: `here` is an address in this library, whose path `dladdr` writes
    // unless it returns 0. The handle is never closed.
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

/// The same on Windows.
#[cfg(all(windows, not(miri)))]
pub fn library() {
    use std::ffi::c_void;

    /// `GET_MODULE_HANDLE_EX_FLAG_PIN` and `GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS`
    /// (libloaderapi.h).
    const PIN_BY_ADDRESS: u32 = 0x1 | 0x4;

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetModuleHandleExW(flags: u32, address: *const u16, module: *mut *mut c_void) -> i32;
    }

    let here: fn() = library;
    let mut module = std::ptr::null_mut();
    // SAFETY: with these flags `here` is an address, in this library, not a name;
    // the handle is not counted, so there is none to close.
    unsafe { GetModuleHandleExW(PIN_BY_ADDRESS, here as *const u16, &raw mut module) };
}

/// Does nothing: this library is built for no other system, and Miri unloads nothing.
#[cfg(any(miri, not(any(unix, windows))))]
pub fn library() {}
