//! The kernel of a node, whoever made it: the EP or the custom op.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::slice;

use revseq_graph::ElementType;
use revseq_kernels::cpu::{self, KernelChoice, Threads};
use revseq_kernels::{DataType, LengthsData, LengthsPolicy, Plan, SequenceLengths};

use super::ep::Ep;
use super::error::Error;
use super::plans::{Plans, Shape};
use super::threads::CORES;
use crate::plugin::info::KernelInfo;
use crate::plugin::provider::provider_of;
use crate::plugin::tensor::{Context, Tensor};
use crate::plugin::workers::ParallelLoop;
use crate::plugin::{fence, kernel};

/// A node's kernel. Any number of runs may be in progress at once.
#[derive(Debug)]
pub(crate) struct Kernel {
    plans: Plans,
    policy: LengthsPolicy,
    threads: usize,
    verbose: bool,
}

impl kernel::Kernel for Kernel {
    type Failure = Error;

    fn create(info: KernelInfo<'_>) -> Result<Self, Error> {
        named(info, |name| {
            let ep: &Ep = provider_of(info)?;
            let plans = Plans::of(info, name)?;
            let policy = ep.options().lengths_policy(plans.operator());
            Ok(Self::new(plans, policy, ep.log().is_verbose()))
        })
    }

    /// Runs the node.
    ///
    /// A repeated shape allocates nothing. The output is not touched
    /// unless all checks pass.
    ///
    /// # Errors
    /// If an input is invalid. Names the node.
    fn compute(&self, context: Context<'_>) -> Result<(), Error> {
        self.compute_unnamed(context)
            .map_err(|error| error.of_node(self.plans.label()))
    }
}

impl Kernel {
    /// The kernel of a node of the custom op, which runs on the CPU EP.
    pub(super) fn of_custom_op(info: KernelInfo<'_>) -> Result<Self, Error> {
        named(info, |name| {
            let plans = Plans::of(info, name)?;
            let policy = plans.operator().lengths_policy();
            Ok(Self::new(plans, policy, info.log()?.is_verbose()))
        })
    }

    /// The kernel of a node; each run logs its choices if `verbose`.
    fn new(plans: Plans, policy: LengthsPolicy, verbose: bool) -> Self {
        Self {
            plans,
            policy,
            // ONNX Runtime does not expose the number of a session's threads. This
            // bounds the number of pieces; the session's pool, which may be
            // smaller, decides how many of them run at once.
            threads: *CORES,
            verbose,
        }
    }

    fn compute_unnamed(&self, context: Context<'_>) -> Result<(), Error> {
        fence::fault("compute");
        let inputs = [context.input(0)?, context.input(1)?];
        let shapes = inputs.map(|input| Shape {
            element: input.element,
            sizes: input.sizes,
        });
        self.plans.with(shapes, |planned| {
            // SAFETY: the lengths are an input of the run, of the type and
            // sizes that the plan was made for, and nothing writes to them
            // before `run` checks whether the output overlaps them.
            unsafe {
                with_lengths(inputs[1], |data| {
                    self.run(context, &planned.plan, inputs, data)
                })
            }
        })
    }

    fn run(
        &self,
        context: Context<'_>,
        plan: &Plan,
        [input, lengths_input]: [Tensor<'_>; 2],
        lengths: LengthsData<'_>,
    ) -> Result<(), Error> {
        let lengths_bytes = lengths.len() * lengths_size(lengths_input.element);
        let lengths = SequenceLengths::new(plan, lengths, self.policy)?;
        let output = context.output(input.sizes)?;
        let bytes = plan.output_bytes();
        let in_place = output == input.bytes;
        if bytes > 0 {
            let parallel = ParallelLoop::new(context.workers());
            let parallel_for = |pieces: usize, work: &(dyn Fn(usize) + Sync)| {
                parallel.run(pieces, work);
            };
            let threads = Threads::Host {
                threads: self.threads,
                parallel_for: &parallel_for,
            };
            if overlaps(output, bytes, lengths_input.bytes, lengths_bytes) {
                return Err(self.overlap(1));
            }
            let moved = if in_place {
                // SAFETY: the host gives one buffer of this shape as input and
                // output, and it overlaps neither the lengths nor, as the
                // plan's input and output are packed, ends before the plan does.
                let data = unsafe { slice::from_raw_parts_mut(output, bytes) };
                cpu::run_in_place(plan, &lengths, data, threads)
            } else {
                if overlaps(output, bytes, input.bytes, plan.input_bytes()) {
                    return Err(self.overlap(0));
                }
                // SAFETY: both buffers are of this shape, and they do not
                // overlap each other, nor the output the lengths.
                let (input, output) = unsafe {
                    (
                        slice::from_raw_parts(input.bytes.cast_const(), plan.input_bytes()),
                        slice::from_raw_parts_mut(output.cast::<MaybeUninit<u8>>(), bytes),
                    )
                };
                cpu::run_uninit(plan, &lengths, input, output, threads)
            };
            // Report the cause first: it says more than that pieces were not run.
            parallel.finish()?;
            moved?;
        }
        if self.verbose {
            let kernel = match in_place {
                true => KernelChoice::of_run_in_place(plan, &lengths),
                false => KernelChoice::of_run(plan, &lengths),
            };
            self.say(context, plan, kernel, in_place);
        }
        Ok(())
    }

    #[cold]
    fn overlap(&self, input: usize) -> Error {
        Error::Overlap {
            input: self.plans.operator().input_names()[input],
        }
    }

    /// Logs the choices of a run.
    #[cold]
    fn say(&self, context: Context<'_>, plan: &Plan, kernel: KernelChoice, in_place: bool) {
        let line = format!(
            "{} ran {}: {} bytes, by {kernel} ({})",
            self.plans.label(),
            if in_place { "in place" } else { "out of place" },
            plan.output_bytes(),
            kernel.simd(),
        );
        context.log().verbose(c"Compute", &line);
    }
}

/// Makes something from a node's name, which errors then have.
pub(super) fn named<T>(
    info: KernelInfo<'_>,
    make: impl FnOnce(String) -> Result<T, Error>,
) -> Result<T, Error> {
    let name = info.name()?;
    let label = format!("node {name:?}");
    make(name).map_err(|error| error.of_node(label))
}

/// Whether two runs of bytes share one.
pub(super) fn overlaps(
    one: *const u8,
    one_bytes: usize,
    other: *const u8,
    other_bytes: usize,
) -> bool {
    let (one, other) = (one.addr(), other.addr());
    one_bytes > 0
        && other_bytes > 0
        && one < other.saturating_add(other_bytes)
        && other < one.saturating_add(one_bytes)
}

/// The size in bytes of one length of this type.
fn lengths_size(element: c_int) -> usize {
    match ElementType::from_onnx_code(element) {
        Some(ElementType::Fixed(data_type)) => data_type.size(),
        _ => 0,
    }
}

/// Calls `run` with the lengths of a tensor.
///
/// # Safety
/// The tensor is one of the run, of the type that its plan was made for, and
/// nothing writes to it until `run` returns.
#[inline]
unsafe fn with_lengths<T>(
    tensor: Tensor<'_>,
    run: impl FnOnce(LengthsData<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    // Without elements in the data the plan wants no lengths, but those that
    // there are get checked.
    macro_rules! with {
        ($length:ty) => {
            // SAFETY: the caller's.
            run((&*unsafe { tensor.elements::<$length>() }?).into())
        };
    }
    match ElementType::from_onnx_code(tensor.element) {
        Some(ElementType::Fixed(DataType::Int32)) => with!(i32),
        Some(ElementType::Fixed(DataType::Uint32)) => with!(u32),
        Some(ElementType::Fixed(DataType::Uint64)) => with!(u64),
        // No plan is made for any other type.
        _ => with!(i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_do_not_overlap() {
        let bytes = [0_u8; 8];
        let at = |offset: usize| bytes.as_ptr().wrapping_add(offset);
        assert!(overlaps(at(0), 4, at(3), 1));
        assert!(overlaps(at(3), 1, at(0), 4));
        assert!(overlaps(at(2), 2, at(2), 2));
        assert!(!overlaps(at(0), 4, at(4), 4));
        assert!(!overlaps(at(4), 4, at(0), 4));
        assert!(!overlaps(at(0), 4, at(2), 0));
        assert!(!overlaps(at(2), 0, at(0), 4));
    }
}
