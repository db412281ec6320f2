//! ONNX Runtime's own CPU kernel.

use half::f16;
use half::slice::HalfFloatSliceExt;
use ort::environment::Environment;
use ort::memory::Allocator;
use ort::session::{IoBinding, Session};
use ort::value::{DynTensor, Tensor, TensorElementType};
use revseq_kernels::DataType;

use super::model::{INPUT, LENGTHS, OUTPUT, model, takes_axes};
use super::{Failure, Prepared, Runtime};
use crate::{Contestant, Kind, Regime};

/// An ONNX Runtime that is loaded. There can be one in a process.
pub(super) struct Onnxruntime(pub(super) Environment);

impl Runtime for Onnxruntime {
    fn contestant(&self) -> Contestant {
        Contestant::Onnxruntime
    }

    /// A session has its plan ready, so there is no whole call of it. Complex
    /// numbers it lacks altogether.
    fn takes(&self, regime: &Regime) -> bool {
        let is_known = matches!(
            regime.data_type,
            DataType::Float32 | DataType::Float16 | DataType::Uint8 | DataType::Int64
        );
        is_known && takes_axes(regime) && regime.kind != Kind::WholeCall
    }

    fn tensors(&self) -> usize {
        2
    }

    /// A session on one thread for a regime, its tensors bound.
    fn prepare(
        &self,
        regime: &Regime,
        input: &[u8],
        lengths: &[i64],
    ) -> Result<Box<dyn Prepared>, Failure> {
        let model = model(regime).unwrap_or_default();
        let session = Session::builder(&self.0)?
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
        Ok(Box::new(BoundSession {
            session,
            binding,
            output,
            data_type: regime.data_type,
        }))
    }
}

/// A session with its tensors.
struct BoundSession {
    session: Session,
    binding: IoBinding,
    output: DynTensor,
    data_type: DataType,
}

impl Prepared for BoundSession {
    fn run(&mut self, _: &[u8], repeats: u64) -> Result<(), Failure> {
        for _ in 0..repeats {
            self.session.run_binding(&self.binding)?;
        }
        Ok(())
    }

    fn output(&self) -> Result<&[u8], Failure> {
        Ok(bytes(&self.output, self.data_type)?)
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
