//! A model, opened once and run by the names of its inputs and outputs.
//!
//! A session plans for symbolic sizes or those of the data (`plan.rs`), takes values that tract has to know
//! from the inputs (`constant_inputs.rs`), and words errors in ONNX's terms (`words.rs`).

pub(crate) mod constant_inputs;
mod outputs;
mod plan;
pub(crate) mod values;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use revseq_graph::LruCache;
use revseq_onnx::{Model, ModelProto};
use tract_onnx::prelude::*;

use self::plan::For;
use self::values::ValueInfo;
use self::words::Nodes;
use crate::error::{Error, ErrorKind};
use crate::options::Sizes;
use crate::read::Source;
use crate::{Interrupt, LoadOptions, fence};

pub use outputs::Outputs;
pub use plan::Plan;

/// Inputs by name.
pub type Inputs = BTreeMap<String, TValue>;

/// An ONNX model on tract, opened once and run by the names of its inputs and outputs.
///
/// ```no_run
/// use revseq_tract::Session;
/// use revseq_tract::tract_onnx::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let session = Session::open("bidirectional.onnx")?;
/// let x = Tensor::zero::<f32>(&[1, 7, 3])?;
/// let lengths = tensor1(&[5_i64]);
/// let outputs = session.run([("x", x), ("lengths", lengths)])?;
/// println!("{:?}", outputs["y"]);
/// # Ok(())
/// # }
/// ```
///
/// The model is planned once for all sizes that it leaves open. If tract does not take it so, it is
/// planned for the sizes of the data, and the latest few plans are kept; then values that tract has
/// to know before a run, such as axes, may be among the inputs, too.
///
/// Models need not be trusted: loops and values are bounded ([`LoadOptions::with_limits`]), and a
/// panic of tract's is an error. A session may be shared among threads.
#[derive(Debug)]
pub struct Session {
    source: Source,
    options: LoadOptions,
    inputs: Vec<ValueInfo>,
    outputs: Arc<[ValueInfo]>,
    nodes: Arc<Nodes>,
    /// The plan for all sizes, if tract takes the model so.
    symbolic: Option<Arc<Plan>>,
    /// Plans for the sizes of the data.
    plans: LruCache<Plan>,
}

impl Session {
    /// Opens the model in a file, with the default [`LoadOptions`].
    ///
    /// # Errors
    /// The file cannot be read, is not an ONNX model, or has operators that tract lacks.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, &LoadOptions::new())
    }

    /// Opens the model in a file.
    ///
    /// # Errors
    /// As those of [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self, Error> {
        Self::new(Source::open(path.as_ref())?, options)
    }

    /// Opens an encoded model, which has all of its data inside.
    ///
    /// # Errors
    /// As those of [`open`](Self::open).
    pub fn from_bytes(bytes: &[u8], options: &LoadOptions) -> Result<Self, Error> {
        Self::new(Source::decode(bytes)?, options)
    }

    /// Opens a decoded model, which has all of its data inside.
    ///
    /// # Errors
    /// As those of [`open`](Self::open).
    pub fn from_model(model: Model, options: &LoadOptions) -> Result<Self, Error> {
        Self::new(Source::of_model(model)?, options)
    }

    /// Opens the messages of a checked model, whose data may be elsewhere if it is not to run; for the
    /// other crates of this workspace.
    ///
    /// # Errors
    /// It has operators that tract lacks.
    #[doc(hidden)]
    pub fn from_messages(model: ModelProto, options: &LoadOptions) -> Result<Self, Error> {
        Self::new(Source::new(model)?, options)
    }

    fn new(source: Source, options: &LoadOptions) -> Result<Self, Error> {
        let graph = source.graph();
        let inputs = graph.input.iter().map(|input| {
            let has_default = graph.initializer.iter().any(|it| it.name == input.name);
            ValueInfo::declared(input, has_default)
        });
        let outputs = graph.output.iter();
        let mut session = Self {
            options: options.clone().with_default_limits(),
            inputs: inputs.collect(),
            outputs: outputs.map(|it| ValueInfo::declared(it, false)).collect(),
            nodes: Arc::new(Nodes::of(source.graph(), source.opset())),
            source,
            symbolic: None,
            plans: LruCache::default(),
        };
        if session.options.sizes == Sizes::Symbolic {
            session.symbolic = session.new_plan(For::Declared).ok().map(Arc::new);
        }
        Ok(session)
    }

    /// The inputs, in the model's order.
    #[must_use]
    pub fn inputs(&self) -> &[ValueInfo] {
        &self.inputs
    }

    /// The outputs, in the model's order.
    #[must_use]
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.outputs
    }

    /// Whether one plan serves all sizes. Otherwise each new combination of sizes is planned, which
    /// takes as long as opening the model.
    #[must_use]
    pub fn is_symbolic(&self) -> bool {
        self.symbolic.is_some()
    }

    /// Runs the model on inputs by name, and returns its outputs by name.
    ///
    /// An input with a default may be left out.
    ///
    /// # Errors
    /// An input is missing, unknown, given twice, or not of the type and the sizes that the model
    /// declares; tract does not take the model with these inputs; a node does not take a value, such as
    /// a length beyond its axis; or the run exceeds a limit.
    pub fn run<N, V>(&self, inputs: impl IntoIterator<Item = (N, V)>) -> Result<Outputs, Error>
    where
        N: Into<String>,
        V: IntoTValue,
    {
        match self.options.maximum_time() {
            // Planning counts as well.
            Some(time) => Interrupt::new()
                .with_time(time)
                .scope(|| self.run_now(inputs)),
            None => self.run_now(inputs),
        }
    }

    /// Runs the model as [`run`](Self::run) does, until an [`Interrupt`] ends it: at its deadline, or
    /// when another thread raises it.
    ///
    /// A run ends between two nodes, in the bodies of loops as well, between two steps of a loop, and
    /// within recurrent layers; planning for new sizes and any other node are finished before. It
    /// takes effect as well around a [`Plan`]'s runs, in [`Interrupt::scope`].
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use revseq_tract::tract_onnx::prelude::*;
    /// use revseq_tract::{ErrorKind, Interrupt, Session};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let session = Session::open("bidirectional.onnx")?;
    /// # let x = Tensor::zero::<f32>(&[1, 7, 3])?;
    /// let interrupt = Interrupt::new().with_time(Duration::from_millis(200));
    /// // Another thread may call `raise` of a clone.
    /// match session.run_with([("x", x)], &interrupt) {
    ///     Ok(outputs) => println!("{:?}", outputs["y"]),
    ///     Err(error) if error.kind() == ErrorKind::Interrupted => println!("too late"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As those of [`run`](Self::run); of the kind [`ErrorKind::Interrupted`] if the run is ended.
    pub fn run_with<N, V>(
        &self,
        inputs: impl IntoIterator<Item = (N, V)>,
        interrupt: &Interrupt,
    ) -> Result<Outputs, Error>
    where
        N: Into<String>,
        V: IntoTValue,
    {
        interrupt.scope(|| self.run(inputs))
    }

    fn run_now<N, V>(&self, inputs: impl IntoIterator<Item = (N, V)>) -> Result<Outputs, Error>
    where
        N: Into<String>,
        V: IntoTValue,
    {
        let inputs = by_name(inputs)?;
        let plan = self.plan(&inputs)?;
        plan.run(&inputs).or_else(|error| {
            // Names of sizes may contradict the data; a plan for its sizes does without them.
            match plan.is_symbolic() && error.kind() == ErrorKind::Unsupported {
                true => self.plan_of_data(&inputs)?.run(&inputs),
                false => Err(error),
            }
        })
    }

    /// Returns the plan for all sizes that the model leaves open.
    ///
    /// # Errors
    /// tract does not take the model so; it may for the sizes of the data ([`plan`](Self::plan)).
    pub fn symbolic_plan(&self) -> Result<Arc<Plan>, Error> {
        match &self.symbolic {
            Some(plan) => Ok(Arc::clone(plan)),
            None => self
                .new_plan(For::Declared)
                .map(Arc::new)
                .map_err(|error| words::of_preparation(error, &self.nodes)),
        }
    }

    /// Returns the plan that [`run`](Self::run) uses for these inputs, which serves to run the same
    /// sizes repeatedly, or to look at tract's model.
    ///
    /// # Errors
    /// As those of [`run`](Self::run), before a node runs.
    pub fn plan(&self, inputs: &Inputs) -> Result<Arc<Plan>, Error> {
        self.check(inputs)?;
        if let Some(plan) = &self.symbolic
            && plan.takes(inputs)
        {
            return Ok(Arc::clone(plan));
        }
        self.plan_of_data(inputs)
    }

    /// Returns the plan for the sizes of these inputs.
    fn plan_of_data(&self, inputs: &Inputs) -> Result<Arc<Plan>, Error> {
        let make = || self.plan_for_sizes(inputs);
        let plan = self.plans.get_or_try_insert(|it| it.is_for(inputs), make);
        plan.map_err(|error| words::of_preparation(error, &self.nodes))
    }

    fn plan_for_sizes(&self, inputs: &Inputs) -> TractResult<Plan> {
        let none = Inputs::new();
        self.new_plan(For::Inputs(inputs, &none)).or_else(|error| {
            // Values that tract requires before it runs may be among the inputs.
            let names = constant_inputs::inputs(self.source.graph(), inputs);
            if names.is_empty() {
                return Err(error);
            }
            let constants = inputs.iter().filter(|(name, _)| names.contains(*name));
            let constants = constants.map(|(name, value)| (name.clone(), value.clone()));
            let constants = constants.collect();
            self.new_plan(For::Inputs(inputs, &constants))
                .map_err(|_| error)
        })
    }

    fn new_plan(&self, inputs: For<'_>) -> TractResult<Plan> {
        let (options, outputs, nodes) = (&self.options, &self.outputs, &self.nodes);
        let plan = || Plan::new(&self.source, inputs, options, outputs, nodes);
        // An operator that cannot be computed may be left for the run, or the model refused.
        Interrupt::suspended(|| fence::catch(plan))
    }

    /// Checks inputs against those that the model declares.
    fn check(&self, inputs: &Inputs) -> Result<(), Error> {
        let is_unknown = |name: &&String| self.inputs.iter().all(|it| it.name != **name);
        if let Some(name) = inputs.keys().find(is_unknown) {
            let names: Vec<&str> = self.inputs.iter().map(|it| it.name.as_str()).collect();
            return Err(Error::new(
                ErrorKind::Input,
                format!("the model has no input {name:?}, expected {names:?}"),
            ));
        }
        for declared in &self.inputs {
            match inputs.get(&declared.name) {
                None if !declared.has_default => return Err(missing(&declared.name)),
                Some(value) if !declared.takes(value) => {
                    let name = &declared.name;
                    let tensor = values::type_and_shape(value);
                    return Err(Error::new(
                        ErrorKind::Input,
                        format!("input {name:?} is {tensor}, expected {declared}"),
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Inputs by name.
///
/// # Errors
/// One is given twice.
fn by_name<N: Into<String>, V: IntoTValue>(
    values: impl IntoIterator<Item = (N, V)>,
) -> Result<Inputs, Error> {
    let mut inputs = Inputs::new();
    for (name, value) in values {
        let name = name.into();
        if inputs.contains_key(&name) {
            let message = format!("input {name:?} is given twice");
            return Err(Error::new(ErrorKind::Input, message));
        }
        inputs.insert(name, value.into_tvalue());
    }
    Ok(inputs)
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::Input, format!("input {name:?} is missing"))
}
