//! ONNX's ReverseSequence as a custom op of candle, for tensors of any layout.
//!
//! In the repository, where candle is built for this example alone:
//!
//! ```sh
//! cargo run --release --manifest-path crates/operator/revseq-graph/examples/candle/Cargo.toml
//! ```
//!
//! Elsewhere, it needs candle-core 0.11, this crate, and revseq-kernels with the feature `half`.

use std::error::Error;

use candle_core::{CpuStorage, CustomOp2, Device, Layout, Shape, Tensor, bail};
use revseq_graph::{ElementType, Operator, TensorType};
use revseq_kernels::cpu::{self, Threads};
use revseq_kernels::{DataType, Element, Plan, ReverseSubsequencesDesc, SequenceLengths};

/// The op, with its axes as the node has them.
struct ReverseSequence {
    operator: Operator,
}

fn failed(error: impl Error + Send + Sync + 'static) -> candle_core::Error {
    candle_core::Error::wrap(error)
}

fn sizes(layout: &Layout) -> Vec<u64> {
    layout.dims().iter().map(|&size| size as u64).collect()
}

impl ReverseSequence {
    fn describe(
        &self,
        data_type: DataType,
        data: &Layout,
        lengths: &Layout,
    ) -> candle_core::Result<ReverseSubsequencesDesc> {
        let strides: Vec<u64> = data.stride().iter().map(|&stride| stride as u64).collect();
        let tensor_type = |element_type, sizes| TensorType {
            element_type: ElementType::Fixed(element_type),
            sizes,
        };
        let (data, lengths) = (sizes(data), sizes(lengths));
        let (data, lengths) = (tensor_type(data_type, &data), tensor_type(DataType::Int64, &lengths));
        let desc = self.operator.lower_strided(self.name(), data, &strides, lengths);
        desc.map_err(failed)
    }

    fn run<T: Element + Default>(
        &self,
        data: &[T],
        data_layout: &Layout,
        lengths: &CpuStorage,
        lengths_layout: &Layout,
    ) -> candle_core::Result<Vec<T>> {
        let (CpuStorage::I64(lengths), Some((start, end))) =
            (lengths, lengths_layout.contiguous_offsets())
        else {
            bail!("{}: the lengths have to be packed int64", self.name());
        };
        let desc = self.describe(T::DATA_TYPE, data_layout, lengths_layout)?;
        let plan = Plan::new(&desc).map_err(failed)?;
        let policy = self.operator.lengths_policy();
        let lengths = SequenceLengths::new(&plan, &lengths[start..end], policy).map_err(failed)?;
        let data = &data[data_layout.start_offset()..];
        let mut output = vec![T::default(); data_layout.shape().elem_count()];
        cpu::run_elements(&plan, &lengths, data, &mut output, Threads::default())
            .map_err(failed)?;
        Ok(output)
    }
}

impl CustomOp2 for ReverseSequence {
    fn name(&self) -> &'static str {
        self.operator.op_type()
    }

    fn cpu_fwd(
        &self,
        data: &CpuStorage,
        layout: &Layout,
        lengths: &CpuStorage,
        lengths_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        macro_rules! run {
            ($($variant:ident),*) => {
                match data {
                    $(CpuStorage::$variant(data) => {
                        CpuStorage::$variant(self.run(data, layout, lengths, lengths_layout)?)
                    })*
                    other => bail!("{}: data of type {:?}", self.name(), other),
                }
            };
        }
        let output = run!(U8, U32, I64, F16, BF16, F32, F64);
        Ok((output, layout.shape().clone()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let operator = Operator::ReverseSequence {
        batch_axis: 1,
        time_axis: 0,
    };
    let reverse = ReverseSequence { operator };
    let lengths = Tensor::new(&[4_i64, 2], &Device::Cpu)?;

    // A view: 2 sequences of 4 steps, seen time-major.
    let data = Tensor::arange(0_f32, 8.0, &Device::Cpu)?.reshape((2, 4))?;
    let view = data.t()?;
    let reversed = view.apply_op2_no_bwd(&lengths, &reverse)?;
    println!("{}", reversed.t()?);
    let expected = [[3_f32, 2., 1., 0.], [5., 4., 6., 7.]];
    assert_eq!(reversed.t()?.to_vec2::<f32>()?, expected);

    let too_long = Tensor::new(&[4_i64, 5], &Device::Cpu)?;
    let error = view.apply_op2_no_bwd(&too_long, &reverse).unwrap_err();
    println!("lengths 4 and 5: {error}");
    Ok(())
}
