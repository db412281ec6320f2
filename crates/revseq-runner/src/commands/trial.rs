//! Sizes at which a model that leaves sizes open is tried.
//!
//! Some models have no plan for all sizes, such as one whose If depends on a size. The sizes at which
//! they run are not declared, so a few are tried: the first axis of each input, which is most often a
//! batch, has one element, and all others have the same number; or only the last axis of the first
//! input has more than one.

use anyhow::{Result, ensure};
use revseq_onnx::tensor::element_size;
use revseq_tract::Execution;

use super::features::Axis;
use super::inputs::{Sources, gather};
use crate::backend::tract::Tract;
use crate::model::values::Dim;
use crate::model::{Bindings, Model};
use crate::tensor::fill::Fill;

/// The numbers that axes have by turns. Images and blocks of sound have powers of two.
const SIZES: [u64; 7] = [512, 64, 256, 16, 128, 8, 1];

/// The most bytes of the inputs of a trial: they are made, twice, to say what a model is for.
const MAXIMUM_BYTES: u64 = 256 << 20;

/// Sizes, by the names that `--dim` takes, and how loops and layers run with them.
pub(super) struct Trial {
    pub(super) sizes: Vec<(String, u64)>,
    pub(super) executions: Vec<Execution>,
}

/// Returns the first sizes at which tract takes a model; `None` if it takes the model at none of them.
///
/// The model is not run: its inputs hold zeros.
pub(super) fn first(tract: &Tract, model: &Model, bindings: &Bindings) -> Option<Trial> {
    let open = open_sizes(model, bindings);
    let main = open.first()?.input;
    let main = open.iter().rposition(|it| it.input == main);
    let long: [Vec<bool>; 2] = [
        open.iter().map(|it| !it.is_first).collect(),
        (0..open.len()).map(|index| Some(index) == main).collect(),
    ];
    let choices = long.iter().flat_map(|long| SIZES.map(|size| (long, size)));
    let mut tried = choices.map(|(long, size)| {
        let sizes = std::iter::zip(&open, long);
        let sizes = sizes.map(|(it, &is_long)| (it.name.clone(), if is_long { size } else { 1 }));
        sizes.collect()
    });
    tried.find_map(|sizes| attempt(tract, model, bindings, sizes).ok())
}

/// A size that a model leaves open.
pub(super) struct OpenSize {
    /// The name that `--dim` takes.
    pub(super) name: String,
    /// The axis of an input that it is the size of, if it has no name of its own.
    pub(super) unnamed: Option<Axis>,
    /// Whether it is the size of an input's first axis.
    pub(super) is_first: bool,
    /// The index of the first input that has it.
    input: usize,
}

/// Returns the sizes that a model leaves open, each once.
pub(super) fn open_sizes(model: &Model, bindings: &Bindings) -> Vec<OpenSize> {
    let mut open: Vec<OpenSize> = Vec::new();
    let inputs = model.inputs().into_iter().filter(|input| !input.optional);
    for (input, declared) in inputs.enumerate() {
        let shape = declared.value_type.bind(bindings).shape;
        for (axis, dim) in shape.into_iter().flatten().enumerate() {
            let (name, unnamed) = match dim {
                Dim::Known(_) => continue,
                Dim::Symbol(name) => (name, None),
                Dim::Computed { .. } | Dim::Unknown => {
                    let name = format!("{}.{axis}", declared.name);
                    (name, Some((declared.name.clone(), axis)))
                }
            };
            match open.iter_mut().find(|it| it.name == name) {
                Some(same) => same.is_first |= axis == 0,
                None => open.push(OpenSize {
                    name,
                    unnamed,
                    is_first: axis == 0,
                    input,
                }),
            }
        }
    }
    open
}

fn attempt(
    tract: &Tract,
    model: &Model,
    bindings: &Bindings,
    sizes: Vec<(String, u64)>,
) -> Result<Trial> {
    let mut model = model.whole();
    let mut all = bindings.clone();
    all.extend(model.set_sizes(&sizes)?);
    ensure!(
        input_bytes(&model, &all) <= MAXIMUM_BYTES,
        "its inputs are too large to be made for a trial"
    );
    let sources = Sources {
        fill: Some(Fill::Zeros),
        ..Sources::default()
    };
    let inputs = gather(&model, &sources, &mut all)?;
    let loaded = tract.read(&model)?.map_err(anyhow::Error::msg)?;
    let executions = loaded.prepare(&inputs)?.executions();
    Ok(Trial { sizes, executions })
}

/// The bytes of a model's inputs, of at least one each; sizes that are not known count as 1.
fn input_bytes(model: &Model, bindings: &Bindings) -> u64 {
    let inputs = model.inputs().into_iter().filter(|input| !input.optional);
    let bytes = inputs.map(|input| {
        let known = input.value_type.bind(bindings);
        let element = known.element_type.and_then(element_size).unwrap_or(1);
        let sizes = known.shape.into_iter().flatten();
        let sizes = sizes.map(|dim| dim.size().unwrap_or(1));
        sizes.fold(element as u64, u64::saturating_mul)
    });
    bytes.fold(0, u64::saturating_add)
}
