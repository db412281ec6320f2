//! Reads the values and nodes of a loop, and says what no program has.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use revseq_onnx::model::{
    self, AttributeType, BEFORE_STATES, DOUBLE, FLOAT, LoopLayout, int, type_name,
};
use revseq_onnx::proto::{AttributeProto, GraphProto, NodeProto, TensorProto};

use crate::body::{Around, Body, Constant, Origin, OuterValue, ScanInput, State, constant_of};
use crate::elements::Kind;
use crate::names::Names;
use crate::nodes::{added, appends, mark_live, value_of, without_constants, without_doubles};
use crate::operators::{self, Gives, Rule, Takes};
use crate::plan::Data;

impl Body {
    /// Reads a loop; the error says what it has that no program has.
    pub(crate) fn read(node: &NodeProto, opset: i64, around: &dyn Around) -> Result<Self, String> {
        if node.is("Scan") && opset < 9 {
            return Err("it is a Scan of opset 8".into());
        }
        Self::of(node, opset, &Caller(around))
    }

    /// Reads a graph that runs once, and which of its outputs are read.
    fn once(
        graph: &GraphProto,
        node: &NodeProto,
        opset: i64,
        around: &dyn Outside,
    ) -> Result<Self, String> {
        let body = AttributeProto {
            name: Some("body".into()),
            r#type: Some(AttributeType::GRAPH),
            g: graph.clone().into(),
            ..AttributeProto::default()
        };
        let outputs: Vec<&str> = node.output.iter().map(String::as_str).collect();
        let scan = model::node("Scan", &[], &outputs, vec![body, int("num_scan_inputs", 0)]);
        let mut body = Self::of(&scan, opset, around)?;
        body.most = Some(Origin::Constant(body.constants.len()));
        body.constants.push(Constant {
            kind: Kind::Int64,
            sizes: vec![],
            data: Data::Ints([1].into()),
        });
        Ok(body)
    }

    fn of(node: &NodeProto, opset: i64, around: &dyn Outside) -> Result<Self, String> {
        let layout = LoopLayout::of(node).ok_or("it is no Loop, or no Scan that is known")?;
        let mut graph = node.graph("body").ok_or("it has no body")?.clone();
        without_doubles(&mut graph, |name| around.doubles_of(name));
        let names = Names {
            node,
            layout,
            inputs: graph.inputs().map(str::to_owned).collect(),
            outputs: graph.outputs().map(str::to_owned).collect(),
        };
        let mut reader = Reader::new(around, opset);
        let (most, starts) = (reader.leading(&names, 0)?, reader.leading(&names, 1)?);
        let leading: Vec<String> = names
            .inputs
            .iter()
            .take(layout.leading_inputs)
            .cloned()
            .collect();
        for (name, kind) in std::iter::zip(&leading, [Kind::Int64, Kind::Bool]) {
            reader.bind(name, kind, true);
        }
        let [number, condition_in] = [0, 1].map(|index| leading.get(index).cloned());
        let condition_out = names
            .outputs
            .iter()
            .take(layout.leading_outputs)
            .next()
            .cloned();
        let mut states = reader.states(&names, &graph)?;
        let slices = reader.slices(&names)?;
        let collected = names.collected();
        let read = collected.iter().filter(|it| it.is_read);
        let read = read.map(|it| it.name.clone());
        let mut wanted: HashSet<String> = condition_out.iter().cloned().chain(read).collect();
        let order = mark_live(&graph, &mut states, &mut wanted);
        let mut untyped = reader.untyped.iter();
        if let Some((_, reason)) = untyped.find(|it| states[it.0].is_live) {
            return Err(reason.clone());
        }
        reader.constants_of(&graph)?;
        for index in &order {
            reader.node(&graph.node[*index])?;
        }
        reader.check_states(&states)?;
        for name in wanted {
            reader.kind(&name)?;
        }
        let outputs = states.iter().map(|it| &it.input);
        let outputs = outputs.chain(collected.iter().map(|it| &it.name));
        let outputs = outputs.enumerate().map(|(index, name)| {
            let is_read = names.is_read(index);
            is_read.then(|| reader.kind(name)).transpose()
        });
        let outputs = outputs.collect::<Result<_, _>>()?;
        without_constants(&mut graph);
        Ok(Self {
            order,
            inputs: reader.inputs,
            outer: reader.outer,
            constants: reader.constants,
            inner: reader.inner,
            bodies: reader.bodies,
            most,
            starts,
            number,
            condition_in,
            condition_out,
            states,
            slices,
            collected,
            outputs,
            graph,
            opset,
            packed: Mutex::default(),
        })
    }
}

/// What is around a graph: a caller, or another graph.
trait Outside {
    /// The type of a value that the graph reads.
    fn kind_of(&self, name: &str) -> Result<Kind, String>;

    /// Its elements, if it is a constant.
    fn constant_of(&self, name: &str) -> Option<Result<Constant, String>>;

    /// The same, if its elements are doubles, which no program has.
    fn doubles_of(&self, name: &str) -> Option<TensorProto>;

    /// Whether a program can know it while it is made.
    fn may_know(&self, name: &str) -> bool;
}

/// What the caller has around a loop.
struct Caller<'a>(&'a dyn Around);

impl Outside for Caller<'_> {
    fn kind_of(&self, name: &str) -> Result<Kind, String> {
        let code = self.0.code(name);
        let code = code.ok_or_else(|| format!("the type of {name:?} is not known"))?;
        Kind::of(code).ok_or_else(|| format!("{name:?} is of {}", type_name(code)))
    }

    fn constant_of(&self, name: &str) -> Option<Result<Constant, String>> {
        Some(constant_of(&self.0.constant(name)?))
    }

    fn doubles_of(&self, name: &str) -> Option<TensorProto> {
        let may_be = matches!(self.0.code(name), None | Some(DOUBLE));
        let constant = may_be.then(|| self.0.constant(name)).flatten();
        constant.filter(|tensor| tensor.code() == DOUBLE)
    }

    fn may_know(&self, _name: &str) -> bool {
        true
    }
}

impl Outside for Reader<'_> {
    fn kind_of(&self, name: &str) -> Result<Kind, String> {
        match self.kinds.get(name) {
            Some(kind) => Ok(*kind),
            None => self.around.kind_of(name),
        }
    }

    fn constant_of(&self, name: &str) -> Option<Result<Constant, String>> {
        let own = self.inner.get(name).copied();
        match own.or_else(|| self.constant_index(name)) {
            Some(index) => Some(Ok(self.constants[index].clone())),
            None if self.kinds.contains_key(name) => None,
            None => self.around.constant_of(name),
        }
    }

    fn doubles_of(&self, name: &str) -> Option<TensorProto> {
        let is_own = self.kinds.contains_key(name);
        (!is_own).then(|| self.around.doubles_of(name)).flatten()
    }

    fn may_know(&self, name: &str) -> bool {
        self.is_known(name)
    }
}

/// Reads a loop.
struct Reader<'a> {
    around: &'a dyn Outside,
    inputs: Vec<(String, Kind)>,
    outer: Vec<OuterValue>,
    /// The places of outer values.
    places: HashMap<String, usize>,
    constants: Vec<Constant>,
    inner: HashMap<String, usize>,
    /// The types of the body's values.
    kinds: HashMap<String, Kind>,
    /// The body's values that a program knows while it is made.
    known: HashSet<String>,
    /// The graphs of its nodes.
    bodies: HashMap<String, Vec<Body>>,
    /// The states whose type is not known, and why: a list that nothing depends on does no harm.
    untyped: Vec<(usize, String)>,
    opset: i64,
}

impl<'a> Reader<'a> {
    fn new(around: &'a dyn Outside, opset: i64) -> Self {
        Self {
            around,
            inputs: vec![],
            outer: vec![],
            places: HashMap::new(),
            constants: vec![],
            inner: HashMap::new(),
            kinds: HashMap::new(),
            known: HashSet::new(),
            bodies: HashMap::new(),
            untyped: vec![],
            opset,
        }
    }

    /// Reads an input that only a Loop has: the most steps, or whether there is a first.
    fn leading(&mut self, names: &Names<'_>, index: usize) -> Result<Option<Origin>, String> {
        let is_there = index < names.layout.leading_inputs;
        let Some(name) = names.node.input(index).filter(|_| is_there) else {
            return Ok(None);
        };
        self.outer(name)?;
        self.origin(name).map(Some)
    }

    /// Reads the states.
    fn states(&mut self, names: &Names<'_>, graph: &GraphProto) -> Result<Vec<State>, String> {
        let mut states = vec![];
        for index in 0..names.layout.states {
            let (initial, input) = names.input(index, "state")?;
            let output = names.outputs.get(names.layout.leading_outputs + index);
            let output = output.ok_or("its body lacks an output")?;
            let kind = match self.outer(initial) {
                Ok(kind) => kind,
                Err(reason) if names.node.is("Scan") => return Err(reason),
                Err(reason) => {
                    self.untyped.push((index, reason));
                    Kind::Float
                }
            };
            self.bind(input, kind, false);
            states.push(State {
                adds: added(graph, input, output),
                initial: initial.to_owned(),
                input: input.to_owned(),
                output: output.clone(),
                kind,
                is_live: names.is_read(index),
            });
        }
        Ok(states)
    }

    /// Reads the scan inputs.
    fn slices(&mut self, names: &Names<'_>) -> Result<Vec<ScanInput>, String> {
        let mut slices = vec![];
        for index in 0..names.layout.slices {
            let (outside, name) = names.input(names.layout.states + index, "scan input")?;
            let kind = self.outer(outside)?;
            self.bind(name, kind, false);
            let (axis, is_reversed) = names.along("scan_input", index);
            slices.push(ScanInput {
                name: name.to_owned(),
                whole: self.origin(outside)?,
                axis,
                is_reversed,
            });
        }
        Ok(slices)
    }

    /// Checks that steps keep the types of states.
    fn check_states(&mut self, states: &[State]) -> Result<(), String> {
        for state in states.iter().filter(|it| it.is_live) {
            if self.kind(&state.output)? != state.kind {
                let name = &state.input;
                return Err(format!("its state {name:?} becomes one of another type"));
            }
            if let Some(name) = &state.adds {
                // The name may be of a value that the body does not know otherwise.
                let _ = self.kind(name);
            }
        }
        Ok(())
    }

    fn bind(&mut self, name: &str, kind: Kind, is_known: bool) {
        self.kinds.insert(name.to_owned(), kind);
        if is_known {
            self.known.insert(name.to_owned());
        }
    }

    /// Reads a value around the loop, and returns its type.
    fn outer(&mut self, name: &str) -> Result<Kind, String> {
        if let Some(&place) = self.places.get(name) {
            return Ok(self.outer[place].kind);
        }
        let (kind, origin) = match self.around.constant_of(name) {
            Some(constant) => {
                let constant = constant.map_err(|text| format!("{name:?}: {text}"))?;
                let kind = constant.kind;
                self.constants.push(constant);
                (kind, Origin::Constant(self.constants.len() - 1))
            }
            None => {
                let kind = self.around.kind_of(name)?;
                self.inputs.push((name.to_owned(), kind));
                (kind, Origin::Input(self.inputs.len() - 1))
            }
        };
        self.places.insert(name.to_owned(), self.outer.len());
        self.outer.push(OuterValue {
            name: name.to_owned(),
            kind,
            origin,
        });
        Ok(kind)
    }

    /// Where the elements of an outer value that was read are known from.
    fn origin(&self, name: &str) -> Result<Origin, String> {
        let place = self.places.get(name);
        let place = place.ok_or_else(|| format!("{name:?} is not read"))?;
        Ok(self.outer[*place].origin)
    }

    fn constant_index(&self, name: &str) -> Option<usize> {
        match self.outer[*self.places.get(name)?].origin {
            Origin::Constant(index) => Some(index),
            Origin::Input(_) => None,
        }
    }

    /// The type of a value that a node reads.
    fn kind(&mut self, name: &str) -> Result<Kind, String> {
        match self.kinds.get(name) {
            Some(kind) => Ok(*kind),
            None => self.outer(name),
        }
    }

    /// Whether a program knows the value while it is made.
    fn is_known(&self, name: &str) -> bool {
        match self.kinds.contains_key(name) {
            true => self.known.contains(name),
            false => self.around.may_know(name),
        }
    }

    /// Reads the constants of a graph.
    fn constants_of(&mut self, graph: &GraphProto) -> Result<(), String> {
        for tensor in &graph.initializer {
            self.constant(tensor.name(), tensor)?;
        }
        if let Some(name) = graph.sparse_tensors().next() {
            return Err(format!("{name:?} is a sparse constant"));
        }
        Ok(())
    }

    fn constant(&mut self, name: &str, tensor: &TensorProto) -> Result<(), String> {
        let constant = constant_of(tensor).map_err(|text| format!("{name:?}: {text}"))?;
        self.bind(name, constant.kind, constant.kind != Kind::Float);
        self.inner.insert(name.to_owned(), self.constants.len());
        self.constants.push(constant);
        Ok(())
    }

    fn node(&mut self, node: &NodeProto) -> Result<(), String> {
        let label = match node.name() {
            "" => format!("its {} node", node.op()),
            name => format!("its {} node {name:?}", node.op()),
        };
        let refuse = |text: &str| Err(format!("{label} {text}"));
        if !node.domain().is_empty() {
            return refuse(&format!("is of {}", node.domain()));
        }
        if node.is("Constant") {
            let tensor = value_of(node).ok_or_else(|| format!("{label} has no value"))?;
            let name = node.outputs().next().unwrap_or_default().to_owned();
            return self.constant(&name, &tensor);
        }
        if node.is("If") {
            return self.branches(node, &label);
        }
        if node.is("Loop") || node.is("Scan") {
            return self.inner_loop(node).or_else(|text| refuse(&text));
        }
        let Some(rule) = operators::rule_of(node.op()) else {
            return refuse("is none that programs have");
        };
        self.check(node, rule).or_else(|text| refuse(&text))
    }

    fn check(&mut self, node: &NodeProto, rule: &Rule) -> Result<(), String> {
        let mut kinds = vec![];
        let mut all_known = true;
        for (index, name) in node.input.iter().enumerate() {
            if name.is_empty() {
                kinds.push(None);
                continue;
            }
            let kind = self.kind(name);
            let kind = kind.map_err(|text| format!("reads what no program has: {text}"))?;
            let is_known = self.is_known(name);
            all_known &= is_known && kind != Kind::Float;
            if rule.known.contains(&index) {
                if !is_known {
                    return Err(format!("reads {name:?}, which each step computes"));
                }
                if kind == Kind::Float {
                    return Err(format!("reads {name:?}, which is of {kind:?}"));
                }
            } else {
                let fits = match rule.takes {
                    Takes::Floats => kind == Kind::Float,
                    Takes::Numbers => kind != Kind::Bool,
                    Takes::Truths => kind == Kind::Bool,
                    Takes::Any => true,
                };
                if !fits {
                    return Err(format!("reads {name:?}, which is of {kind:?}"));
                }
            }
            kinds.push(Some(kind));
        }
        operators::check(node, self.opset)?;
        let of = |index: usize| kinds.get(index).copied().flatten();
        let kind = match rule.gives {
            Gives::Same | Gives::SameAndInt64 => of(0),
            Gives::Second => of(1),
            Gives::OfThird => of(2),
            Gives::Int64 => Some(Kind::Int64),
            Gives::Bool => Some(Kind::Bool),
            Gives::To => {
                let code = node.int("to").value().unwrap_or_default() as i32;
                let kind = Kind::of(code);
                Some(kind.ok_or_else(|| format!("makes elements of {}", type_name(code)))?)
            }
            Gives::Value => {
                let tensor = node.tensor("value").value();
                let code = tensor.map_or(FLOAT, TensorProto::code);
                let kind = Kind::of(code);
                Some(kind.ok_or_else(|| format!("makes elements of {}", type_name(code)))?)
            }
        };
        let kind = kind.ok_or("lacks an input")?;
        let is_known = kind != Kind::Float && (rule.is_of_sizes || rule.folds && all_known);
        for (index, name) in node.output.iter().enumerate() {
            let kind = match (rule.gives, index) {
                (Gives::SameAndInt64, 1) => Kind::Int64,
                _ => kind,
            };
            self.bind(name, kind, is_known);
        }
        Ok(())
    }

    /// Keeps the graphs of a node, and reads what they read.
    fn keep(&mut self, node: &NodeProto, bodies: Vec<Body>) -> Result<(), String> {
        for (name, _) in bodies.iter().flat_map(|body| &body.inputs) {
            self.kind(name)?;
        }
        let name = node.outputs().next().unwrap_or_default().to_owned();
        match self.bodies.insert(name, bodies) {
            None => Ok(()),
            Some(_) => Err("has the outputs of another one".into()),
        }
    }

    /// Reads a loop in the body.
    fn inner_loop(&mut self, node: &NodeProto) -> Result<(), String> {
        let body = Body::of(node, self.opset, self)?;
        let leading = if node.is("Loop") { BEFORE_STATES } else { 0 };
        for name in node.input.iter().take(leading) {
            if !name.is_empty() && !self.is_known(name) {
                return Err(format!("reads {name:?}, which each step computes"));
            }
        }
        // How many steps collect is known if no step decides.
        let pairs = std::iter::zip(&node.output, &body.outputs);
        let pairs: Vec<(String, Kind)> = pairs
            .filter_map(|(name, kind)| Some((name.clone(), (*kind)?)))
            .collect();
        for (name, kind) in pairs {
            self.bind(&name, kind, false);
        }
        self.keep(node, vec![body])
    }

    /// Reads both branches of an If.
    fn branches(&mut self, node: &NodeProto, label: &str) -> Result<(), String> {
        let condition = node.input(0).unwrap_or_default();
        if self.kind(condition)? != Kind::Bool {
            return Err(format!("{label} has a condition of another type"));
        }
        let is_decided = self.is_known(condition);
        let names = ["then_branch", "else_branch"];
        let graphs = [node.graph(names[0]), node.graph(names[1])];
        if let ([Some(one), Some(other)], false) = (graphs, is_decided)
            && appends([one, other])
        {
            return Err(format!("{label} appends under a condition of a step"));
        }
        let mut kinds: [Vec<(Kind, bool)>; 2] = Default::default();
        let mut bodies = vec![];
        for (kinds, name) in std::iter::zip(&mut kinds, names) {
            let graph = node
                .graph(name)
                .ok_or_else(|| format!("{label} has no {name}"))?;
            bodies.push(Body::once(graph, node, self.opset, self)?);
            self.constants_of(graph)?;
            for inner in &graph.node {
                self.node(inner)?;
            }
            for output in graph.outputs() {
                let kind = self.kind(output)?;
                kinds.push((kind, self.is_known(output) && kind != Kind::Float));
            }
        }
        let pairs = std::iter::zip(&kinds[0], &kinds[1]);
        for (name, (one, other)) in std::iter::zip(&node.output, pairs) {
            if one.0 != other.0 {
                return Err(format!("{label} has outputs of two types"));
            }
            self.bind(name, one.0, is_decided && one.1 && other.1);
        }
        self.keep(node, bodies)
    }
}
