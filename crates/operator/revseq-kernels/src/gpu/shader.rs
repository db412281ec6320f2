//! The variants of the shader.

/// The shader's source: units of 16 bytes, each tensor in a separate buffer.
const SOURCE: &str = concat!(
    include_str!("shader.wgsl"),
    "\n",
    include_str!("swaps.wgsl")
);

/// The invocations of a workgroup, as the shader has them.
pub(super) const WORKGROUP_SIZE: u32 = 64;

/// An entry point of the shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kernel {
    CopyUnits,
    CopyWords,
    CopyGranules,
    SwapUnits,
    SwapWords,
    SwapColumns,
    CheckLengths,
    ReportLength,
}

impl Kernel {
    pub(super) fn entry_point(self) -> &'static str {
        match self {
            Self::CopyUnits => "copy_units",
            Self::CopyWords => "copy_words",
            Self::CopyGranules => "copy_granules",
            Self::SwapUnits => "swap_units",
            Self::SwapWords => "swap_words",
            Self::SwapColumns => "swap_columns",
            Self::CheckLengths => "check_lengths",
            Self::ReportLength => "report_length",
        }
    }

    pub(super) fn is_copy(self) -> bool {
        matches!(self, Self::CopyUnits | Self::CopyWords | Self::CopyGranules)
    }
}

/// The parameters that a pipeline is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Variant {
    pub(super) kernel: Kernel,
    /// The bytes of a unit: 4, 8 or 16.
    pub(super) unit_bytes: usize,
    /// Whether a tensor that is read shares the buffer that is written.
    pub(super) shared: bool,
    /// Whether the two halves of the pairs that swap are bound apart.
    pub(super) apart: bool,
}

impl Variant {
    /// Every variant that a plan can need, for the test that translates them.
    #[cfg(all(test, feature = "gpu-validation"))]
    pub(super) fn all() -> Vec<Self> {
        use Kernel::{
            CheckLengths, CopyGranules, CopyUnits, CopyWords, ReportLength, SwapColumns, SwapUnits,
            SwapWords,
        };
        let mut all = Vec::new();
        for shared in [false, true] {
            let mut add = |kernel, units: &[usize], apart: &[bool]| {
                for &unit_bytes in units {
                    all.extend(apart.iter().map(|&apart| Self {
                        kernel,
                        unit_bytes,
                        shared,
                        apart,
                    }));
                }
            };
            add(CopyUnits, &[4, 8, 16], &[false]);
            add(SwapUnits, &[4, 8, 16], &[false, true]);
            add(SwapWords, &[4], &[false, true]);
            add(SwapColumns, &[4], &[false, true]);
            for kernel in [CopyWords, CopyGranules, CheckLengths, ReportLength] {
                add(kernel, &[4], &[false]);
            }
        }
        all
    }

    /// The shader with this variant's text in place.
    pub(super) fn source(self) -> String {
        let unit = match self.unit_bytes {
            16 => "vec4<u32>",
            8 => "vec2<u32>",
            _ => "u32",
        };
        let mut source =
            SOURCE.replace("alias Unit = vec4<u32>;", &format!("alias Unit = {unit};"));
        if self.shared {
            source = source.replace("var<storage, read>", "var<storage, read_write>");
        }
        if !self.apart {
            source = source
                .replace("apart_units[", "output_units[")
                .replace("apart_words[", "output_words[");
        }
        source
    }
}

#[cfg(all(test, feature = "gpu-validation"))]
mod tests {
    use naga::back::{hlsl, msl, spv};
    use naga::valid::{Capabilities, ValidationFlags, Validator};

    use super::Variant;

    /// Every variant is valid WGSL with its entry point, and every graphics
    /// API's language can say it.
    #[test]
    fn every_variant_translates_to_every_language() {
        for variant in Variant::all() {
            let source = variant.source();
            let module = naga::front::wgsl::parse_str(&source)
                .unwrap_or_else(|error| panic!("{variant:?}: {}", error.emit_to_string(&source)));
            // No capability that is not everywhere.
            let info = Validator::new(ValidationFlags::all(), Capabilities::empty())
                .validate(&module)
                .unwrap_or_else(|error| panic!("{variant:?}: {}", error.emit_to_string(&source)));
            let name = variant.kernel.entry_point();
            assert!(module.entry_points.iter().any(|entry| entry.name == name));

            let entry = (naga::ShaderStage::Compute, name.to_owned());
            let options = spv::PipelineOptions {
                shader_stage: entry.0,
                entry_point: entry.1.clone(),
            };
            let words = spv::write_vec(&module, &info, &spv::Options::default(), Some(&options));
            assert!(words.unwrap().len() > 100, "{variant:?}");

            let pipeline = hlsl::PipelineOptions {
                entry_point: Some(entry.clone()),
            };
            let options = hlsl::Options::default();
            let mut text = String::new();
            hlsl::Writer::new(&mut text, &options, &pipeline)
                .write(&module, &info, None)
                .unwrap_or_else(|error| panic!("{variant:?}: {error}"));
            assert!(text.contains(name), "{variant:?}");

            let pipeline = msl::PipelineOptions {
                entry_point: Some(entry),
                ..Default::default()
            };
            let (text, _) = msl::write_string(&module, &info, &msl::Options::default(), &pipeline)
                .unwrap_or_else(|error| panic!("{variant:?}: {error}"));
            assert!(text.contains(name), "{variant:?}");
        }
    }
}
