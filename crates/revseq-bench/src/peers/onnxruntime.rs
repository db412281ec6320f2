//! ONNX Runtime's own CPU kernel.

use std::path::Path;
use std::sync::Arc;

use half::f16;
use half::slice::HalfFloatSliceExt;
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::memory::Allocator;
use ort::session::{IoBinding, Session};
use ort::value::{DynTensor, Tensor, TensorElementType};
use revseq_kernels::DataType;

use super::model::{INPUT, LENGTHS, OUTPUT, model, takes_axes};
use crate::{Contestant, Error, Kind, Regime};

/// An ONNX Runtime that is loaded. There can be one in a process.
pub struct Onnxruntime {
    environment: Environment,
    version: String,
}

impl Onnxruntime {
    /// Takes one that the caller has loaded, and its version for the report.
    #[must_use]
    pub fn new(environment: Environment, version: impl Into<String>) -> Self {
        Self {
            environment,
            version: version.into(),
        }
    }

    /// Loads ONNX Runtime's shared library.
    ///
    /// # Errors
    /// [`Error::Onnxruntime`] if it does not load.
    pub fn load(library: &Path) -> Result<Self, Error> {
        let failed = |message: String| Error::Onnxruntime {
            library: library.to_owned(),
            message,
        };
        // Its own lines would go to standard error; its errors come back.
        let silence = Arc::new(|_: LogLevel, _: &str, _: &str, _: &str, _: &str| {});
        let environment = ort::init_from(library)
            .map_err(|error| failed(error.to_string()))?
            .with_logger(silence)
            .with_telemetry(false)
            .build()
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self::new(environment, library.display().to_string()))
    }

    /// The version, from the caller.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// A session on one thread for a regime, its tensors bound.
    pub(super) fn prepare(
        &self,
        regime: Regime,
        input: &[u8],
        lengths: &[i64],
    ) -> Result<BoundSession, Error> {
        self.session(regime, input, lengths)
            .map_err(|error| refused(regime, &error))
    }

    fn session(&self, regime: Regime, input: &[u8], lengths: &[i64]) -> ort::Result<BoundSession> {
        let model = model(&regime).unwrap_or_default();
        let session = Session::builder(&self.environment)?
            .with_intra_threads(1)?
            .with_inter_threads(1)?
            .commit_from_memory(&model)?;
        let element_type = match regime.data_type {
            DataType::Float16 => TensorElementType::Float16,
            DataType::Uint8 => TensorElementType::Uint8,
            DataType::Int64 => TensorElementType::Int64,
            _ => TensorElementType::Float32,
        };
        // Its own allocator aligns, as our buffers are.
        let dims: Vec<i64> = regime.dims.iter().map(|&size| size as i64).collect();
        let tensor = || DynTensor::new(&Allocator::default(), element_type, dims.clone());
        let mut data = tensor()?;
        fill(&mut data, regime.data_type, |bytes| {
            bytes.copy_from_slice(input);
        })?;
        let mut output = tensor()?;
        fill(&mut output, regime.data_type, |bytes| bytes.fill(0xA5))?;
        let lengths = Tensor::from_array(([lengths.len()], lengths.to_vec()))?;
        let mut binding = session.create_binding()?;
        binding.bind_input(INPUT, &data)?;
        binding.bind_input(LENGTHS, &lengths)?;
        binding.bind_output(OUTPUT, &mut output)?;
        Ok(BoundSession {
            session,
            binding,
            output,
        })
    }
}

/// Whether ONNX Runtime's CPU kernel takes a regime.
///
/// A session has its plan ready, so there is no whole call of it. Complex
/// numbers it lacks altogether.
pub(super) fn takes(regime: &Regime) -> bool {
    let is_known = matches!(
        regime.data_type,
        DataType::Float32 | DataType::Float16 | DataType::Uint8 | DataType::Int64
    );
    is_known && takes_axes(regime) && regime.kind != Kind::WholeCall
}

/// A session with its tensors.
pub(super) struct BoundSession {
    session: Session,
    binding: IoBinding,
    output: DynTensor,
}

impl BoundSession {
    pub(super) fn run(&mut self, regime: Regime, repeats: u64) -> Result<(), Error> {
        for _ in 0..repeats {
            self.session
                .run_binding(&self.binding)
                .map_err(|error| refused(regime, &error))?;
        }
        Ok(())
    }

    pub(super) fn output(&self, regime: Regime) -> Result<&[u8], Error> {
        bytes(&self.output, regime.data_type).map_err(|error| refused(regime, &error))
    }
}

fn fill(
    tensor: &mut DynTensor,
    data_type: DataType,
    fill: impl FnOnce(&mut [u8]),
) -> ort::Result<()> {
    use bytemuck::cast_slice_mut;
    match data_type {
        DataType::Float16 => {
            let (_, data) = tensor.try_extract_tensor_mut::<f16>()?;
            fill(cast_slice_mut(data.reinterpret_cast_mut()));
        }
        DataType::Uint8 => fill(tensor.try_extract_tensor_mut::<u8>()?.1),
        DataType::Int64 => fill(cast_slice_mut(tensor.try_extract_tensor_mut::<i64>()?.1)),
        _ => fill(cast_slice_mut(tensor.try_extract_tensor_mut::<f32>()?.1)),
    }
    Ok(())
}

fn bytes(tensor: &DynTensor, data_type: DataType) -> ort::Result<&[u8]> {
    use bytemuck::cast_slice;
    Ok(match data_type {
        DataType::Float16 => cast_slice(tensor.try_extract_tensor::<f16>()?.1.reinterpret_cast()),
        DataType::Uint8 => tensor.try_extract_tensor::<u8>()?.1,
        DataType::Int64 => cast_slice(tensor.try_extract_tensor::<i64>()?.1),
        _ => cast_slice(tensor.try_extract_tensor::<f32>()?.1),
    })
}

fn refused(regime: Regime, error: &ort::Error) -> Error {
    Error::Peer {
        regime: regime.to_string(),
        contestant: Contestant::Onnxruntime,
        message: error.to_string(),
    }
}
