//! A model that is ready to run.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use revseq_graph::LruCache;
use revseq_tract_operators::{Execution, Interrupt, run_comparing_shapes};
use tract_onnx::pb::{TensorProto, ValueInfoProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::source::TypedSource;
use tract_onnx::tract_core::runtime::RunOptions;
use tract_onnx::tract_hir::internal::*;

use super::values::{self, ValueInfo};
use super::words::{self, Nodes};
use super::{Inputs, Outputs, constant_inputs};
use crate::LoadOptions;
use crate::error::{Error, ErrorKind};
use crate::read::bounded::Maker;
use crate::read::inference::declared_fact;
use crate::read::{Source, bounded};
use crate::threads::{self, Threads};

/// The most nodes that tract orders for little memory, which takes a time that grows with their
/// square; more keep the order in which outputs need them.
const MAXIMUM_ORDERED: usize = 1 << 13;

/// A model that is ready for inputs of certain types and sizes, or of any sizes.
///
/// [`Session::plan`](crate::Session::plan) makes it.
#[derive(Debug)]
pub struct Plan {
    runnable: Arc<TypedRunnableModel>,
    /// The names of the inputs, in the plan's order.
    inputs: Vec<String>,
    /// The inputs whose values are part of the plan.
    constants: Inputs,
    outputs: Arc<[ValueInfo]>,
    nodes: Arc<Nodes>,
    threads: Threads,
    /// The values whose sizes depend on the inputs'.
    open: Vec<Open>,
    limit: Option<u64>,
    /// The most time of a run.
    time: Option<Duration>,
    /// The sizes of inputs for which all values stay within the limit, and had the shapes of their facts
    /// in a run.
    checked: LruCache<Vec<TVec<usize>>>,
    /// The same of a plan whose sizes are all known.
    is_checked: AtomicBool,
}

/// A value whose sizes depend on the inputs'.
#[derive(Debug)]
struct Open {
    /// The name of its node.
    node: String,
    is_input: bool,
    fact: TypedFact,
}

/// The sizes that a plan is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum For<'a> {
    /// Any that the model declares.
    Declared,
    /// The sizes of these inputs, of which some are to be part of the plan.
    Inputs(&'a Inputs, &'a Inputs),
}

impl Plan {
    pub(super) fn new(
        source: &Source,
        inputs: For<'_>,
        options: &LoadOptions,
        outputs: &Arc<[ValueInfo]>,
        nodes: &Arc<Nodes>,
    ) -> TractResult<Self> {
        let (names, constants, inference) = parse(source, inputs, options)?;
        let limit = options.maximum_bytes();
        let typed = crate::into_typed(inference)?;
        let mut open = Vec::new();
        for node in typed.nodes() {
            for output in &node.outputs {
                match output.fact.shape.as_concrete() {
                    Some(shape) => {
                        let maker = Maker::of(&node.name, node.op_is::<TypedSource>());
                        bounded::check(maker, output.fact.datum_type, shape, limit)?;
                    }
                    None => open.push(Open {
                        node: node.name.clone(),
                        is_input: node.op_is::<TypedSource>(),
                        fact: output.fact.without_value(),
                    }),
                }
            }
        }
        let runnable = threads::alone(|| {
            let optimized = crate::into_optimized(typed)?;
            let options = RunOptions {
                skip_order_opt_ram: optimized.nodes().len() > MAXIMUM_ORDERED,
                ..RunOptions::default()
            };
            optimized.into_runnable_with_options(&options)
        })?;
        Ok(Self {
            runnable,
            inputs: names,
            constants,
            outputs: Arc::clone(outputs),
            nodes: Arc::clone(nodes),
            threads: options.threads.clone(),
            open,
            limit,
            time: options.maximum_time(),
            checked: LruCache::default(),
            is_checked: AtomicBool::new(false),
        })
    }

    /// tract's runnable model, for its own tools. It knows no names: [`values`](Self::values) puts
    /// inputs in its order.
    #[must_use]
    pub fn runnable(&self) -> &Arc<TypedRunnableModel> {
        &self.runnable
    }

    /// Returns how each loop and recurrent layer runs.
    #[must_use]
    pub fn executions(&self) -> Vec<Execution> {
        revseq_tract_operators::executions(self.runnable.model())
    }

    /// Whether the plan is for inputs of these values.
    pub(super) fn has_constants_of(&self, inputs: &Inputs) -> bool {
        let mut constants = self.constants.iter();
        constants.all(|(name, value)| inputs.get(name) == Some(value))
    }

    /// Whether sizes of the plan's values depend on those of its inputs.
    pub(super) fn is_symbolic(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether the plan is for inputs of these names: a default of an input that is left out is part of
    /// it.
    pub(super) fn takes(&self, inputs: &Inputs) -> bool {
        let mut names = self.inputs.iter().chain(self.constants.keys());
        inputs.len() == self.inputs.len() + self.constants.len()
            && names.all(|name| inputs.contains_key(name))
    }

    /// Whether the plan is for inputs of these types and sizes.
    pub(super) fn is_for(&self, inputs: &Inputs) -> bool {
        let model = self.runnable.model();
        let outlets = model.input_outlets().unwrap_or_default();
        let fits = |(name, outlet): (&String, &OutletId)| {
            let fact = model.outlet_fact(*outlet).ok();
            inputs.get(name).zip(fact).is_some_and(|(value, fact)| {
                fact.datum_type == value.datum_type()
                    && fact.shape.as_concrete() == Some(value.shape())
            })
        };
        self.takes(inputs)
            && std::iter::zip(&self.inputs, outlets).all(fits)
            && self.has_constants_of(inputs)
    }

    /// The inputs in the order of [`runnable`](Self::runnable).
    ///
    /// # Errors
    /// One is missing, or is none of the plan's, or has other values than those that are part of the plan.
    pub fn values(&self, inputs: &Inputs) -> Result<TVec<TValue>, Error> {
        if let Some(name) = inputs.keys().find(|name| !self.has_input(name)) {
            let names = &self.inputs;
            return Err(Error::new(
                ErrorKind::Input,
                format!("the model was made ready without input {name:?}, for {names:?}"),
            ));
        }
        for (name, constant) in &self.constants {
            if inputs.get(name) != Some(constant) {
                return Err(Error::new(
                    ErrorKind::Input,
                    format!(
                        "input {name:?} has other values than those that the model was made ready for"
                    ),
                ));
            }
        }
        let values = self.inputs.iter().map(|name| {
            let value = inputs.get(name).cloned();
            value.ok_or_else(|| super::missing(name))
        });
        values.collect()
    }

    /// Runs the model.
    ///
    /// # Errors
    /// An input is missing, or a node does not take a value.
    pub fn run(&self, inputs: &Inputs) -> Result<Outputs, Error> {
        let outputs = std::iter::zip(self.run_each(inputs)?, &*self.outputs)
            .map(|(output, declared)| Ok((declared.name.clone(), output?)));
        outputs.collect::<Result<_, Error>>().map(Outputs)
    }

    /// Runs the model, and returns each output, in order, or why it has no value.
    ///
    /// # Errors
    /// As those of [`run`](Self::run).
    pub fn run_each(&self, inputs: &Inputs) -> Result<Vec<Result<TValue, Error>>, Error> {
        let values = self.run_checked(self.values(inputs)?)?;
        let outputs = std::iter::zip(values, &*self.outputs);
        let outputs = outputs.map(|(value, declared)| values::in_numbers(value, declared));
        Ok(outputs.collect())
    }

    /// Runs the model on inputs in the plan's order, and returns outputs as tract has them: sizes
    /// may be of its own type.
    ///
    /// # Errors
    /// A node does not take a value.
    pub fn run_values(&self, values: TVec<TValue>) -> Result<TVec<TValue>, Error> {
        self.fenced(|| revseq_tract_operators::run(&mut self.runnable.spawn()?, values))
    }

    /// Calls tract for this plan, on the session's threads; errors are in ONNX's words, and a panic
    /// is an error. An [`Interrupt`] of the calling thread ends it.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn fenced<T: Send>(&self, run: impl FnOnce() -> TractResult<T> + Send) -> Result<T, Error> {
        let nodes = self.runnable.model().nodes().len();
        let interrupt = match self.time {
            Some(time) => Some(Interrupt::current().unwrap_or_default().with_time(time)),
            None => Interrupt::current(),
        };
        // It may run on another thread.
        let result = self.threads.run(nodes, || match interrupt {
            Some(interrupt) => interrupt.scope(run),
            None => run(),
        });
        result.map_err(|error| words::of_run(error, &self.nodes))
    }

    /// Runs the model on inputs in the plan's order. For inputs of new sizes, those of all values are
    /// compared with the limit before, and with the facts of the plan on the way.
    fn run_checked(&self, values: TVec<TValue>) -> Result<TVec<TValue>, Error> {
        if self.open.is_empty() {
            if self.is_checked.load(Relaxed) {
                return self.run_values(values);
            }
            let outputs = self.run_comparing(values)?;
            self.is_checked.store(true, Relaxed);
            return Ok(outputs);
        }
        let sizes: Vec<TVec<usize>> = values.iter().map(|it| it.shape().into()).collect();
        let (mut values, mut outputs) = (Some(values), None);
        let run_first = || {
            let checked = self.check_limit(&sizes);
            checked.map_err(|error| words::of_preparation(error, &self.nodes))?;
            outputs = Some(self.run_comparing(values.take().unwrap_or_default())?);
            Ok(sizes.clone())
        };
        self.checked
            .get_or_try_insert(|it| *it == sizes, run_first)?;
        match (outputs, values) {
            (None, Some(values)) => self.run_values(values),
            (outputs, _) => Ok(outputs.unwrap_or_default()),
        }
    }

    fn run_comparing(&self, values: TVec<TValue>) -> Result<TVec<TValue>, Error> {
        self.fenced(|| run_comparing_shapes(&mut self.runnable.spawn()?, values))
    }

    /// Checks the sizes of all values that follow from the inputs' against the limit.
    fn check_limit(&self, sizes: &[TVec<usize>]) -> TractResult<()> {
        let model = self.runnable.model();
        let mut symbols = SymbolValues::default();
        for (outlet, sizes) in std::iter::zip(model.input_outlets()?, sizes) {
            let declared = model.outlet_fact(*outlet)?.shape.iter();
            for (declared, size) in declared.zip(sizes) {
                if let TDim::Sym(symbol) = declared {
                    symbols.set(symbol, *size as i64);
                }
            }
        }
        for Open {
            node,
            is_input,
            fact,
        } in &self.open
        {
            let shape = fact.shape.iter();
            let shape = shape.map(|it| it.eval(&symbols).to_usize().ok());
            // Sizes from data are known later.
            if let Some(shape) = shape.collect::<Option<TVec<usize>>>() {
                bounded::check(
                    Maker::of(node, *is_input),
                    fact.datum_type,
                    &shape,
                    self.limit,
                )?;
            }
        }
        Ok(())
    }

    /// Whether a value of an input is given to the plan, or part of it.
    fn has_input(&self, name: &str) -> bool {
        self.inputs.iter().any(|it| it == name) || self.constants.contains_key(name)
    }
}

/// The names of a plan's inputs, the values that are part of it, and its model.
fn parse(
    source: &Source,
    inputs: For<'_>,
    options: &LoadOptions,
) -> TractResult<(Vec<String>, Inputs, InferenceModel)> {
    let mut names = Vec::new();
    let For::Inputs(inputs, constants) = inputs else {
        let mut passed_on = Vec::new();
        let mut inference = source.parse(options.template(), |graph| {
            names = constant_inputs::graph_inputs(graph);
            let is_output = |it: &&ValueInfoProto| graph.output.iter().any(|o| o.name == it.name);
            let inputs = graph.input.iter().filter(is_output);
            passed_on.extend(inputs.map(|it| ValueInfo::declared(it, false)));
            Ok(())
        })?;
        // For tract such an input is what the output is, whose sizes are not read.
        for declared in passed_on {
            if let Some(index) = names.iter().position(|name| *name == declared.name) {
                let fact = declared_fact(&declared, &HashMap::new(), &inference.symbols);
                inference.set_input_fact(index, fact)?;
            }
        }
        name_open_sizes(&mut inference)?;
        return Ok((names, Inputs::new(), inference));
    };
    let mut inference = source.parse(options.template(), |graph| {
        // An input that is given is no constant, even if it has a default.
        let is_given = |it: &TensorProto| inputs.contains_key(&it.name);
        graph.initializer.retain(|it| !is_given(it));
        constant_inputs::fix(graph, constants)?;
        names = constant_inputs::graph_inputs(graph);
        Ok(())
    })?;
    ensure!(
        names.len() == inference.input_outlets()?.len(),
        "tract lost an input"
    );
    for (index, name) in names.iter().enumerate() {
        let value = inputs
            .get(name)
            .with_context(|| format!("input {name:?} is missing"))?;
        let fact = InferenceFact::dt_shape(value.datum_type(), value.shape());
        inference.set_input_fact(index, fact)?;
    }
    Ok((names, constants.clone(), inference))
}

/// Makes symbols of the inputs' sizes that neither the model nor its nodes determine.
fn name_open_sizes(inference: &mut InferenceModel) -> TractResult<()> {
    let facts = inference.input_outlets()?.to_vec();
    let is_open = |inference: &InferenceModel, outlet: &OutletId| {
        let fact = inference.outlet_fact(*outlet);
        fact.is_ok_and(|fact| fact.shape.concretize().is_none())
    };
    if !facts.iter().any(|outlet| is_open(inference, outlet)) {
        return Ok(());
    }
    // The nodes may determine them.
    inference.analyse(false)?;
    for (index, outlet) in facts.iter().enumerate() {
        if !is_open(inference, outlet) {
            continue;
        }
        let mut fact = inference.outlet_fact(*outlet)?.clone();
        ensure!(!fact.shape.is_open(), "the rank of an input is not known");
        let sizes = fact.shape.dims().map(|dim| match dim.concretize() {
            Some(_) => dim.clone(),
            None => inference.symbols.new_with_prefix("size").to_dim().into(),
        });
        fact.shape = ShapeFactoid::closed(sizes.collect());
        inference.set_input_fact(index, fact)?;
    }
    Ok(())
}
