//! Runs the op on tract's tensors.

use std::sync::Arc;

use revseq_graph::{ElementType, LruCache, TensorType};
use revseq_kernels::cpu::{self, Threads};
use revseq_kernels::{DataType, LengthsData, Plan, ReverseSubsequencesDesc, SequenceLengths};
#[cfg(feature = "multithread")]
use tract_linalg::multithread::{Executor, current_tract_executor};
use tract_onnx::tract_hir::internal::*;

use crate::ReverseSubsequences;
use crate::error::clause;

/// The plan for inputs of these types and shapes.
#[derive(Debug)]
pub(crate) struct Planned {
    inputs: TVec<(DatumType, TVec<usize>)>,
    pub(crate) plan: Plan,
}

impl Planned {
    pub(crate) fn new(inputs: &[&Tensor], desc: &ReverseSubsequencesDesc) -> TractResult<Self> {
        Ok(Self {
            inputs: inputs
                .iter()
                .map(|input| (input.datum_type(), input.shape().into()))
                .collect(),
            plan: Plan::new(desc)?,
        })
    }

    /// The cached plan for these inputs, or a new one.
    pub(crate) fn of(
        plans: &LruCache<Self>,
        inputs: &[&Tensor],
        make: impl FnOnce() -> TractResult<Self>,
    ) -> TractResult<Arc<Self>> {
        plans.get_or_try_insert(|planned| planned.is_for(inputs), make)
    }

    fn is_for(&self, inputs: &[&Tensor]) -> bool {
        let mut pairs = self.inputs.iter().zip(inputs);
        pairs.all(|((datum_type, sizes), input)| {
            *datum_type == input.datum_type() && sizes.as_slice() == input.shape()
        })
    }

    /// Reverses the data, in place if nothing else holds it.
    pub(crate) fn run(&self, lengths: &SequenceLengths<'_>, data: TValue) -> TractResult<Tensor> {
        let plan = &self.plan;
        #[cfg(feature = "multithread")]
        let executor = current_tract_executor();
        #[cfg(feature = "multithread")]
        let threads = match &executor {
            Executor::SingleThread => Threads::Serial,
            Executor::MultiThread(pool) => Threads::RayonPool(pool),
            Executor::RayonGlobal => Threads::Rayon,
        };
        #[cfg(not(feature = "multithread"))]
        let threads = Threads::Serial;

        if data.datum_type().is_copy() && !data.is_exclusive() {
            return out_of_place(plan, lengths, &data, threads);
        }
        // Takes over the memory, or clones elements that are not plain bytes.
        let mut output = data.into_tensor();
        let mut plain = output.try_as_plain_ram_mut()?;
        match plain.datum_type() {
            DatumType::String => {
                cpu::reverse_in_place(plan, lengths, plain.as_slice_mut::<String>()?)?
            }
            DatumType::TDim => cpu::reverse_in_place(plan, lengths, plain.as_slice_mut::<TDim>()?)?,
            DatumType::Blob => cpu::reverse_in_place(plan, lengths, plain.as_slice_mut::<Blob>()?)?,
            _ => cpu::run_in_place(plan, lengths, plain.as_bytes_mut(), threads)?,
        }
        Ok(output)
    }
}

pub(crate) fn eval(
    op: &ReverseSubsequences,
    data: TValue,
    lengths: &Tensor,
) -> TractResult<Tensor> {
    let planned = planned(op, &data, lengths)?;
    let plain = lengths.try_as_plain_ram()?;
    let lengths: LengthsData<'_> = match lengths.datum_type() {
        DatumType::I32 => plain.as_slice::<i32>()?.into(),
        DatumType::U32 => plain.as_slice::<u32>()?.into(),
        DatumType::U64 => plain.as_slice::<u64>()?.into(),
        _ => plain.as_slice::<i64>()?.into(),
    };
    let lengths = SequenceLengths::new(&planned.plan, lengths, op.policy)?;
    planned.run(&lengths, data)
}

fn planned(op: &ReverseSubsequences, data: &Tensor, lengths: &Tensor) -> TractResult<Arc<Planned>> {
    let inputs = [data, lengths];
    Planned::of(&op.plans, &inputs, || {
        let data_type = TensorType {
            element_type: element_type(data.datum_type())?,
            sizes: &sizes(data),
        };
        let lengths_type = TensorType {
            element_type: lengths_type(lengths.datum_type())?,
            sizes: &sizes(lengths),
        };
        let desc = op.operator.lower("", data_type, lengths_type);
        let desc = desc.map_err(clause)?;
        Planned::new(&inputs, &desc)
    })
}

/// A tensor's sizes as the kernels count them.
pub(crate) fn sizes(tensor: &Tensor) -> TVec<u64> {
    tensor.shape().iter().map(|&size| size as u64).collect()
}

#[expect(
    unsafe_code,
    reason = "tract has no safe way to allocate a tensor without writing it twice"
)]
fn out_of_place(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    data: &Tensor,
    threads: Threads<'_>,
) -> TractResult<Tensor> {
    let input = data.try_as_plain_ram()?;
    // SAFETY: the type is plain bytes, and the run writes all of them, since the plan's output is
    // packed.
    let mut output = unsafe { Tensor::uninitialized_dt(data.datum_type(), data.shape())? };
    cpu::run(
        plan,
        lengths,
        input.as_bytes(),
        output.try_as_plain_ram_mut()?.as_bytes_mut(),
        threads,
    )?;
    Ok(output)
}

/// The kernels' element type for a tract type.
pub(crate) fn element_type(datum_type: DatumType) -> TractResult<ElementType> {
    if !datum_type.is_copy() {
        return Ok(ElementType::String);
    }
    Ok(ElementType::Fixed(match datum_type.size_of() {
        1 => DataType::Uint8,
        2 => DataType::Uint16,
        4 => DataType::Uint32,
        8 => DataType::Uint64,
        16 => DataType::Complex128,
        size => {
            bail!("elements of type {datum_type:?} have {size} bytes, expected 1, 2, 4, 8 or 16")
        }
    }))
}

/// The element type of lengths for a tract type.
pub(crate) fn lengths_type(datum_type: DatumType) -> TractResult<ElementType> {
    Ok(ElementType::Fixed(match datum_type {
        DatumType::I32 => DataType::Int32,
        DatumType::I64 => DataType::Int64,
        DatumType::U32 => DataType::Uint32,
        DatumType::U64 => DataType::Uint64,
        other => bail!(
            "sequence lengths of type {other:?}, expected I64, or I32, U32 or U64 for ReverseSubsequences"
        ),
    }))
}

#[cfg(test)]
mod tests {
    use revseq_graph::Operator;

    use super::*;

    fn op() -> ReverseSubsequences {
        let operator = Operator::ReverseSequence {
            batch_axis: 1,
            time_axis: 0,
        };
        ReverseSubsequences::new(operator, 2).unwrap()
    }

    fn planned(op: &ReverseSubsequences, shape: [usize; 2], datum_type: DatumType) -> Arc<Planned> {
        let data = Tensor::zero_dt(datum_type, &shape).unwrap();
        let lengths = Tensor::zero::<i64>(&shape[1..]).unwrap();
        let planned = super::planned(op, &data, &lengths).unwrap();
        assert!(planned.is_for(&[&data, &lengths]));
        assert_eq!(planned.plan.input_bytes(), data.as_bytes().len());
        planned
    }

    #[test]
    fn shapes_that_alternate_are_planned_once() {
        let op = op();
        let keys = [
            ([4, 2], DatumType::F32),
            ([5, 2], DatumType::F32),
            ([4, 3], DatumType::F32),
            ([4, 2], DatumType::F64),
        ];
        let plan = || keys.map(|(shape, datum_type)| planned(&op, shape, datum_type));
        // All are alive, so a new plan would have another address.
        for (first, again) in plan().iter().zip(plan()) {
            assert!(Arc::ptr_eq(first, &again));
        }
    }

    #[test]
    fn an_op_with_other_axes_has_separate_plans() {
        let op = op();
        let first = planned(&op, [3, 3], DatumType::F32);
        let mut other = op.clone();
        assert_eq!(op, other);
        other.operator = Operator::ReverseSequence {
            batch_axis: 0,
            time_axis: 1,
        };
        assert!(!Arc::ptr_eq(
            &first,
            &planned(&other, [3, 3], DatumType::F32)
        ));
        assert!(Arc::ptr_eq(&first, &planned(&op, [3, 3], DatumType::F32)));
    }
}
