//! The program runs, checks the kernels' outputs, and names its adapter.

use std::process::Command;

use revseq_kernels::gpu::{self, wgpu};

#[test]
fn a_software_adapter_s_figures_are_called_so() {
    let found = gpu::adapters(wgpu::Backends::VULKAN);
    if !found
        .iter()
        .any(|adapter| adapter.device_type == wgpu::DeviceType::Cpu)
    {
        revseq_skips::skip(
            "a_software_adapter_s_figures_are_called_so",
            "no software adapter",
        );
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_revseq-gpu-bench"))
        .args(["--quick", "--adapter", "software"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}{error}");
    assert!(text.contains("\nSOFTWARE: "), "{text}");
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(rows.len(), 2, "{text}");
    for row in rows {
        assert!(row.ends_with("  (software)"), "{text}");
    }
}
