//! The inputs of a run: from files, from a data set, or made up.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::features::Features;
use super::ranges;
use crate::cli::{NamedFile, ValueArguments};
use crate::model::read::Located;
use crate::model::values::{Dim, ValueType};
use crate::model::{Bindings, Input, Model};
use crate::note::note;
use crate::tensor::fill::{Accepted, Fill, fill};
use crate::tensor::{Tensor, Tensors, npz};

/// Reads the tensors of a data set. Each belongs to the value of the same name, or, without a
/// name, to the value at the same position.
pub(super) fn read_data_set(files: &[PathBuf], names: &[String]) -> Result<Tensors> {
    let mut tensors = Tensors::new();
    for (index, file) in files.iter().enumerate() {
        let (own_name, tensor) = Tensor::read_named(file)?;
        let name = match own_name.is_empty() {
            true => names.get(index).cloned(),
            false => names.contains(&own_name).then_some(own_name.clone()),
        };
        let name = name.with_context(|| {
            let what = match own_name.is_empty() {
                true => String::new(),
                false => format!(" named {own_name:?}"),
            };
            let names = list(names);
            format!(
                "{}: the model has none{what}; it has {names}",
                file.display()
            )
        })?;
        ensure!(
            tensors.insert(name.clone(), tensor).is_none(),
            "{}: {name:?} has been given already",
            file.display()
        );
    }
    Ok(tensors)
}

/// The inputs that a data set is for: those that have to be given, then the others.
pub(super) fn names(declared: &[Input]) -> Vec<String> {
    let declared_as = |optional: bool| declared.iter().filter(move |it| it.optional == optional);
    let all = declared_as(false).chain(declared_as(true));
    all.map(|input| input.name.clone()).collect()
}

/// Checks tensors against the model's declarations, and binds the symbolic sizes. Runtimes take one
/// name for sizes that differ, which exporters write: that is a note, unless the size was given.
pub(super) fn bind(declared: &[Input], tensors: &Tensors, bindings: &mut Bindings) -> Result<()> {
    let given = bindings.clone();
    let mut differing = BTreeSet::new();
    for input in declared {
        let Some(tensor) = tensors.get(&input.name) else {
            continue;
        };
        check(&input.bind(&given), tensor)
            .with_context(|| format!("input {:?} is {}", input.name, tensor.type_and_shape()))?;
        let shape = input.value_type.shape.iter().flatten();
        for (dim, &size) in std::iter::zip(shape, tensor.shape()) {
            if let Dim::Symbol(name) = dim {
                let bound = *bindings.entry(name.clone()).or_insert(size as u64);
                if bound != size as u64 && differing.insert(name) {
                    note(format!(
                        "{name:?} names sizes that differ: it is {bound}, and {size} in input {:?}",
                        input.name
                    ));
                }
            }
        }
    }
    Ok(())
}

fn check(declared: &ValueType, tensor: &Tensor) -> Result<()> {
    let code = tensor.element_type().onnx_code();
    let is_type = declared.element_type.is_none_or(|it| it == code);
    let sizes = tensor.shape();
    let is_shape = declared.shape.as_ref().is_none_or(|shape| {
        let is_size = |(dim, &size): (&Dim, &usize)| dim.size().is_none_or(|it| it == size as u64);
        shape.len() == sizes.len() && std::iter::zip(shape, sizes).all(is_size)
    });
    ensure!(is_type && is_shape, "expected {declared}");
    Ok(())
}

/// Sources of inputs.
#[derive(Default)]
pub(crate) struct Sources<'a> {
    pub(crate) files: &'a [NamedFile],
    pub(crate) fill: Option<Fill>,
    /// The fills of inputs by name; entries without a name are ignored.
    pub(crate) fill_by_name: &'a [(Option<String>, Fill)],
    /// The tensors that are already known, by name.
    pub(crate) tensors: Tensors,
    /// The files of a data set, for inputs that are not given otherwise.
    pub(crate) data_set: Option<&'a [PathBuf]>,
}

impl<'a> Sources<'a> {
    /// The sources that the arguments name.
    pub(crate) fn new(arguments: &'a ValueArguments) -> Self {
        Self {
            files: &arguments.inputs,
            fill: arguments.fill(),
            fill_by_name: &arguments.fill,
            ..Self::default()
        }
    }

    /// The same, where inputs that are not given are those of the model's first data set, or random if it has
    /// none.
    pub(super) fn of(arguments: &'a ValueArguments, located: &'a Located) -> Self {
        let data_set = located.data_sets.first();
        let sources = Self::new(arguments);
        Self {
            fill: match data_set {
                Some(_) => sources.fill,
                None => sources.fill.or(Some(Fill::Random(0))),
            },
            data_set: data_set.map(|set| set.inputs.as_slice()),
            ..sources
        }
    }

    /// The fill that an input's name has.
    fn fill_of(&self, input: &str) -> Option<Fill> {
        let named = |(name, _): &&(Option<String>, Fill)| name.as_deref() == Some(input);
        let mut fills = self.fill_by_name.iter();
        fills.rfind(named).map(|(_, fill)| *fill)
    }
}

/// Checks that there is an input of a name.
fn check_name(flag: &str, name: &str, declared: &[Input]) -> Result<()> {
    ensure!(
        declared.iter().any(|input| input.name == name),
        "{flag}: there is no input {name:?}; {}",
        describe(declared)
    );
    Ok(())
}

/// Reads the inputs that files hold. An array of an archive gives way to a file for its input.
fn from_files(files: &[NamedFile], declared: &[Input]) -> Result<Tensors> {
    let (mut tensors, mut archived) = (Tensors::new(), Tensors::new());
    let is_input = |name: &str| declared.iter().any(|input| input.name == name);
    for named in files {
        let (name, file) = named.split(is_input);
        let (all, read) = match name {
            None if npz::has_ending(file) => (&mut archived, from_archive(file, declared)?),
            None => {
                let (own_name, tensor) = Tensor::read_named(file)?;
                let name = match is_input(&own_name) {
                    true => own_name,
                    false => only(declared, file)?,
                };
                (&mut tensors, [(name, tensor)].into())
            }
            Some(name) => {
                check_name("--input", name, declared)?;
                let tensor = Tensor::read(file)?;
                (&mut tensors, [(name.to_owned(), tensor)].into())
            }
        };
        for (name, tensor) in read {
            ensure!(
                all.insert(name.clone(), tensor).is_none(),
                "--input: {name:?} is given twice"
            );
        }
    }
    for (name, tensor) in archived {
        tensors.entry(name).or_insert(tensor);
    }
    Ok(tensors)
}

/// The only input that has to be given, for a file without a name.
fn only(declared: &[Input], file: &Path) -> Result<String> {
    let mut required = declared.iter().filter(|input| !input.optional);
    match (required.next(), required.next()) {
        (Some(input), None) => Ok(input.name.clone()),
        _ => bail!(
            "--input {}: which input is it for? {}; say it with --input NAME=FILE",
            file.display(),
            describe(declared)
        ),
    }
}

/// The arrays of an archive that are inputs.
fn from_archive(file: &Path, declared: &[Input]) -> Result<Tensors> {
    let (inputs, others): (Tensors, Tensors) = npz::read(file)?
        .into_iter()
        .partition(|(name, _)| declared.iter().any(|input| input.name == *name));
    let others: Vec<String> = others.into_keys().collect();
    ensure!(
        others.is_empty() || !inputs.is_empty(),
        "--input {}: it has {}; {}",
        file.display(),
        list(&others),
        describe(declared)
    );
    if !others.is_empty() {
        let (file, others) = (file.display(), list(&others));
        note(format!(
            "{file}: not used, as no input has its name: {others}"
        ));
    }
    Ok(inputs)
}

/// Gathers a tensor for every input that needs one; the sizes of those that are made up are known.
pub(crate) fn gather(
    model: &Model,
    sources: &Sources<'_>,
    bindings: &mut Bindings,
) -> Result<Tensors> {
    let known = known(model, sources, bindings)?;
    with_made_up(model, sources, known, bindings)
}

/// Returns the inputs that are not made up, and binds all sizes that they and weights fix.
pub(super) fn known(
    model: &Model,
    sources: &Sources<'_>,
    bindings: &mut Bindings,
) -> Result<Tensors> {
    let declared = model.inputs();
    let mut tensors = sources.tensors.clone();
    tensors.extend(from_files(sources.files, &declared)?);
    if let (Some(files), None) = (sources.data_set, sources.fill) {
        for (name, tensor) in read_data_set(files, &names(&declared))? {
            if sources.fill_of(&name).is_none() {
                tensors.entry(name).or_insert(tensor);
            }
        }
    }
    bind(&declared, &tensors, bindings)?;
    let missing = missing(model, &tensors);
    for (name, size) in Features::of(model, &missing, bindings).fixed {
        bindings.entry(name).or_insert(size);
    }
    Ok(tensors)
}

/// Returns the inputs that are known, and makes the others up.
pub(super) fn with_made_up(
    model: &Model,
    sources: &Sources<'_>,
    mut tensors: Tensors,
    bindings: &Bindings,
) -> Result<Tensors> {
    let declared = model.inputs();
    for (name, _) in sources.fill_by_name {
        if let Some(name) = name {
            check_name("--fill", name, &declared)?;
        }
    }
    let missing = missing(model, &tensors);
    if missing.is_empty() {
        return Ok(tensors);
    }
    let how = |input: &Input| sources.fill_of(&input.name).or(sources.fill);
    let unfilled = missing.iter().filter(|&input| how(input).is_none());
    let unfilled: Vec<String> = unfilled.map(|input| format!("{:?}", input.name)).collect();
    if !unfilled.is_empty() {
        let missing = match unfilled.as_slice() {
            [name] => format!("input {name} is missing"),
            names => format!("inputs {} are missing", names.join(", ")),
        };
        bail!(
            "{missing}; {}; give each with --input NAME=FILE (.pb or .npy), all with --input \
             FILE.npz, or make them up with --fill iota, random or zeros",
            describe(&declared)
        );
    }
    let accepted = ranges::accepted(model, bindings);
    for (input, how) in missing.iter().filter_map(|it| Some((it, how(it)?))) {
        let number = declared.iter().position(|it| it.name == input.name);
        let number = number.unwrap_or(0);
        let accepted = accepted.get(&input.name).copied();
        let tensor = made_up(how, input, number as u64, accepted, bindings)
            .with_context(|| format!("input {:?}", input.name))?;
        tensors.insert(input.name.clone(), tensor);
    }
    Ok(tensors)
}

/// The inputs that have to be given, and are not.
pub(super) fn missing(model: &Model, given: &Tensors) -> Vec<Input> {
    let mut inputs = model.inputs();
    inputs.retain(|it| !it.optional && !given.contains_key(&it.name));
    inputs
}

fn made_up(
    how: Fill,
    input: &Input,
    number: u64,
    accepted: Option<Accepted>,
    bindings: &Bindings,
) -> Result<Tensor> {
    let declared = input.bind(bindings);
    let element_type = declared
        .known_element_type()
        .with_context(|| format!("--fill cannot make {declared}: give it with --input"))?;
    let shape = declared.shape.as_ref().with_context(|| {
        format!(
            "--fill cannot make {declared}: give it with --input {}=FILE",
            input.name
        )
    })?;
    let sizes = shape.iter().map(|dim| {
        let size = dim.size();
        let size = size.with_context(|| {
            format!("--fill cannot make {declared}: give its open sizes with --dim NAME=SIZE")
        })?;
        Ok(usize::try_from(size)?)
    });
    let sizes: Vec<usize> = sizes.collect::<Result<_>>()?;
    fill(how, element_type, &sizes, number, accepted)
}

/// All inputs with their types, for messages.
fn describe(inputs: &[Input]) -> String {
    if inputs.is_empty() {
        return "the model has no inputs".to_owned();
    }
    let described: Vec<String> = inputs
        .iter()
        .map(|input| {
            let optional = if input.optional {
                " (has a default)"
            } else {
                ""
            };
            format!("{}: {}{optional}", input.name, input.value_type)
        })
        .collect();
    format!("the inputs are {}", described.join(", "))
}

/// Names for messages.
pub(super) fn list(names: &[String]) -> String {
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}

/// The context that names the model in errors.
pub(super) fn in_model(model: &Path) -> impl Fn() -> String + '_ {
    move || model.display().to_string()
}
