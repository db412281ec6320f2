//! The factory: which devices the EP runs on, and the EPs themselves.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, ptr, slice};

use ort_sys::{
    OrtAllocator, OrtCustomOpDomain, OrtEpDevice, OrtHardwareDevice, OrtHardwareDeviceType,
    OrtKeyValuePairs, OrtLogger, OrtMemoryInfo, OrtSessionOptions, OrtStatusPtr,
};
use smallvec::SmallVec;

use super::custom_op::Domain;
use super::ep::{Ep, Setup};
use super::error::Error;
use super::gpu::Gpu;
use super::kernel::Kernel;
use super::layers::{AttentionKernel, LayerKernel};
use super::options::{Options, SWITCH};
use super::schemas::{attention, layers, registrations};
use super::{EP_NAME, EP_NAME_STR};
use crate::plugin::abi::{API_VERSION, OrtDataTransferImpl, OrtEp, OrtEpFactory, UNUSED};
use crate::plugin::host::{Host, Owned, ort_own};
use crate::plugin::log::Log;
use crate::plugin::registry::Registry;
use crate::plugin::runs::Runs;
use crate::plugin::session::Around;
use crate::plugin::{fence, options, pin};

/// The library's one factory of a registration.
#[repr(C)]
pub(crate) struct Factory {
    /// The table, first so that a pointer to it is one to the whole.
    table: OrtEpFactory,
    host: Host,
    domain: Domain,
    registry: Registry,
    /// The devices that it made for the host.
    devices: Mutex<Vec<*const OrtEpDevice>>,
    fuses_captured: bool,
    /// Number of users: the registration, until it is released, and each EP.
    users: AtomicUsize,
}

impl Factory {
    /// Makes a factory, to be released with [`leave`](Self::leave). `fuses_captured` says whether the
    /// inputs of the host's fused nodes have what the graphs in their nodes capture.
    pub(crate) fn create(host: Host, fuses_captured: bool) -> Result<*mut OrtEpFactory, Error> {
        let table = OrtEpFactory {
            ort_version_supported: API_VERSION,
            GetName: get_name,
            GetVendor: get_vendor,
            GetSupportedDevices: get_supported_devices,
            CreateEp: create_ep,
            ReleaseEp: release_ep,
            GetVendorId: get_vendor_id,
            GetVersion: get_version,
            ValidateCompiledModelCompatibilityInfo: UNUSED,
            CreateAllocator: create_allocator,
            ReleaseAllocator: release_allocator,
            CreateDataTransfer: create_data_transfer,
            IsStreamAware: is_stream_aware,
            CreateSyncStreamForDevice: UNUSED,
            GetHardwareDeviceIncompatibilityDetails: UNUSED,
            CreateExternalResourceImporterForDevice: UNUSED,
            GetNumCustomOpDomains: get_num_custom_op_domains,
            GetCustomOpDomains: get_custom_op_domains,
        };
        let domain = Domain::new(host)?;
        let registry = Registry::new(host)?;
        registry.add::<Kernel>(EP_NAME, &registrations())?;
        registry.add::<LayerKernel>(EP_NAME, &layers())?;
        registry.add::<AttentionKernel>(EP_NAME, &attention())?;
        Ok(Box::into_raw(Box::new(Self {
            table,
            host,
            domain,
            registry,
            devices: Mutex::default(),
            fuses_captured,
            users: AtomicUsize::new(1),
        }))
        .cast())
    }

    /// Ends a use of a factory, by its registration or an EP, and frees it if that was the last one.
    ///
    /// # Safety
    /// `factory` is one that [`create`](Self::create) made; the caller is one of its users, and
    /// is none any more.
    pub(crate) unsafe fn leave(factory: *mut OrtEpFactory) {
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

unsafe extern "system" fn get_name(_: *const OrtEpFactory) -> *const c_char {
    EP_NAME.as_ptr()
}

unsafe extern "system" fn get_vendor(_: *const OrtEpFactory) -> *const c_char {
    c"revseq".as_ptr()
}

unsafe extern "system" fn get_vendor_id(_: *const OrtEpFactory) -> u32 {
    // No PCI vendor.
    0
}

unsafe extern "system" fn get_version(_: *const OrtEpFactory) -> *const c_char {
    // ONNX Runtime wants a semantic one.
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

unsafe extern "system" fn is_stream_aware(_: *const OrtEpFactory) -> bool {
    false
}

/// # Safety
/// As ONNX Runtime's header says; the factory is one that this library made.
unsafe extern "system" fn get_supported_devices(
    factory: *mut OrtEpFactory,
    devices: *const *const OrtHardwareDevice,
    count: usize,
    ep_devices: *mut *mut OrtEpDevice,
    capacity: usize,
    ep_count: *mut usize,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let own = unsafe { Factory::from_table(factory) };
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
        Ok::<(), Error>(())
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
unsafe extern "system" fn create_ep(
    factory: *mut OrtEpFactory,
    _devices: *const *const OrtHardwareDevice,
    _metadata: *const *const OrtKeyValuePairs,
    _count: usize,
    session_options: *const OrtSessionOptions,
    logger: *const OrtLogger,
    out: *mut *mut OrtEp,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let factory = unsafe { Factory::from_table(factory) };
    let host = factory.host;
    fence::status(host, || {
        // Threads that run a node may end later than the session, and drivers of a GPU clean up when
        // the process ends: both call into this library.
        pin::library();
        // SAFETY: the logger is the session's, as the EP is.
        let log = unsafe { Log::new(host, logger) };
        let runs = Arc::new(Runs::new(host));
        // The EP reports wrong options later, where the host does not ignore them.
        let setup = fence::catch(|| {
            fence::fault("ep");
            // SAFETY: the caller's.
            let entries = unsafe { options::read(host, session_options, EP_NAME_STR) }?;
            let options = Options::new(entries.iter().map(|(key, value)| (&**key, &**value)))?;
            let options = options.switched(env::var_os(SWITCH).as_deref())?;
            let around = match options.loops() {
                None => None,
                Some(_) => {
                    let runs = Arc::clone(&runs);
                    let devices = factory.devices.lock();
                    let devices = devices.unwrap_or_else(PoisonError::into_inner).clone();
                    // SAFETY: the caller's.
                    Some(unsafe { Around::read(host, session_options, log, runs, devices) }?)
                }
            };
            Ok::<_, Error>(Setup {
                gpu: Gpu::open(options.device())?,
                options,
                around,
                fuses_captured: factory.fuses_captured,
            })
        });
        let ep = Box::new(Ep::new(host, setup, log, runs, factory.registry.as_ptr()));
        // SAFETY: the caller's; the host passes the EP to `release_ep`.
        unsafe { *out = Box::into_raw(ep).cast() };
        factory.users.fetch_add(1, Ordering::Relaxed);
        Ok::<(), Error>(())
    })
}

/// # Safety
/// `ep` is null or one that [`create_ep`] made for this factory, released only once.
unsafe extern "system" fn release_ep(factory: *mut OrtEpFactory, ep: *mut OrtEp) {
    if ep.is_null() {
        return;
    }
    fence::value((), || {
        // SAFETY: the caller's; each EP is a user of its factory, which outlives it.
        unsafe {
            drop(Box::from_raw(ep.cast::<Ep>()));
            Factory::leave(factory);
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
/// `out` is a place for the result.
unsafe extern "system" fn get_num_custom_op_domains(
    _: *mut OrtEpFactory,
    out: *mut usize,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    unsafe { *out = 1 };
    OrtStatusPtr::default()
}

/// # Safety
/// The factory is one that this library made; `domains` has `count` places.
unsafe extern "system" fn get_custom_op_domains(
    factory: *mut OrtEpFactory,
    domains: *mut *mut OrtCustomOpDomain,
    count: usize,
) -> OrtStatusPtr {
    if count > 0 {
        // SAFETY: the caller's.
        unsafe { *domains = Factory::from_table(factory).domain.as_ptr() };
    }
    OrtStatusPtr::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::fake_host;

    /// The result of `GetSupportedDevices` for this many CPUs.
    fn devices(factory: *mut OrtEpFactory, cpus: usize) -> (OrtStatusPtr, usize) {
        let cpus = vec![fake_host::cpu(); cpus];
        let mut out = [ptr::null_mut(); 2];
        let mut count = usize::MAX;
        // SAFETY: the lists have the declared sizes.
        let status = unsafe {
            get_supported_devices(
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
        let factory = Factory::create(fake_host::host(), true).unwrap();
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
        unsafe { Factory::leave(factory) };
    }

    #[test]
    fn a_factory_has_kernels_until_it_is_released_and_leaves_nothing() {
        let factory = Factory::create(fake_host::host(), true).unwrap();
        let (create, state) = fake_host::kernel();
        for _ in 0..2 {
            let mut kernel = ptr::null_mut();
            // SAFETY: the factory lives; the host refuses to name any node.
            let status = unsafe { create(state, ptr::dangling(), &raw mut kernel) };
            assert!(!status.0.is_null() && kernel.is_null());
            // SAFETY: the factory lives.
            let factory = unsafe { Factory::from_table(factory) };
            assert_eq!(factory.users.load(Ordering::Acquire), 1);
        }
        // SAFETY: the factory was made above.
        unsafe { Factory::leave(factory) };
        assert_eq!(fake_host::alive(), 0);
    }

    /// Miri also sees whether it is only asked, which other threads may do at the same time.
    #[test]
    fn a_factory_in_use_is_freed_with_its_last_ep() {
        let factory = Factory::create(fake_host::host(), true).unwrap();
        let alive = fake_host::alive();
        // SAFETY: the factory lives, as it is not freed while an EP is not released.
        let in_use = unsafe { Factory::from_table(factory) };
        in_use.users.fetch_add(2, Ordering::Relaxed);
        // SAFETY: the factory was made above.
        unsafe { Factory::leave(factory) };
        assert_eq!(in_use.users.load(Ordering::Acquire), 2);
        assert_eq!(fake_host::alive(), alive);
        // SAFETY: it is marked as used by two EPs.
        unsafe { Factory::leave(factory) };
        assert_eq!(fake_host::alive(), alive);
        // SAFETY: one of the two is left.
        unsafe { Factory::leave(factory) };
        assert_eq!(fake_host::alive(), 0);
    }

    #[test]
    fn a_failed_factory_leaks_nothing() {
        let mut failed = 0;
        loop {
            fake_host::fail_after(failed);
            let made = Factory::create(fake_host::host(), true);
            match made {
                Ok(factory) => {
                    // SAFETY: the factory was made just now.
                    unsafe { Factory::leave(factory) };
                    // Types of complex numbers may fail.
                    if fake_host::has_not_failed() {
                        break;
                    }
                }
                Err(error) => assert!(error.to_string().ends_with(": injected"), "{error}"),
            }
            assert_eq!(
                fake_host::alive(),
                0,
                "{failed} calls before the one that fails"
            );
            failed += 1;
        }
        // One domain with its 4 ops, and 3 kernels of 7 calls or more.
        assert!(failed > 26, "{failed}");
    }
}
