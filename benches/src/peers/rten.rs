//! rten's operator.

use std::sync::Arc;

use revseq_kernels::DataType;
use rten::{Model, NodeId, RunOptions, ThreadPool, Value, ValueView};
use rten_tensor::{AsView, TensorView};

use super::model::{INPUT, LENGTHS, OUTPUT, model, takes_axes};
use super::{Failure, Prepared, Runtime};
use crate::{Contestant, Kind, Regime};

/// rten, on one thread.
pub(super) struct Rten;

impl Runtime for Rten {
    fn contestant(&self) -> Contestant {
        Contestant::Rten
    }

    /// Of the regimes' element types it has two, and a model that is loaded has its plan ready.
    fn takes(&self, regime: &Regime) -> bool {
        let is_known = matches!(regime.data_type, DataType::Float32 | DataType::Uint8);
        is_known && takes_axes(regime) && regime.kind != Kind::WholeCall
    }

    /// Its output alone.
    fn tensors(&self) -> usize {
        1
    }

    fn prepare(
        &self,
        regime: &Regime,
        _: &[u8],
        lengths: &[i64],
    ) -> Result<Box<dyn Prepared>, Failure> {
        let model = Model::load(model(regime).unwrap_or_default())?;
        Ok(Box::new(LoadedModel {
            inputs: [model.node_id(INPUT)?, model.node_id(LENGTHS)?],
            outputs: [model.node_id(OUTPUT)?],
            model,
            regime: *regime,
            // Its integers have 32 bits; no axis of the regimes needs more.
            lengths: lengths.iter().map(|&length| length as i32).collect(),
            threads: Arc::new(ThreadPool::with_num_threads(1)),
            output: None,
        }))
    }
}

/// A model that is loaded.
struct LoadedModel {
    regime: Regime,
    model: Model,
    inputs: [NodeId; 2],
    outputs: [NodeId; 1],
    lengths: Vec<i32>,
    threads: Arc<ThreadPool>,
    output: Option<Value>,
}

impl LoadedModel {
    fn run_once(&mut self, input: &[u8]) -> Result<(), Failure> {
        let dims: Vec<usize> = self.regime.dims.iter().map(|&size| size as usize).collect();
        let data: ValueView<'_> = match self.regime.data_type {
            DataType::Uint8 => TensorView::from_data(&dims, input).into(),
            _ => TensorView::from_data(&dims, bytemuck::cast_slice::<u8, f32>(input)).into(),
        };
        let lengths: ValueView<'_> =
            TensorView::from_data(&[self.lengths.len()], self.lengths.as_slice()).into();
        let inputs = vec![
            (self.inputs[0], data.into()),
            (self.inputs[1], lengths.into()),
        ];
        // Drop the previous output first, so it does not compete for cache.
        self.output = None;
        let mut options = RunOptions::default();
        options.thread_pool = Some(Arc::clone(&self.threads));
        let mut outputs = self.model.run(inputs, &self.outputs, Some(options))?;
        self.output = outputs.pop();
        Ok(())
    }
}

impl Prepared for LoadedModel {
    fn run(&mut self, input: &[u8], repeats: u64) -> Result<(), Failure> {
        let threads = Arc::clone(&self.threads);
        // On the pool's own thread there is no going back and forth for every run.
        threads.run(|| (0..repeats).try_for_each(|_| self.run_once(input)))
    }

    fn output(&self) -> Result<&[u8], Failure> {
        Ok(match &self.output {
            Some(Value::FloatTensor(tensor)) => tensor.data().map_or(&[], bytemuck::cast_slice),
            Some(Value::UInt8Tensor(tensor)) => tensor.data().unwrap_or_default(),
            _ => &[],
        })
    }
}
