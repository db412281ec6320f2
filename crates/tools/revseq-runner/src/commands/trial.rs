//! Sizes at which a model that leaves sizes open is tried.
//!
//! Models that leave sizes open need not take all: an image has to be large enough, and some have no plan
//! for all sizes, such as one whose If depends on a size. So a few are tried: the first axis of each input,
//! which is most often a batch, has one element, and all others have the same number; or only the last
//! axis of the first input has more than one. Axes that are known to count steps or sequences have a few of
//! them, unless the model takes none of these sizes.

use anyhow::{Result, anyhow};
use revseq_onnx::tensor::element_size;
use revseq_tract::Execution;

use super::features::{Counted, Features};
use super::inputs::{self, Sources};
use crate::backend::tract::Tract;
use crate::model::{Bindings, Model};
use crate::note::note;
use crate::tensor::Tensors;
use crate::tensor::fill::Fill;
use crate::units::bytes;

/// The numbers that axes have by turns. Images and blocks of sound have powers of two.
const SIZES: [u64; 7] = [512, 64, 256, 16, 128, 8, 1];

/// The most bytes of inputs of sizes that are made up.
const MAXIMUM_BYTES: u64 = 256 << 20;

/// Numbers of steps and of sequences, where it is known that an axis counts these.
#[derive(Clone, Copy)]
pub(super) struct Sequences {
    steps: u64,
    sequences: u64,
}

/// A few, with which all lengths are different.
pub(super) const FEW: Sequences = Sequences {
    steps: 7,
    sequences: 2,
};

/// As many as a service may have.
pub(super) const MANY: Sequences = Sequences {
    steps: 100,
    sequences: 1,
};

/// Sizes by the names that `--dim` takes.
pub(super) type Sizes = Vec<(String, u64)>;

/// The sizes in words.
pub(super) fn in_words(sizes: &Sizes) -> String {
    if sizes.is_empty() {
        return "made-up inputs".to_owned();
    }
    let sizes = sizes.iter().map(|(name, size)| format!("{name}={size}"));
    sizes.collect::<Vec<_>>().join(", ")
}

/// Gathers the inputs of a model and runs it; sizes that nothing determines are made up, which is noted.
///
/// # Errors
/// Those of the inputs; the first error of `run` if it takes the model at no sizes.
pub(crate) fn run<T>(
    sequences: Sequences,
    model: &Model,
    sources: &Sources<'_>,
    bindings: &Bindings,
    run: impl FnMut(&Tensors) -> Result<T>,
) -> Result<(Tensors, T)> {
    let (tensors, ran, sizes) = first(sequences, model, sources, bindings, run)?;
    if !sizes.is_empty() {
        let (path, sizes) = (model.path.display(), in_words(&sizes));
        note(format!("{path}: made-up sizes {sizes}; --dim sets others"));
    }
    Ok((tensors, ran))
}

/// Returns the first sizes at which tract takes a model, which is not run, with inputs of zeros, and how loops
/// and layers run with them; `None` if it takes the model at none of them.
pub(super) fn on_tract(
    tract: &Tract,
    model: &Model,
    bindings: &Bindings,
) -> Option<(Vec<Execution>, Sizes)> {
    let loaded = tract.read(model).ok()?.ok()?;
    let sources = Sources {
        fill: Some(Fill::Zeros),
        ..Sources::default()
    };
    let prepare = |inputs: &Tensors| Ok(loaded.plan(inputs)?.0.executions());
    let (_, executions, sizes) = first(FEW, model, &sources, bindings, prepare).ok()?;
    Some((executions, sizes))
}

/// Returns the inputs of the first sizes at which a model runs, the result, and the sizes that are made up.
fn first<T>(
    sequences: Sequences,
    model: &Model,
    sources: &Sources<'_>,
    bindings: &Bindings,
    mut run: impl FnMut(&Tensors) -> Result<T>,
) -> Result<(Tensors, T, Sizes)> {
    let mut bindings = bindings.clone();
    let known = inputs::known(model, sources, &mut bindings)?;
    let open = open_sizes(model, &known, &bindings);
    let (mut first, mut least) = (None, u64::MAX);
    for sizes in choices(&open, sequences) {
        let mut all = bindings.clone();
        all.extend(sizes.iter().cloned());
        let size = input_bytes(model, &all);
        if !sizes.is_empty() && size > MAXIMUM_BYTES {
            least = least.min(size);
            continue;
        }
        let tensors = inputs::with_made_up(model, sources, known.clone(), &all)?;
        match run(&tensors) {
            Ok(ran) => return Ok((tensors, ran, sizes)),
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    Err(first.unwrap_or_else(|| {
        let (least, most) = (bytes(least), bytes(MAXIMUM_BYTES));
        anyhow!(
            "its inputs would have {least} or more, and at most {most} are made up: give smaller sizes by \
             --dim, or --input"
        )
    }))
}

/// The sizes that are tried, in order; none at once if none are open.
fn choices(open: &[OpenSize], sequences: Sequences) -> Vec<Sizes> {
    let Some(main) = open.first().map(|it| it.input) else {
        return vec![Sizes::new()];
    };
    let main = open.iter().rposition(|it| it.input == main);
    let long: [Vec<bool>; 2] = [
        open.iter().map(|it| !it.is_first).collect(),
        (0..open.len()).map(|index| Some(index) == main).collect(),
    ];
    let of = |long: &[bool], size: u64, knows: bool| -> Sizes {
        let sizes = std::iter::zip(open, long);
        let sizes = sizes.map(|(it, &is_long)| {
            let size = match it.counted.filter(|_| knows) {
                Some(Counted::Steps) => sequences.steps,
                Some(Counted::Sequences) => sequences.sequences,
                None if is_long => size,
                None => 1,
            };
            (it.name.clone(), size)
        });
        sizes.collect()
    };
    let mut choices = Vec::new();
    for knows in [true, false] {
        for long in &long {
            choices.extend(SIZES.map(|size| of(long, size, knows)));
        }
    }
    choices.dedup();
    choices
}

/// A size that a model leaves open.
pub(super) struct OpenSize {
    /// The name that `--dim` takes.
    pub(super) name: String,
    /// Whether it is the size of an input's first axis.
    pub(super) is_first: bool,
    /// What it counts, if that is known.
    counted: Option<Counted>,
    /// The index of the first input that has it.
    input: usize,
}

/// Returns the sizes of inputs that are not given which a model leaves open, each once.
pub(super) fn open_sizes(model: &Model, given: &Tensors, bindings: &Bindings) -> Vec<OpenSize> {
    let mut open: Vec<OpenSize> = Vec::new();
    let inputs = inputs::missing(model, given);
    let counted = Features::of(model, &inputs, bindings).counted;
    for (input, declared) in inputs.iter().enumerate() {
        for (axis, name) in declared.open_axes(bindings) {
            match open.iter_mut().find(|it| it.name == name) {
                Some(same) => same.is_first |= axis == 0,
                None => open.push(OpenSize {
                    counted: counted.get(&name).copied(),
                    name,
                    is_first: axis == 0,
                    input,
                }),
            }
        }
    }
    open
}

/// The bytes of a model's inputs, of at least one each; sizes that are not known count as 1.
fn input_bytes(model: &Model, bindings: &Bindings) -> u64 {
    let inputs = model.inputs().into_iter().filter(|input| !input.optional);
    let bytes = inputs.map(|input| {
        let known = input.bind(bindings);
        let element = known.element_type.and_then(element_size).unwrap_or(1);
        let sizes = known.shape.into_iter().flatten();
        let sizes = sizes.map(|dim| dim.size().unwrap_or(1));
        sizes.fold(element as u64, u64::saturating_mul)
    });
    bytes.fold(0, u64::saturating_add)
}
