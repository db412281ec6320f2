//! The functions by which ONNX Runtime loads a library.

use ort_sys::{OrtApiBase, OrtStatusPtr};

use crate::abi::OrtEpFactory;
use crate::error::Error;
use crate::host::{Host, is_since};
use crate::provider::{Factory, Provider};
use crate::{Plugin, fence};

/// A library that is being loaded.
pub struct Loading {
    host: Host,
    base: *const OrtApiBase,
}

impl Loading {
    /// The host that loads it.
    pub fn host(&self) -> Host {
        self.host
    }

    /// Whether the host is ONNX Runtime 1.`minor` or later.
    pub fn is_since(&self, minor: u32) -> bool {
        // SAFETY: it is the host's that loads the library.
        unsafe { is_since(self.base, minor) }
    }
}

/// Makes the only factory of a library; what its providers share is made by `shared`. [`export!`](crate::export)
/// calls it.
///
/// # Safety
/// As onnxruntime_ep_c_api.h says of `CreateEpApiFactoriesFn`.
pub unsafe fn create<P: Provider>(
    plugin: Plugin,
    base: *const OrtApiBase,
    (factories, capacity, count): (*mut *mut OrtEpFactory, usize, *mut usize),
    shared: impl FnOnce(&Loading) -> Result<P::Shared, P::Failure>,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let host = match unsafe { Host::new(base, plugin) } {
        Ok(host) => host,
        Err(status) => return status,
    };
    fence::status(host, || {
        fence::fault("factories");
        if capacity == 0 {
            let problem = "max_factories is 0, expected at least 1";
            Err(Error::argument("CreateEpFactories", problem))?;
        }
        let factory = Factory::<P>::create(host, shared(&Loading { host, base })?)?;
        // SAFETY: the caller's; the host passes the factory to `ReleaseEpFactory`.
        unsafe {
            *factories = factory;
            *count = 1;
        }
        Ok::<(), P::Failure>(())
    })
}

/// Releases a factory; one that a session still uses stays until that ends. [`export!`](crate::export) calls it.
///
/// # Safety
/// `factory` is null or one that [`create`] made for this `P`, and is released only once.
pub unsafe fn release<P: Provider>(factory: *mut OrtEpFactory) -> OrtStatusPtr {
    if !factory.is_null() {
        // SAFETY: the caller's.
        fence::value((), || unsafe { Factory::<P>::leave(factory) });
    }
    OrtStatusPtr::default()
}

/// Exports the functions by which ONNX Runtime makes and releases the factory of a [`Provider`] of this library,
/// `CreateEpFactories` and `ReleaseEpFactory`. A function makes what its sessions share, of a
/// [`Loading`](crate::load::Loading).
#[macro_export]
macro_rules! export {
    ($provider:ty, $shared:expr) => {
        /// Makes the library's only factory.
        ///
        /// # Safety
        /// As onnxruntime_ep_c_api.h says of `CreateEpApiFactoriesFn`.
        #[unsafe(no_mangle)]
        unsafe extern "system" fn CreateEpFactories(
            _registered_name: *const ::std::ffi::c_char,
            base: *const $crate::ort_sys::OrtApiBase,
            _logger: *const $crate::ort_sys::OrtLogger,
            factories: *mut *mut $crate::abi::OrtEpFactory,
            capacity: usize,
            count: *mut usize,
        ) -> $crate::ort_sys::OrtStatusPtr {
            let plugin = $crate::Plugin {
                name: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
            };
            let places = (factories, capacity, count);
            // SAFETY: the caller's.
            unsafe { $crate::load::create::<$provider>(plugin, base, places, $shared) }
        }

        /// Releases the library's factory.
        ///
        /// # Safety
        /// `factory` is null or comes from [`CreateEpFactories`], and is released only once.
        #[unsafe(no_mangle)]
        unsafe extern "system" fn ReleaseEpFactory(
            factory: *mut $crate::abi::OrtEpFactory,
        ) -> $crate::ort_sys::OrtStatusPtr {
            // SAFETY: the caller's.
            unsafe { $crate::load::release::<$provider>(factory) }
        }
    };
}
