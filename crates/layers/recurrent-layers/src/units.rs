//! The units that a thread computes, and the memory that their steps take.

use std::ops::Range;

use crate::bytes::QuantizedRows;
use crate::element::Element;
use crate::error::Error;
use crate::memory;
use crate::packed::{Direction, PackedLayer};
use crate::panels::block_units;
use crate::product::Rows;
use crate::sequences::Sequences;

/// The fewest rows, if available, of the products of inputs with weights: enough that weights are
/// read rarely, and few enough that the products stay in a cache until their steps.
const ROWS_AT_ONCE: usize = 128;

/// Some units of a direction and their states. Rows are sequences, as wide as the blocks of units.
#[derive(Clone, Debug)]
pub(crate) struct Units<T> {
    pub(crate) blocks: Range<usize>,
    /// The units in the blocks.
    pub(crate) range: Range<usize>,
    pub(crate) width: usize,
    pub(crate) batch: usize,
    /// The number of steps whose products with the inputs are computed at once.
    pub(crate) steps_at_once: usize,
    /// The steps with computed products.
    pub(crate) ready: Range<usize>,
    /// Contents of the slots before any product, [slots, width].
    pub(crate) bias: Vec<T>,
    /// The products with the weights: [steps at once, batch, slots, width].
    pub(crate) products: Vec<T>,
    pub(crate) h: Vec<T>,
    pub(crate) c: Vec<T>,
    /// The operand of products, if it is quantised.
    pub(crate) quantized: QuantizedRows,
    /// The inputs of some steps, if those of other sequences lie between them.
    pub(crate) inputs: Vec<T>,
}

// Derived, it would ask for `T: Default`.
impl<T> Default for Units<T> {
    fn default() -> Self {
        Self {
            blocks: 0..0,
            range: 0..0,
            width: 0,
            batch: 0,
            steps_at_once: 0,
            ready: 0..0,
            bias: vec![],
            products: vec![],
            h: vec![],
            c: vec![],
            quantized: QuantizedRows::default(),
            inputs: vec![],
        }
    }
}

impl<T: Element> Units<T> {
    /// Makes these some blocks of the units of a layer, for a run, with states of 0. A run takes no more memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn prepare(
        &mut self,
        layer: &PackedLayer<T>,
        direction: &Direction<T>,
        blocks: Range<usize>,
        sequences: &Sequences<'_, T>,
    ) -> Result<(), Error> {
        let (of_block, slots) = (block_units(layer.units), layer.cell.slots());
        let Sequences { batch, steps, .. } = *sequences;
        self.range = blocks.start * of_block..layer.units.min(blocks.end * of_block);
        self.width = blocks.len() * of_block;
        self.blocks = blocks;
        self.batch = batch;
        self.steps_at_once = ROWS_AT_ONCE.div_ceil(batch.max(1)).min(steps);
        self.ready = 0..0;
        memory::clear_to_zeros(&mut self.bias, &[slots, self.width])?;
        for (slot, bias) in self.bias.chunks_exact_mut(self.width).enumerate() {
            let of_slot = &direction.bias[slot * layer.units..][self.range.clone()];
            bias[..of_slot.len()].copy_from_slice(of_slot);
        }
        let rows = [self.steps_at_once, batch];
        let products = [rows[0], rows[1], slots, self.width];
        memory::clear_to_zeros(&mut self.products, &products)?;
        for state in [&mut self.h, &mut self.c] {
            memory::clear_to_zeros(state, &[batch, self.width])?;
        }
        if layer.quantizing.is_some() {
            let columns = layer.features.max(layer.units);
            self.quantized.make_room(rows[0] * rows[1], columns)?;
        } else if !sequences.are_dense(rows[0], layer.features) {
            memory::clear(&mut self.inputs, &[rows[0], rows[1], layer.features])?;
        }
        Ok(())
    }

    /// The range of these units, and the width of a row.
    pub(crate) fn place(&self) -> (Range<usize>, usize) {
        (self.range.clone(), self.width)
    }

    /// Sets the given states, which have a row of all units for each sequence.
    pub(crate) fn start(&mut self, initial: [Option<Rows<'_, T>>; 2]) {
        for (state, initial) in std::iter::zip([&mut self.h, &mut self.c], initial) {
            let Some(initial) = initial else { continue };
            for (item, to) in state.chunks_exact_mut(self.width).enumerate() {
                let from = &initial.elements[item * initial.stride..][self.range.clone()];
                to[..self.range.len()].copy_from_slice(from);
            }
        }
    }

    /// The units of the cell state of each sequence.
    pub(crate) fn cell(&self) -> Rows<'_, T> {
        Rows {
            elements: &self.c,
            count: self.batch,
            stride: self.width,
        }
    }
}
