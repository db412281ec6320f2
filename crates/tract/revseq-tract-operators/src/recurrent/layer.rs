//! What a layer is, and the sizes that its inputs have to have.

use recurrent_layers::{Layout, Recurrent};
use tract_onnx::tract_hir::internal::tract_itertools::Itertools;
use tract_onnx::tract_hir::internal::*;

use super::quantized::Quantized;
use crate::LengthsPolicy;

/// The node's optional inputs.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    pub(super) bias: Option<usize>,
    pub(super) lengths: Option<usize>,
    pub(super) initial_h: Option<usize>,
    pub(super) initial_c: Option<usize>,
    pub(super) peepholes: Option<usize>,
}

/// The node's outputs that are present.
#[derive(Clone, Debug)]
pub(super) struct Outputs {
    pub(super) y: Option<usize>,
    pub(super) y_h: Option<usize>,
    pub(super) y_c: Option<usize>,
}

impl Outputs {
    pub(super) fn all(&self) -> [Option<usize>; 3] {
        [self.y, self.y_h, self.y_c]
    }

    pub(super) fn count(&self) -> usize {
        self.all().iter().flatten().count()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) form: Recurrent,
    /// Policy for lengths out of range.
    pub(super) lengths: LengthsPolicy,
    pub(super) inputs: Inputs,
    pub(super) outputs: Outputs,
    /// Quantisation of the weights; X and the state h are quantised then, too.
    pub(super) quantized: Option<Quantized>,
}

/// The places of the node's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Axes {
    pub(super) batch: usize,
    pub(super) time: usize,
    /// The axis of units in R.
    pub(super) units: usize,
    /// The axes of directions and batch in states.
    pub(super) states: [usize; 2],
    /// The axes of time, directions and batch in `Y`.
    pub(super) y: [usize; 3],
}

impl Layer {
    pub(super) fn axes(&self) -> Axes {
        let units = 2 - usize::from(self.quantized.is_some());
        match self.form.layout {
            Layout::BatchFirst => Axes {
                batch: 0,
                time: 1,
                units,
                states: [1, 0],
                y: [1, 2, 0],
            },
            Layout::TimeFirst => Axes {
                batch: 1,
                time: 0,
                units,
                states: [0, 1],
                y: [0, 1, 2],
            },
        }
    }

    /// The sizes that inputs other than X have to have.
    pub(super) fn expected(&self) -> TVec<(usize, ExpectedInput)> {
        let layer = &self.form.layer;
        let directions = Size::Known(layer.directions.len());
        let units = |times: usize| match layer.units {
            0 => Size::Units(times),
            units => Size::Known(units.saturating_mul(times)),
        };
        let gates = layer.cell.gates();
        let rows = units(gates);
        let state = match self.form.layout {
            Layout::BatchFirst => tvec![Size::Batch, directions, units(1)],
            Layout::TimeFirst => tvec![directions, Size::Batch, units(1)],
        };
        let Inputs {
            bias,
            lengths,
            initial_h,
            initial_c,
            peepholes,
        } = self.inputs;
        let mut w = tvec![directions, rows, Size::Features];
        let mut r = tvec![directions, rows, units(1)];
        if self.quantized.is_some() {
            w.swap(1, 2);
            r.swap(1, 2);
        }
        let (valid, of_valid) = match self.form.mask {
            Some(_) => ("mask", tvec![Size::Steps, Size::Batch]),
            None => ("sequence_lens", tvec![Size::Batch]),
        };
        let all = [
            (Some(1), "W", w),
            (Some(2), "R", r),
            (bias, "B", tvec![directions, units(2 * gates)]),
            (lengths, valid, of_valid),
            (initial_h, "initial_h", state.clone()),
            (initial_c, "initial_c", state),
            (peepholes, "P", tvec![directions, units(3)]),
        ];
        let all = all.into_iter();
        all.filter_map(|(input, name, sizes)| Some((input?, ExpectedInput { name, sizes })))
            .collect()
    }
}

/// A size that an input has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Size {
    Known(usize),
    Steps,
    Batch,
    Features,
    /// Number of units, this many times.
    Units(usize),
}

/// An input with the sizes that it has to have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExpectedInput {
    /// ONNX's name of the input.
    pub(super) name: &'static str,
    pub(super) sizes: TVec<Size>,
}

impl ExpectedInput {
    /// The sizes, from those of X and R.
    pub(super) fn of(&self, x: &[TDim], r: &[TDim], axes: &Axes) -> TVec<TDim> {
        let units = &r[axes.units];
        let sizes = self.sizes.iter().map(|size| match *size {
            Size::Known(size) => size.to_dim(),
            Size::Steps => x[axes.time].clone(),
            Size::Batch => x[axes.batch].clone(),
            Size::Features => x[2].clone(),
            Size::Units(times) => units.clone() * times,
        });
        sizes.collect()
    }

    pub(super) fn wrong(&self, shape: &[TDim], expected: &[TDim]) -> TractError {
        format_err!(
            "its {} has shape [{}], expected [{}]",
            self.name,
            shape.iter().join(","),
            expected.iter().join(",")
        )
    }
}
