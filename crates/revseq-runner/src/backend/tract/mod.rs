//! Models on tract.

mod adapt;
mod bounded;
mod convert;
mod fixed;
mod form;
mod operators;
mod refusal;
mod shapes;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use revseq_graph::ElementType;
use revseq_kernels::{Device, LengthsPolicy};
use revseq_tract::{Limits, LoadOptions};
use tract_onnx::data_resolver::ModelDataResolver;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::runtime::RunOptions;
use tract_onnx::tract_hir::infer::{InferenceFact, InferenceModel};

use crate::backend::Runs;
use crate::backend::gpu::{self, Gpu};
use crate::backend::outputs::{self, Declared};
use crate::backend::profile::{Call, NodeTimes, Profile, Trace};
use crate::cli::{EngineArguments, Lengths};
use crate::fence;
use crate::model::element_types::element_types;
use crate::model::{Bindings, Model, node_label, walk};
use crate::tensor::{MAXIMUM_BYTES, Tensor, pb};
use convert::{datum_type, from_tract, to_tract};
pub(crate) use form::{Form, needed_of};
pub(crate) use shapes::{Shapes, shapes};

/// Whether tract loads tensors of a type (tract-onnx, src/tensor.rs).
fn has_type(code: i32) -> bool {
    ElementType::from_onnx_code(code).is_some_and(|known| datum_type(known).is_ok())
}

/// How many steps a loop may take. Fuzzers have less time.
const MAXIMUM_STEPS: u64 = if cfg!(fuzzing) { 1 << 10 } else { 1 << 20 };

/// The limits of a loop: a model may contain one that never ends.
const LOOP_LIMITS: Limits = Limits::none()
    .with_steps(MAXIMUM_STEPS)
    .with_bytes(MAXIMUM_BYTES);

/// The most nodes that tract orders for little memory, which takes a time that grows with their
/// square; more keep the order in which outputs need them.
const MAXIMUM_ORDERED: usize = 1 << 13;

/// tract, and how our nodes run there.
#[derive(Debug, Default)]
pub(crate) struct Tract {
    gpu: Option<Gpu>,
    lengths: Option<LengthsPolicy>,
}

impl Tract {
    /// Opens tract with these arguments.
    ///
    /// # Errors
    /// If there is no such GPU.
    pub(crate) fn open(arguments: &EngineArguments) -> Result<Self> {
        Ok(Self {
            gpu: match &arguments.device {
                Device::Gpu(choice) => Some(Gpu::open(choice)?),
                _ => None,
            },
            lengths: arguments.lengths.map(Lengths::policy),
        })
    }

    /// The GPU that runs our nodes, if any.
    pub(crate) fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref()
    }

    /// A model in the form that tract reads, or the feature that tract or the GPU lacks for it.
    ///
    /// Only the model decides this: an error on the way never counts as a missing feature.
    pub(crate) fn read<'a>(&self, model: &'a Model) -> Result<Result<Form<'a>, String>> {
        let form = Form::of(model)?;
        let lacking = match lacks(&form)? {
            None if self.gpu.is_some() => gpu::lacks(&form)?,
            lacking => lacking,
        };
        Ok(match lacking {
            None => Ok(form.with_data()?),
            Some(lacking) => Err(lacking),
        })
    }
}

fn lacks(model: &Model) -> Result<Option<String>> {
    let mut lacking = refusal::Lacking::default();
    let sparse = || (1, "sparse tensors".to_owned());
    walk::walk(model, &Bindings::new(), |site| {
        if site.is_dead {
            return;
        }
        if !operators::has_operator(&site.node.domain, &site.node.op_type) {
            let label = site.path.rsplit_once('/').map_or("", |(_, label)| label);
            let label = if site.node.name.is_empty() {
                label
            } else {
                &site.node.name
            };
            lacking.operator(site.operator(), label.to_owned());
        }
        let is_sparse = |(_, attribute): &(&str, &AttributeProto)| {
            let graphs = attribute.g.iter();
            attribute.sparse_tensor.is_some()
                || !attribute.sparse_tensors.is_empty()
                || graphs
                    .into_iter()
                    .any(|graph| !graph.sparse_initializer.is_empty())
        };
        if site.attributes.iter().any(is_sparse) {
            lacking.other(sparse());
        }
    })?;
    if !model.graph().sparse_initializer.is_empty() {
        lacking.other(sparse());
    }
    for code in element_types(model)? {
        if !has_type(code) {
            lacking.other((0, pb::type_name(code)));
        }
    }
    for input in model.inputs() {
        if input.value_type.element_type.is_none() {
            lacking.other((2, format!("input {:?}, which is not a tensor", input.name)));
        }
    }
    Ok(lacking.message())
}

/// The operators of a graph's nodes, and of those within, by the names that they have for tract.
fn node_names(graph: &GraphProto) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let mut open = vec![graph];
    while let Some(graph) = open.pop() {
        for (index, node) in graph.node.iter().enumerate() {
            names.insert(node_label(index, node), node.op_type.clone());
            let attributes = node.attribute.iter();
            open.extend(attributes.flat_map(|it| it.g.iter().chain(&it.graphs)));
        }
    }
    names
}

/// A model prepared for inputs of certain types and shapes.
pub(crate) struct Prepared {
    plan: Arc<TypedRunnableModel>,
    /// The names of the inputs, in the plan's order.
    inputs: Vec<String>,
    /// The inputs that are part of the plan.
    fixed: BTreeMap<String, Tensor>,
    outputs: Vec<Declared>,
    /// The operators of the model's nodes, by name.
    nodes: BTreeMap<String, String>,
}

impl Tract {
    /// Prepares a model for inputs of these types and shapes.
    ///
    /// # Errors
    /// The error of tract, or of one of our operators.
    pub(crate) fn prepare(
        &self,
        model: &Model,
        inputs: &BTreeMap<String, Tensor>,
        bindings: &Bindings,
    ) -> Result<Prepared> {
        let mut options = LoadOptions::new().with_limits(LOOP_LIMITS);
        if let Some(policy) = self.lengths {
            options = options.with_lengths(policy);
        }
        if let Some(gpu) = &self.gpu {
            options = gpu.options(options);
        }
        let prepare =
            |fixed: &BTreeSet<String>| fenced(|| prepare(model, inputs, bindings, &options, fixed));
        let prepared = prepare(&BTreeSet::new()).or_else(|error| {
            // Values that tract requires before it runs may be among the inputs.
            let wanted = fixed::inputs(model.graph(), inputs);
            let fixed = if wanted.is_empty() {
                None
            } else {
                prepare(&wanted).ok()
            };
            fixed.ok_or(error)
        });
        prepared.map_err(|error| refusal::in_words_of_onnx(error, &node_names(model.graph())))
    }
}

/// The plan of a model for inputs of these types and shapes; the `fixed` ones are part of it.
fn prepare(
    model: &Model,
    inputs: &BTreeMap<String, Tensor>,
    bindings: &Bindings,
    options: &LoadOptions,
    fixed: &BTreeSet<String>,
) -> Result<Prepared> {
    let mut proto = model.proto.clone();
    // Functions that nothing calls mean nothing; those called are refused before.
    proto.functions.clear();
    let graph = proto.graph.as_mut().context("the model has no graph")?;
    adapt::adapt(graph, inputs, bindings);
    fixed::fix(graph, fixed, inputs)?;
    let mut onnx = tract_onnx::onnx().with_ignore_value_info(true);
    onnx.provider = Arc::new(NoFiles);
    onnx.op_register = operators::bounded_operators();
    let parsed = options.load(|| onnx.parse(&proto, None))?;
    if let Some(name) = parsed.unresolved_inputs.first() {
        bail!("no node produces {name:?}");
    }
    let mut inference: InferenceModel = parsed.model;
    let names: Vec<String> = graph_inputs(&proto);
    drop(proto);
    ensure!(
        names.len() == inference.input_outlets()?.len(),
        "tract lost an input"
    );
    for (index, name) in names.iter().enumerate() {
        let input = inputs
            .get(name)
            .with_context(|| format!("input {name:?} is missing"))?;
        let fact = InferenceFact::dt_shape(datum_type(input.element_type())?, input.shape());
        inference.set_input_fact(index, fact)?;
    }
    let typed = inference.into_typed()?;
    for node in typed.nodes() {
        for output in &node.outputs {
            if let Some(shape) = output.fact.shape.as_concrete() {
                bounded::check(&node.name, output.fact.datum_type, shape)?;
            }
        }
    }
    // tract works on one thread by default; to a pool of one it would only
    // hand work over.
    #[cfg(feature = "multithread")]
    if rayon::current_num_threads() > 1 {
        multithread::set_default_executor(multithread::Executor::RayonGlobal);
    }
    let optimized = revseq_tract::into_optimized(typed)?;
    let options = RunOptions {
        skip_order_opt_ram: optimized.nodes().len() > MAXIMUM_ORDERED,
        ..RunOptions::default()
    };
    let plan = optimized.into_runnable_with_options(&options)?;
    let fixed = inputs.iter().filter(|(name, _)| fixed.contains(*name));
    Ok(Prepared {
        plan,
        inputs: names,
        fixed: fixed
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        outputs: outputs::declared(model),
        nodes: node_names(model.graph()),
    })
}

impl Prepared {
    /// Runs the model and returns each output, in order, or why it is no tensor.
    ///
    /// # Errors
    /// The error of tract, or of one of our operators.
    pub(crate) fn run(&self, inputs: &BTreeMap<String, Tensor>) -> Result<Vec<Result<Tensor>>> {
        let values = self.values(inputs)?;
        let outputs = self.run_values(values)?;
        let outputs = std::iter::zip(outputs, &self.outputs).map(|(output, declared)| {
            let output = from_tract(output.into_tensor(), &declared.value_type)?;
            declared.check(output, "tract")
        });
        Ok(outputs.collect())
    }

    /// The inputs as tract takes them.
    fn values(&self, inputs: &BTreeMap<String, Tensor>) -> Result<TVec<TValue>> {
        for (name, fixed) in &self.fixed {
            ensure!(
                inputs.get(name) == Some(fixed),
                "input {name:?} has other values than those that the model was made ready for"
            );
        }
        self.inputs
            .iter()
            .map(|name| {
                let input = inputs
                    .get(name)
                    .with_context(|| format!("input {name:?} is missing"))?;
                Ok(to_tract(input)?.into_tvalue())
            })
            .collect()
    }

    /// How long each of some runs takes, after others that are not timed.
    pub(crate) fn repeat(
        &self,
        inputs: &BTreeMap<String, Tensor>,
        runs: Runs,
        step: impl FnMut(),
    ) -> Result<Vec<Duration>> {
        let values = self.values(inputs)?;
        let run = || {
            let values = values.clone();
            let start = Instant::now();
            let outputs = self.run_values(values)?;
            let time = start.elapsed();
            drop(outputs);
            Ok(time)
        };
        runs.times(run, step)
    }

    /// The time of each node in some runs. A loop includes the nodes in it.
    pub(crate) fn profile(
        &self,
        inputs: &BTreeMap<String, Tensor>,
        runs: usize,
        with_trace: bool,
        mut step: impl FnMut(),
    ) -> Result<Profile> {
        let values = self.values(inputs)?;
        let mut times = NodeTimes::default();
        let mut all = Vec::new();
        let first = Instant::now();
        let mut trace = with_trace.then(Trace::default);
        self.fenced(|| {
            let mut state = self.plan.spawn()?;
            // The first run allocates.
            state.run(values.clone())?;
            for run in 0..runs {
                let begin = Instant::now();
                state.run_plan_with_eval(values.clone(), |context, state, node, inputs| {
                    let start = Instant::now();
                    let outputs = tract_onnx::tract_core::plan::eval(context, state, node, inputs);
                    let time = start.elapsed();
                    let call = Call {
                        operator: &node.op.name(),
                        node: &node.name,
                        provider: None,
                        time,
                        time_with_inner: time,
                    };
                    times.add(run, call);
                    if let Some(trace) = &mut trace {
                        trace.add(&call, start - first);
                    }
                    outputs
                })?;
                all.push(begin.elapsed());
                step();
            }
            Ok(())
        })?;
        Ok(times.of(all, trace.map(Trace::into_json)))
    }

    /// Runs the model on inputs that [`values`](Self::values) made.
    fn run_values(&self, values: TVec<TValue>) -> Result<TVec<TValue>> {
        self.fenced(|| self.plan.run(values))
    }

    /// Runs tract; its errors are in ONNX's words.
    fn fenced<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        fenced(run).map_err(|error| refusal::of_run(error, &self.nodes))
    }
}

/// Runs tract; a panic inside is an error.
fn fenced<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    fence::catch(run).map_err(|message| anyhow!(refusal::Panicked(message)))?
}

/// All data is in the model by now.
struct NoFiles;

impl ModelDataResolver for NoFiles {
    fn read_bytes_from_path(
        &self,
        _buf: &mut Vec<u8>,
        path: &std::path::Path,
        _offset: usize,
        _length: Option<usize>,
    ) -> TractResult<()> {
        bail!("{} is not to be read", path.display())
    }
}

/// The inputs that tract has as sources: those without an initializer, in order.
fn graph_inputs(proto: &ModelProto) -> Vec<String> {
    let Some(graph) = &proto.graph else {
        return Vec::new();
    };
    let initialized: HashSet<&str> = graph
        .initializer
        .iter()
        .map(|tensor| tensor.name.as_str())
        .collect();
    let names = graph.input.iter().map(|input| input.name.as_str());
    names
        .filter(|name| !initialized.contains(name))
        .map(str::to_owned)
        .collect()
}
