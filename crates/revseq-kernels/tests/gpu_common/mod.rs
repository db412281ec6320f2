//! Software adapters for the tests.

use std::sync::OnceLock;

use revseq_kernels::gpu::{self, AdapterChoice, Context, ContextOptions};

/// A context on every software adapter: they are the same everywhere.
///
/// Without one the tests are skipped, by name, except on CI, where that fails.
pub(crate) fn contexts() -> &'static [Context] {
    static CONTEXTS: OnceLock<Vec<Context>> = OnceLock::new();
    CONTEXTS.get_or_init(|| {
        options()
            .iter()
            .map(|options| Context::new(options).unwrap())
            .collect()
    })
}

/// Options for a context on every software adapter.
pub(crate) fn options() -> Vec<ContextOptions> {
    let options: Vec<_> = gpu::adapters(gpu::wgpu::Backends::all())
        .into_iter()
        .filter(|adapter| adapter.device_type == gpu::wgpu::DeviceType::Cpu)
        .map(|adapter| {
            println!("testing on {adapter}");
            let mut options = ContextOptions::default();
            options.adapter = AdapterChoice::Index(adapter.index);
            options
        })
        .collect();
    if options.is_empty() {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "{name}: no software adapter, which CI has to have"
        );
        println!("skipped {name}: no software adapter");
    }
    options
}
