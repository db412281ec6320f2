//! Inputs that are made up to compare two models on.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::cli::ValueArguments;
use crate::commands::inputs::{self, Sources};
use crate::commands::trial::{OpenSize, open_sizes};
use crate::model::values::Dim;
use crate::model::{Bindings, Model};
use crate::tensor::fill::Fill;
use crate::tensor::{Data, Tensor, Tensors};

/// Inputs, with their description.
pub(super) struct Inputs {
    pub(super) name: String,
    pub(super) tensors: Tensors,
}

/// The sizes that made-up inputs have where the model leaves them open, by
/// turns; two sets of them.
const SIZES: [[u64; 4]; 2] = [[3, 7, 5, 4], [2, 12, 6, 3]];

/// Open sizes that are given one number. Exporters name sizes that have to agree differently.
#[derive(Clone, Copy)]
pub(super) enum Agreement {
    /// None: each has its own.
    None,
    /// Sizes of the inputs' first axes.
    FirstAxes,
    All,
}

impl Agreement {
    /// All, in the order in which they are tried.
    pub(super) const ALL: [Self; 3] = [Self::None, Self::FirstAxes, Self::All];

    /// Gives a number to each size that is open; `known` has those that are not.
    fn sizes(
        self,
        model: &Model,
        open: &[OpenSize],
        sizes: [u64; 4],
        known: &Bindings,
    ) -> Bindings {
        let firsts: BTreeSet<String> = model
            .inputs()
            .into_iter()
            .filter_map(|input| match input.value_type.shape?.into_iter().next()? {
                Dim::Symbol(name) => Some(name),
                _ => None,
            })
            .collect();
        // A size that is given holds for those that agree with it.
        let given = firsts.iter().find_map(|name| known.get(name).copied());
        let first = given.or(sizes.first().copied());
        let mut others = sizes.iter().copied().cycle();
        let mut made = known.clone();
        for it in open {
            let size = match self {
                Self::None => others.next(),
                Self::FirstAxes if !it.is_first => others.nth(1),
                Self::FirstAxes | Self::All => first,
            };
            made.extend(size.map(|size| (it.name.clone(), size)));
        }
        made
    }
}

/// Inputs in the making.
pub(super) struct MadeUp<'a> {
    model: &'a Model,
    values: &'a ValueArguments,
    given: Tensors,
    /// The sizes that are given, or that weights fix.
    known: Bindings,
    open: Vec<OpenSize>,
}

impl<'a> MadeUp<'a> {
    /// Reads what is given; `sizes` are those of `--dim`.
    pub(super) fn new(
        model: &'a Model,
        values: &'a ValueArguments,
        sizes: &Bindings,
    ) -> Result<Self> {
        let mut known = sizes.clone();
        let given = inputs::known(model, &Sources::new(values), &mut known)?;
        let mut open = open_sizes(model, &given, &known);
        open.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self {
            model,
            values,
            given,
            known,
            open,
        })
    }

    /// The names that `--dim` takes of the sizes that are made up.
    pub(super) fn sizes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.open.iter().map(|it| it.name.as_str())
    }

    /// Returns inputs of two sizes, random unless they are given, unchanged and zero-padded after
    /// different lengths.
    pub(super) fn inputs(&self, agreement: Agreement) -> Result<Vec<Inputs>> {
        let mut all = Vec::new();
        for (seed, sizes) in SIZES.into_iter().enumerate() {
            let sizes = agreement.sizes(self.model, &self.open, sizes, &self.known);
            let sources = Sources {
                fill: self.values.fill().or(Some(Fill::Random(seed as u64))),
                fill_by_name: &self.values.fill,
                ..Sources::default()
            };
            let tensors = inputs::with_made_up(self.model, &sources, self.given.clone(), &sizes)?;
            if tensors.len() == self.given.len() {
                let name = "the given inputs".to_owned();
                return Ok(vec![Inputs { name, tensors }]);
            }
            let padded = tensors.iter().map(|(name, tensor)| {
                let padded = match self.given.contains_key(name) {
                    true => tensor.clone(),
                    false => pad(tensor)?,
                };
                Ok((name.clone(), padded))
            });
            let padded = padded.collect::<Result<Tensors>>()?;
            let name = |what: &str| format!("made-up inputs {what}{}", seed + 1);
            all.push(Inputs {
                name: name(""),
                tensors,
            });
            all.push(Inputs {
                name: name("with padding "),
                tensors: padded,
            });
        }
        Ok(all)
    }
}

/// The same with zeros after different lengths along the second axis, as
/// sequences of several lengths are padded.
fn pad(tensor: &Tensor) -> Result<Tensor> {
    let (&[sequences, steps, ..], Data::Fixed(data_type, bytes)) = (tensor.shape(), tensor.data())
    else {
        return Ok(tensor.clone());
    };
    if bytes.is_empty() {
        return Ok(tensor.clone());
    }
    let mut bytes = bytes.clone();
    let step = bytes.len() / (sequences * steps);
    for sequence in 0..sequences {
        let length = steps - sequence * 2 % steps;
        let start = (sequence * steps + length) * step;
        let end = (sequence + 1) * steps * step;
        if let Some(padding) = bytes.get_mut(start..end) {
            padding.fill(0);
        }
    }
    Tensor::new(tensor.shape().to_vec(), Data::Fixed(*data_type, bytes))
}
