//! The factory: which devices the EP runs on, and the EPs themselves.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{ptr, slice};

use ort_sys::{
    OrtAllocator, OrtCustomOpDomain, OrtEpDevice, OrtHardwareDevice, OrtHardwareDeviceType,
    OrtKeyValuePairs, OrtLogger, OrtMemoryInfo, OrtSessionOptions, OrtStatusPtr,
};
use smallvec::SmallVec;

use super::{Ep, Opening, Provider};
use crate::abi::{API_VERSION, OrtDataTransferImpl, OrtEp, OrtEpFactory, UNUSED};
use crate::host::{Host, Owned, ort_own};
use crate::log::Log;
use crate::registry::Registry;
use crate::{fence, pin};

/// The library's one factory of a registration.
#[repr(C)]
pub struct Factory<P: Provider> {
    /// The table, first so that a pointer to it is one to the whole.
    table: OrtEpFactory,
    host: Host,
    shared: P::Shared,
    registry: Registry,
    /// The devices that it made for the host.
    devices: Mutex<Vec<*const OrtEpDevice>>,
    /// Number of users: the registration, until it is released, and each EP.
    users: AtomicUsize,
}

impl<P: Provider> Factory<P> {
    /// Makes a factory, to be released with [`leave`](Self::leave).
    ///
    /// # Errors
    /// If the host fails.
    pub fn create(host: Host, shared: P::Shared) -> Result<*mut OrtEpFactory, P::Failure> {
        let table = OrtEpFactory {
            ort_version_supported: API_VERSION,
            GetName: get_name::<P>,
            GetVendor: get_vendor::<P>,
            GetSupportedDevices: get_supported_devices::<P>,
            CreateEp: create_ep::<P>,
            ReleaseEp: release_ep::<P>,
            GetVendorId: get_vendor_id,
            GetVersion: get_version::<P>,
            ValidateCompiledModelCompatibilityInfo: UNUSED,
            CreateAllocator: create_allocator,
            ReleaseAllocator: release_allocator,
            CreateDataTransfer: create_data_transfer,
            IsStreamAware: is_stream_aware,
            CreateSyncStreamForDevice: UNUSED,
            GetHardwareDeviceIncompatibilityDetails: UNUSED,
            CreateExternalResourceImporterForDevice: UNUSED,
            GetNumCustomOpDomains: get_num_custom_op_domains::<P>,
            GetCustomOpDomains: get_custom_op_domains::<P>,
        };
        let registry = Registry::new(host)?;
        P::register(&registry)?;
        Ok(Box::into_raw(Box::new(Self {
            table,
            host,
            shared,
            registry,
            devices: Mutex::default(),
            users: AtomicUsize::new(1),
        }))
        .cast())
    }

    /// Ends a use of a factory, by its registration or an EP, and frees it if that was the last one.
    ///
    /// # Safety
    /// `factory` is one that [`create`](Self::create) made; the caller is one of its users, and
    /// is none any more.
    pub unsafe fn leave(factory: *mut OrtEpFactory) {
        // SAFETY: the caller's; the box must be the only reference to the
        // factory, and nobody uses the factory any more.
        unsafe {
            let users = &Self::from_table(factory).users;
            if users.fetch_sub(1, Ordering::AcqRel) == 1 {
                drop(Box::from_raw(factory.cast::<Self>()));
            }
        }
    }

    /// # Safety
    /// `factory` is one that this library made, alive for `'a`.
    unsafe fn from_table<'a>(factory: *const OrtEpFactory) -> &'a Self {
        // SAFETY: the caller's; the table is the first field.
        unsafe { &*factory.cast() }
    }
}

unsafe extern "system" fn get_name<P: Provider>(_: *const OrtEpFactory) -> *const c_char {
    P::NAME.as_ptr()
}

unsafe extern "system" fn get_vendor<P: Provider>(_: *const OrtEpFactory) -> *const c_char {
    P::VENDOR.as_ptr()
}

unsafe extern "system" fn get_vendor_id(_: *const OrtEpFactory) -> u32 {
    // No PCI vendor.
    0
}

unsafe extern "system" fn get_version<P: Provider>(_: *const OrtEpFactory) -> *const c_char {
    P::VERSION.as_ptr()
}

unsafe extern "system" fn is_stream_aware(_: *const OrtEpFactory) -> bool {
    false
}

/// # Safety
/// As ONNX Runtime's header says; the factory is one that this library made.
unsafe extern "system" fn get_supported_devices<P: Provider>(
    factory: *mut OrtEpFactory,
    devices: *const *const OrtHardwareDevice,
    count: usize,
    ep_devices: *mut *mut OrtEpDevice,
    capacity: usize,
    ep_count: *mut usize,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let own: &Factory<P> = unsafe { Factory::from_table(factory) };
    let host = own.host;
    fence::status(host, || {
        fence::fault("devices");
        // SAFETY: the caller's.
        unsafe { *ep_count = 0 };
        let devices = match count {
            0 => &[],
            // SAFETY: the caller's.
            _ => unsafe { slice::from_raw_parts(devices, count) },
        };
        // SAFETY: the caller's; the C enum is read as the integer that it is.
        let is_cpu = |&&device: &&_| unsafe {
            device_type(host, device) == OrtHardwareDeviceType::OrtHardwareDeviceType_CPU as c_int
        };
        let mut made: SmallVec<[Owned<OrtEpDevice>; 1]> = SmallVec::new();
        for &device in devices.iter().filter(is_cpu).take(capacity) {
            let none = ptr::null();
            // SAFETY: the caller's.
            made.push(unsafe {
                ort_own!(host, ep CreateEpDevice(factory, device, none, none) => ReleaseEpDevice)
            });
        }
        let mut known = own.devices.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(made.iter().map(|device| device.as_ptr().cast_const()));
        // Nothing can fail any more, so hand them to the host.
        for (index, ep_device) in made.into_iter().enumerate() {
            // SAFETY: there are no more of them than the places that the caller has.
            unsafe {
                *ep_devices.add(index) = ep_device.into_ptr();
                *ep_count = index + 1;
            }
        }
        Ok::<(), P::Failure>(())
    })
}

/// The `OrtHardwareDeviceType` of a device, which need not be one that this crate knows.
///
/// # Safety
/// `device` is one of this host.
unsafe fn device_type(host: Host, device: *const OrtHardwareDevice) -> c_int {
    type Get = unsafe extern "system" fn(*const OrtHardwareDevice) -> c_int;
    // SAFETY: the slot's type differs in the function's result alone: a C enum
    // is an int. The rest is the caller's.
    unsafe {
        (&raw const (*host.api).HardwareDevice_Type)
            .cast::<Get>()
            .read()(device)
    }
}

/// # Safety
/// As ONNX Runtime's header says; the factory is one that this library made.
unsafe extern "system" fn create_ep<P: Provider>(
    factory: *mut OrtEpFactory,
    _devices: *const *const OrtHardwareDevice,
    _metadata: *const *const OrtKeyValuePairs,
    _count: usize,
    session_options: *const OrtSessionOptions,
    logger: *const OrtLogger,
    out: *mut *mut OrtEp,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let factory: &Factory<P> = unsafe { Factory::from_table(factory) };
    let host = factory.host;
    fence::status(host, || {
        // Threads that run a node may end later than the session, and drivers clean up when the process ends: both
        // call into this library.
        pin::library();
        // SAFETY: the logger is the session's, as the EP is.
        let log = unsafe { Log::new(host, logger) };
        let devices = factory.devices.lock();
        let opening = Opening::<P> {
            host,
            log,
            options: session_options,
            devices: devices.unwrap_or_else(PoisonError::into_inner).clone(),
            shared: &factory.shared,
        };
        // The EP reports what is wrong later, where the host does not ignore it.
        let provider = fence::catch(|| {
            fence::fault("ep");
            P::open(&opening)
        });
        let ep = Box::new(Ep::new(host, provider, factory.registry.as_ptr()));
        // SAFETY: the caller's; the host passes the EP to `release_ep`.
        unsafe { *out = Box::into_raw(ep).cast() };
        factory.users.fetch_add(1, Ordering::Relaxed);
        Ok::<(), P::Failure>(())
    })
}

/// # Safety
/// `ep` is null or one that [`create_ep`] made for this factory, released only once.
unsafe extern "system" fn release_ep<P: Provider>(factory: *mut OrtEpFactory, ep: *mut OrtEp) {
    if ep.is_null() {
        return;
    }
    fence::value((), || {
        // SAFETY: the caller's; each EP is a user of its factory, which outlives it.
        unsafe {
            drop(Box::from_raw(ep.cast::<Ep<P>>()));
            Factory::<P>::leave(factory);
        }
    });
}

/// # Safety
/// `out` is a place for the result.
unsafe extern "system" fn create_allocator(
    _: *mut OrtEpFactory,
    _: *const OrtMemoryInfo,
    _: *const OrtKeyValuePairs,
    out: *mut *mut OrtAllocator,
) -> OrtStatusPtr {
    // Null is the CPU's own.
    // SAFETY: the caller's.
    unsafe { *out = ptr::null_mut() };
    OrtStatusPtr::default()
}

unsafe extern "system" fn release_allocator(_: *mut OrtEpFactory, _: *mut OrtAllocator) {
    // No data transfer is ever made.
}

/// # Safety
/// `out` is a place for the result.
unsafe extern "system" fn create_data_transfer(
    _: *mut OrtEpFactory,
    out: *mut *mut OrtDataTransferImpl,
) -> OrtStatusPtr {
    // Null means none; a table without this function crashes hosts.
    // SAFETY: the caller's.
    unsafe { *out = ptr::null_mut() };
    OrtStatusPtr::default()
}

/// # Safety
/// The factory is one that this library made, `out` a place for the result.
unsafe extern "system" fn get_num_custom_op_domains<P: Provider>(
    factory: *mut OrtEpFactory,
    out: *mut usize,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    unsafe {
        let domain = P::domain(&Factory::<P>::from_table(factory).shared);
        *out = usize::from(domain.is_some());
    }
    OrtStatusPtr::default()
}

/// # Safety
/// The factory is one that this library made; `domains` has `count` places.
unsafe extern "system" fn get_custom_op_domains<P: Provider>(
    factory: *mut OrtEpFactory,
    domains: *mut *mut OrtCustomOpDomain,
    count: usize,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    unsafe {
        let domain = P::domain(&Factory::<P>::from_table(factory).shared);
        if let Some(domain) = domain.filter(|_| count > 0) {
            *domains = domain.domain;
        }
    }
    OrtStatusPtr::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::fake_host;
    use crate::graph::Graph;
    use crate::info::KernelInfo;
    use crate::kernel::Kernel;
    use crate::provider::{Claims, Nothing};
    use crate::registry::Registration;
    use crate::tensor::Context;

    /// A provider that takes nothing, and a kernel that asks for its node's name.
    struct Sample;

    impl Provider for Sample {
        type Failure = Error;
        type Fused = Nothing<Error>;
        type Shared = ();

        const NAME: &'static std::ffi::CStr = c"SampleExecutionProvider";
        const VENDOR: &'static std::ffi::CStr = c"nobody";
        const VERSION: &'static std::ffi::CStr = c"0.0.0";

        fn register(registry: &Registry) -> Result<(), Error> {
            registry.add::<Named>(Self::NAME, &[Registration::new(c"", c"Neg")])
        }

        fn open(_session: &Opening<'_, Self>) -> Result<Self, Error> {
            Ok(Self)
        }

        fn claim(&self, _graph: Graph<'_>, _claims: Claims<'_>) -> Result<(), Error> {
            Ok(())
        }
    }

    struct Named;

    impl Kernel for Named {
        type Failure = Error;

        fn create(info: KernelInfo<'_>) -> Result<Self, Error> {
            info.name().map(|_| Self)
        }

        fn compute(&self, _context: Context<'_>) -> Result<(), Error> {
            Ok(())
        }
    }

    /// The result of `GetSupportedDevices` for this many CPUs.
    fn devices(factory: *mut OrtEpFactory, cpus: usize) -> (OrtStatusPtr, usize) {
        let cpus = vec![fake_host::cpu(); cpus];
        let mut out = [ptr::null_mut(); 2];
        let mut count = usize::MAX;
        // SAFETY: the lists have the declared sizes.
        let status = unsafe {
            get_supported_devices::<Sample>(
                factory,
                cpus.as_ptr(),
                cpus.len(),
                out.as_mut_ptr(),
                out.len(),
                &raw mut count,
            )
        };
        assert!(out[..count].iter().all(|device| !device.is_null()));
        (status, count)
    }

    #[test]
    fn the_devices_before_one_that_fails_are_released() {
        let factory = Factory::<Sample>::create(fake_host::host(), ()).unwrap();
        let before = fake_host::alive();
        for made in 0..2 {
            fake_host::fail_after(made);
            let (status, count) = devices(factory, 2);
            assert_eq!((status.0.is_null(), count), (false, 0));
            assert_eq!(fake_host::alive(), before);
        }
        for (cpus, made) in [(0, 0), (1, 1), (2, 2), (3, 2)] {
            let alive = fake_host::alive();
            let (status, count) = devices(factory, cpus);
            assert_eq!((status.0.is_null(), count), (true, made));
            assert_eq!(fake_host::alive(), alive + made as isize);
        }
        // SAFETY: the factory was made above.
        unsafe { Factory::<Sample>::leave(factory) };
    }

    #[test]
    fn a_factory_has_kernels_until_it_is_released_and_leaves_nothing() {
        let factory = Factory::<Sample>::create(fake_host::host(), ()).unwrap();
        let (create, state) = fake_host::kernel();
        for _ in 0..2 {
            let mut kernel = ptr::null_mut();
            // SAFETY: the factory lives; the host refuses to name any node.
            let status = unsafe { create(state, ptr::dangling(), &raw mut kernel) };
            assert!(!status.0.is_null() && kernel.is_null());
            // SAFETY: the factory lives.
            let factory = unsafe { Factory::<Sample>::from_table(factory) };
            assert_eq!(factory.users.load(Ordering::Acquire), 1);
        }
        // SAFETY: the factory was made above.
        unsafe { Factory::<Sample>::leave(factory) };
        assert_eq!(fake_host::alive(), 0);
    }

    /// Miri also sees whether it is only asked, which other threads may do at the same time.
    #[test]
    fn a_factory_in_use_is_freed_with_its_last_ep() {
        let factory = Factory::<Sample>::create(fake_host::host(), ()).unwrap();
        let alive = fake_host::alive();
        // SAFETY: the factory lives, as it is not freed while an EP is not released.
        let in_use = unsafe { Factory::<Sample>::from_table(factory) };
        in_use.users.fetch_add(2, Ordering::Relaxed);
        // SAFETY: the factory was made above.
        unsafe { Factory::<Sample>::leave(factory) };
        assert_eq!(in_use.users.load(Ordering::Acquire), 2);
        assert_eq!(fake_host::alive(), alive);
        // SAFETY: it is marked as used by two EPs.
        unsafe { Factory::<Sample>::leave(factory) };
        assert_eq!(fake_host::alive(), alive);
        // SAFETY: one of the two is left.
        unsafe { Factory::<Sample>::leave(factory) };
        assert_eq!(fake_host::alive(), 0);
    }
}
