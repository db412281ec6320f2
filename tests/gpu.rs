//! The case table on a GPU.

use std::io::Write as _;

use revseq_kernels::gpu::{
    self, AdapterChoice, Context, ContextOptions, ReverseSubsequencesPass, wgpu,
};
use revseq_kernels::{LengthsPolicy, Plan, SequenceLengths};

use crate::paths::{Error, lower};
use crate::{Case, Elements, Step};

/// The graphics APIs whose software adapters are the same everywhere.
const BACKENDS: [wgpu::Backend; 2] = [wgpu::Backend::Vulkan, wgpu::Backend::Gl];

/// A context on the software adapter of each graphics API.
///
/// One that is missing is skipped, by name.
///
/// # Panics
/// A software adapter gives no device.
#[must_use]
pub fn software_contexts() -> Vec<Context> {
    let found = gpu::adapters(wgpu::Backends::all());
    let mut contexts = Vec::new();
    for backend in BACKENDS {
        let software = found.iter().find(|adapter| {
            adapter.backend == backend && adapter.device_type == wgpu::DeviceType::Cpu
        });
        let Some(adapter) = software else {
            revseq_skips::skip(
                &format!("the case table through {backend}"),
                "no software adapter",
            );
            continue;
        };
        let mut options = ContextOptions::default();
        options.adapter = AdapterChoice::Index(adapter.index);
        let context = Context::new(&options).expect("a software adapter gives a device");
        say(&format!("testing on {adapter}"));
        contexts.push(context);
    }
    contexts
}

/// Prints a line past the test harness, which captures `println`.
fn say(line: &str) {
    let mut stderr = std::io::stderr();
    stderr
        .write_all(format!("{line}\n").as_bytes())
        .expect("standard error takes a line");
}

/// Runs a step on a context, out of place or in place.
pub(crate) fn run(
    context: &Context,
    is_in_place: bool,
    case: &Case,
    step: &Step,
    input: Elements,
    policy: LengthsPolicy,
) -> Result<Elements, Error> {
    let Elements::Bytes(mut bytes) = input else {
        return Err("strings are not bytes".into());
    };
    let plan = Plan::new(&lower(case, step)?)?;
    let lengths = SequenceLengths::new(&plan, step.lengths.data(), policy)?;
    let pass = ReverseSubsequencesPass::new(context, &plan)?;
    if is_in_place {
        gpu::run_in_place(&pass, &lengths, &mut bytes)?;
        return Ok(Elements::Bytes(bytes));
    }
    let mut output = vec![0xa5; plan.output_bytes()];
    gpu::run(&pass, &lengths, &bytes, &mut output)?;
    Ok(Elements::Bytes(output))
}
