//! rten's operator.

use std::sync::Arc;

use revseq_kernels::DataType;
use rten::{Model, NodeId, RunOptions, ThreadPool, Value, ValueView};
use rten_tensor::{AsView, TensorView};

use super::model::{INPUT, LENGTHS, OUTPUT, model, takes_axes};
use crate::{Contestant, Error, Kind, Regime};

/// The version that this crate is built with.
pub(super) const VERSION: &str = "0.27";

/// Whether rten takes a regime: of the regimes' element types it has two, and a
/// model that is loaded has its plan ready.
pub(super) fn takes(regime: &Regime) -> bool {
    let is_known = matches!(regime.data_type, DataType::Float32 | DataType::Uint8);
    is_known && takes_axes(regime) && regime.kind != Kind::WholeCall
}

/// A model that is loaded.
pub(super) struct LoadedModel {
    model: Model,
    inputs: [NodeId; 2],
    outputs: [NodeId; 1],
    lengths: Vec<i32>,
    threads: Arc<ThreadPool>,
    output: Option<Value>,
}

impl LoadedModel {
    /// Loads the model for a regime.
    pub(super) fn new(regime: Regime, lengths: &[i64]) -> Result<Self, Error> {
        let refused = |error: &dyn std::error::Error| refused(regime, error);
        let model = Model::load(model(&regime).unwrap_or_default()).map_err(|e| refused(&e))?;
        let node = |name| model.node_id(name).map_err(|error| refused(&error));
        Ok(Self {
            inputs: [node(INPUT)?, node(LENGTHS)?],
            outputs: [node(OUTPUT)?],
            model,
            // Its integers have 32 bits; no axis of the regimes needs more.
            lengths: lengths.iter().map(|&length| length as i32).collect(),
            threads: Arc::new(ThreadPool::with_num_threads(1)),
            output: None,
        })
    }

    pub(super) fn run(&mut self, regime: Regime, input: &[u8], repeats: u64) -> Result<(), Error> {
        let threads = Arc::clone(&self.threads);
        // On the pool's own thread there is no going back and forth for every run.
        threads.run(|| {
            for _ in 0..repeats {
                self.run_once(regime, input)?;
            }
            Ok(())
        })
    }

    fn run_once(&mut self, regime: Regime, input: &[u8]) -> Result<(), Error> {
        let dims: Vec<usize> = regime.dims.iter().map(|&size| size as usize).collect();
        let data: ValueView<'_> = match regime.data_type {
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
        let mut outputs = self
            .model
            .run(inputs, &self.outputs, Some(options))
            .map_err(|error| refused(regime, &error))?;
        self.output = outputs.pop();
        Ok(())
    }

    pub(super) fn output(&self, _regime: Regime) -> Result<&[u8], Error> {
        Ok(match &self.output {
            Some(Value::FloatTensor(tensor)) => tensor.data().map_or(&[], bytemuck::cast_slice),
            Some(Value::UInt8Tensor(tensor)) => tensor.data().unwrap_or_default(),
            _ => &[],
        })
    }
}

fn refused(regime: Regime, error: &dyn std::error::Error) -> Error {
    Error::Peer {
        regime: regime.to_string(),
        contestant: Contestant::Rten,
        message: error.to_string(),
    }
}
