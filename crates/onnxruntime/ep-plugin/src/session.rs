//! A session within a session: it runs a model on the threads of the run that calls it.

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::{Arc, OnceLock};

use ort_sys::{
    OrtEnv, OrtEpDevice, OrtErrorCode, OrtLoggingLevel, OrtRunOptions, OrtSession,
    OrtSessionOptions,
};

use super::error::Error;
use super::given::Given;
use super::host::{Host, Owned, ort_try};
use super::inner::{self, Entries, c_string, entries, environment};
use super::log::Log;
use super::options;
use super::runs::Runs;
use super::tensor::Context;

/// The entries of a session's configuration that sessions in it have, too: how numbers are computed and
/// memory is taken. Others say what a session reads and writes, and where its nodes run.
const HANDED_ON: [&str; 5] = [
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
    "session.disable_prepacking",
    "session.set_denormal_as_zero",
    "session.use_device_allocator_for_initializers",
    "session.use_env_allocators",
];

/// What of a session's options sessions in it have, too.
#[derive(Debug)]
pub struct Around {
    host: Host,
    runs: Arc<Runs>,
    entries: Entries,
    /// An `OrtLoggingLevel`.
    severity: c_int,
    /// The devices of the EP's factory: another registration has devices of the same name.
    devices: Vec<*const OrtEpDevice>,
    /// Whether the session writes a model of compiled nodes.
    pub writes_context: bool,
    /// The initializers that its options give.
    pub given: Given,
    /// Whether it takes memory from an arena, once that was asked.
    has_arena: OnceLock<bool>,
}

// SAFETY: the host's devices do not change, and are read by any thread.
unsafe impl Send for Around {}
// SAFETY: as above.
unsafe impl Sync for Around {}

impl Around {
    /// # Safety
    /// `options` are of this host, and so are the devices.
    pub unsafe fn read(
        host: Host,
        options: *const OrtSessionOptions,
        log: Log,
        runs: Arc<Runs>,
        devices: Vec<*const OrtEpDevice>,
    ) -> Result<Self, Error> {
        // SAFETY: the caller's.
        let all = unsafe { options::entries(host, options) }?;
        // Each session warns that some of its nodes are on the CPU, as the one around has.
        let severity = match log.severity() {
            Some(severity) if severity < OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING as c_int => {
                severity
            }
            _ => OrtLoggingLevel::ORT_LOGGING_LEVEL_ERROR as c_int,
        };
        let context = ("ep.context_enable", "1");
        let mut pairs = all.iter().map(|(key, value)| (&**key, &**value));
        let writes_context = pairs.any(|pair| pair == context);
        // SAFETY: the caller's.
        let given = unsafe { Given::read(host, options, &all) }?;
        let handed_on = all.into_iter();
        let handed_on = handed_on.filter(|(key, _)| HANDED_ON.contains(&&**key));
        Ok(Self {
            host,
            runs,
            entries: entries(handed_on),
            severity,
            devices,
            writes_context,
            given,
            has_arena: OnceLock::new(),
        })
    }

    /// The runs of the session that are in progress.
    pub fn runs(&self) -> Arc<Runs> {
        Arc::clone(&self.runs)
    }

    fn has_arena(&self) -> bool {
        // By default it has.
        let asked = || self.given.has_arena().unwrap_or(true);
        *self.has_arena.get_or_init(asked)
    }
}

/// Makes options of a session in another.
fn session_options(around: &Around) -> Result<Owned<OrtSessionOptions>, Error> {
    let host = around.host;
    let options = inner::options(host, around.severity)?;
    inner::add_entries(host, &options, &around.entries)?;
    if !around.has_arena() {
        // SAFETY: the options are alive.
        unsafe { ort_try!(host, DisableCpuMemArena(options.as_ptr())) };
    }
    Ok(options)
}

/// Adds the device of the EP around to options.
///
/// # Safety
/// The environment and the options are alive, and of this host.
unsafe fn add_provider(
    around: &Around,
    environment: *mut OrtEnv,
    options: *mut OrtSessionOptions,
    entries: &Entries,
) -> Result<(), Error> {
    let host = around.host;
    let (mut devices, mut count) = (ptr::null(), 0);
    let keys: Vec<*const c_char> = entries.iter().map(|(key, _)| key.as_ptr()).collect();
    let values: Vec<*const c_char> = entries.iter().map(|(_, value)| value.as_ptr()).collect();
    // SAFETY: the caller's; the devices live as long as the environment.
    unsafe {
        ort_try!(
            host,
            GetEpDevices(environment, &raw mut devices, &raw mut count)
        );
        let mut devices = (0..count).map(|index| *devices.add(index));
        let own = devices.find(|&device| around.devices.contains(&device));
        let missing = "the provider's device is not registered";
        let own = [own.ok_or(Error::argument("GetEpDevices", missing))?];
        ort_try!(
            host,
            SessionOptionsAppendExecutionProvider_V2(
                options,
                environment,
                own.as_ptr(),
                own.len(),
                keys.as_ptr(),
                values.as_ptr(),
                keys.len()
            )
        );
    }
    Ok(())
}

/// The model of a session.
pub struct Model<'a> {
    /// The encoded model.
    pub bytes: &'a [u8],
    /// The names of its inputs.
    pub inputs: &'a [String],
    /// The names of its outputs.
    pub outputs: &'a [String],
}

/// A session of a model.
#[derive(Debug)]
pub struct Session {
    host: Host,
    session: Owned<OrtSession>,
    /// The runs of the session around.
    runs: Arc<Runs>,
    inputs: Vec<CString>,
    outputs: Vec<CString>,
}

// SAFETY: a session may be used by any number of threads at once.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

/// All of a session in another but for its model.
#[derive(Debug)]
pub struct Prepared {
    host: Host,
    environment: Owned<OrtEnv>,
    options: Owned<OrtSessionOptions>,
    /// The runs of the session around.
    runs: Arc<Runs>,
}

// SAFETY: any number of threads may make sessions at once, of options that nobody changes.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

impl Prepared {
    /// Prepares a session in another, with the same EP with these options.
    pub fn new(
        around: &Around,
        options_of_provider: Vec<(&'static str, String)>,
    ) -> Result<Self, Error> {
        let host = around.host;
        let (options, environment) = (session_options(around)?, environment(host)?);
        let of_provider = entries(options_of_provider);
        // SAFETY: the environment and the options are alive.
        unsafe {
            let (environment, options) = (environment.as_ptr(), options.as_ptr());
            add_provider(around, environment, options, &of_provider)?;
        }
        Ok(Self {
            host,
            environment,
            options,
            runs: Arc::clone(&around.runs),
        })
    }

    /// Makes the session of a model.
    pub fn session(&self, model: Model<'_>) -> Result<Session, Error> {
        let names = |names: &[String]| names.iter().map(|name| c_string(name.as_str())).collect();
        let (environment, options) = (&self.environment, &self.options);
        Ok(Session {
            host: self.host,
            session: inner::make(self.host, environment, options, model.bytes)?,
            runs: Arc::clone(&self.runs),
            inputs: names(model.inputs),
            outputs: names(model.outputs),
        })
    }
}

impl Session {
    /// Runs the model within a run: its inputs are those of the run with these indices, and so are its
    /// outputs, which are copied. The caller of the run may end it.
    pub fn run(
        &self,
        context: Context<'_>,
        inputs: &[usize],
        outputs: &[usize],
    ) -> Result<(), Error> {
        let values = inputs.iter().map(|&index| context.input_value(index));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let names = |names: &[CString]| -> Vec<*const c_char> {
            names.iter().map(|name| name.as_ptr()).collect()
        };
        let [input_names, output_names] = [&self.inputs, &self.outputs].map(|it| names(it));
        let session = &self.session;
        let run = |options: *const OrtRunOptions| {
            let inputs = (&*input_names, &*values);
            // SAFETY: the session, the options and the inputs are alive, and each input has a name.
            let run = || unsafe { inner::run(self.host, session, options, inputs, &output_names) };
            context.workers().lend(run)
        };
        let options = self.runs.options();
        let made = match run(options) {
            // Options may have what only the session around understands, such as adapters.
            Err(Error::Host { code, .. })
                if code == OrtErrorCode::ORT_INVALID_ARGUMENT as c_int && !options.is_null() =>
            {
                run(ptr::null())
            }
            ran => ran,
        };
        let made = made.map_err(Runs::named)?;
        for (&index, value) in std::iter::zip(outputs, &made) {
            // SAFETY: the outputs of the model are tensors of the same types as the run's.
            unsafe { context.copy_to_output(index, value.as_ptr())? };
        }
        Ok(())
    }
}
