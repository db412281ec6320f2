//! Groups operators of a model for fusion, and writes the program of a group.
//!
//! A group is found before sizes are known: an operator joins if its elements are few, and if all
//! its symbols have numbers before the first step. The program is written when the group first
//! runs, for the sizes at hand, and again when they change. An operator that does not fit splits
//! its readers off into a later group.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use recurrent_layers::{Activation as OfLayer, PackedMatrix};
use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::{AxisOp, IntoShape};
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::logic::{self, Iff};
use tract_onnx::tract_core::ops::{math, nn};
use tract_onnx::tract_core::tract_linalg::routines::Func;
use tract_onnx::tract_hir::internal::*;

use super::Fused;
use super::program::{Function, Instruction, Operand, Output, Program, Unary};
use super::view::{Base, View};
use crate::binary::Binary;
use crate::other_sizes::OtherSizes;
use crate::recurrent::activation::Activation;
use crate::repairs::kernel::Kernel;

/// The most elements of a value, not counting symbolic sizes: with more, an operator's fixed cost
/// is small.
const MAXIMUM_ELEMENTS: u64 = 1 << 14;

/// The most multiplications of a product, not counting symbolic sizes: with more, tract's threads
/// share it.
const MAXIMUM_MULTIPLICATIONS: u64 = 1 << 20;

/// The effect of a fusable operator.
enum FusableOp {
    Unary(Unary),
    Binary(Binary),
    Select,
    Product(Product),
    /// The same elements in the same order.
    Same,
    Move(usize, usize),
    Slice(usize, Range<usize>),
}

impl FusableOp {
    fn is_computed(&self) -> bool {
        !matches!(self, Self::Same | Self::Move(..) | Self::Slice(..))
    }
}

/// A product of matrices: the two inputs, their axes in the order to be multiplied, and the number
/// of axes that both share.
struct Product {
    inputs: [usize; 2],
    axes: [TVec<usize>; 2],
    inner: usize,
}

/// A size, or 1 if it is symbolic.
fn size_or_1(size: &TDim) -> u64 {
    size.to_i64().map_or(1, i64::unsigned_abs)
}

fn unary(op: &ElementWiseOp) -> Option<Unary> {
    let kernel = |function: Func| Kernel::new(function).ok().map(Unary::Kernel);
    let op = &op.0;
    if let Some(function) = op.downcast_ref::<Activation>() {
        return Some(Unary::Activation(*function));
    }
    let of_layer = |function: OfLayer| Some(Unary::Activation(Activation::OfLayer(function)));
    match () {
        () if op.is::<nn::Sigmoid>() => of_layer(OfLayer::Sigmoid),
        () if op.is::<math::Tanh>() => of_layer(OfLayer::Tanh),
        () if op.is::<math::Exp>() => kernel(Func::Exp),
        () if op.is::<math::Ln>() => kernel(Func::Ln),
        () if op.is::<math::Erf>() => kernel(Func::Erf),
        () if op.is::<math::Abs>() => Some(Unary::Abs),
        () if op.is::<math::Neg>() => Some(Unary::Neg),
        () if op.is::<logic::Not>() => Some(Unary::Not),
        () if op.is::<math::Recip>() => Some(Unary::Recip),
        () if op.is::<math::Sqrt>() => Some(Unary::Sqrt),
        () if op.is::<math::Square>() => Some(Unary::Square),
        () => None,
    }
}

/// Reads a small product with a constant matrix.
fn product(op: &EinSum, facts: &[&TypedFact]) -> Option<Product> {
    let floats = f32::datum_type();
    let is_plain = op.q_params.is_none() && op.operating_dt == floats;
    if !is_plain || facts.len() != 2 || facts.iter().any(|fact| fact.datum_type != floats) {
        return None;
    }
    // The axes of only the first and only the second input, with their places in the output, and
    // the shared axes.
    let mut rows: Vec<(usize, usize)> = vec![];
    let mut columns: Vec<(usize, usize)> = vec![];
    let mut inner: Vec<(usize, usize)> = vec![];
    let mut multiplications = 1u64;
    for axis in op.axes.iter_all_axes() {
        let at = |place: &[usize]| match *place {
            [] => Some(None),
            [at] => Some(Some(at)),
            _ => None,
        };
        let places = (
            at(&axis.inputs[0])?,
            at(&axis.inputs[1])?,
            at(&axis.outputs[0])?,
        );
        let size = |input: usize, at: usize| &facts[input].shape[at];
        let place = match places {
            // Axes of size 1 may be anywhere.
            (None, None, _) => continue,
            (Some(a), Some(b), _) if size(0, a).is_one() && size(1, b).is_one() => continue,
            (Some(a), None, _) if size(0, a).is_one() => continue,
            (None, Some(b), _) if size(1, b).is_one() => continue,
            (Some(a), Some(b), None) if size(0, a) == size(1, b) => {
                inner.push((a, b));
                size(0, a)
            }
            (Some(a), None, Some(out)) => {
                rows.push((out, a));
                size(0, a)
            }
            (None, Some(b), Some(out)) => {
                columns.push((out, b));
                size(1, b)
            }
            _ => return None,
        };
        multiplications = multiplications.checked_mul(size_or_1(place))?;
    }
    let mut inputs = [0, 1];
    let mut axes: [TVec<usize>; 2] = [
        inner.iter().map(|axis| axis.0).collect(),
        inner.iter().map(|axis| axis.1).collect(),
    ];
    let is_after =
        |a: &[(usize, usize)], b: &[(usize, usize)]| match (a.iter().max(), b.iter().min()) {
            (Some(last), Some(first)) => last > first,
            _ => false,
        };
    if is_after(&rows, &columns) {
        std::mem::swap(&mut rows, &mut columns);
        inputs.swap(0, 1);
        axes.swap(0, 1);
    }
    let is_constant = facts[inputs[1]].konst.is_some();
    if is_after(&rows, &columns) || !is_constant || multiplications > MAXIMUM_MULTIPLICATIONS {
        return None;
    }
    rows.sort_unstable();
    columns.sort_unstable();
    axes[0].insert_many(0, rows.iter().map(|axis| axis.1));
    axes[1].extend(columns.iter().map(|axis| axis.1));
    let inner = inner.len();
    Some(Product {
        inputs,
        axes,
        inner,
    })
}

/// Whether a value has few elements, which are floats or bools.
fn is_small(fact: &TypedFact) -> bool {
    let datum_type = fact.datum_type;
    let elements = fact.shape.iter().map(size_or_1);
    let elements = elements.fold(1, u64::saturating_mul);
    fact.is_plain()
        && (datum_type.is::<f32>() || datum_type.is::<bool>())
        && (1..=MAXIMUM_ELEMENTS).contains(&elements)
}

fn fusable_op(model: &TypedModel, node: &TypedNode) -> TractResult<Option<FusableOp>> {
    let (inputs, outputs) = model.node_facts(node.id)?;
    let op = &node.op;
    // The matrix of a product is bounded by its multiplications.
    let is_matrix = |fact: &TypedFact| op.is::<EinSum>() && fact.konst.is_some();
    let mut facts = inputs.iter().chain(&outputs);
    rule_if!(outputs.len() == 1 && facts.all(|fact| is_matrix(fact) || is_small(fact)));
    Ok(if let Some(op) = op.downcast_ref::<ElementWiseOp>() {
        unary(op).map(FusableOp::Unary)
    } else if let Some(op) = op.downcast_ref::<TypedBinOp>() {
        Binary::of(&*op.0).map(FusableOp::Binary)
    } else if op.is::<Iff>() {
        Some(FusableOp::Select)
    } else if let Some(op) = op.downcast_ref::<EinSum>() {
        product(op, &inputs).map(FusableOp::Product)
    } else if op.is::<Cast>() {
        let to_truth = outputs[0].datum_type.is::<bool>() && inputs[0].datum_type.is::<f32>();
        Some(if to_truth {
            FusableOp::Unary(Unary::Truth)
        } else {
            FusableOp::Same
        })
    } else if let Some(op) = op.downcast_ref::<AxisOp>() {
        Some(match *op {
            AxisOp::Move(from, to) => FusableOp::Move(from, to),
            _ => FusableOp::Same,
        })
    } else if op.is::<IntoShape>() {
        Some(FusableOp::Same)
    } else if let Some(op) = op.downcast_ref::<Slice>() {
        // Bounds beyond the axis are an error when it runs.
        let size = inputs[0].shape[op.axis].as_usize();
        let bounds = (op.start.as_usize(), op.end.as_usize(), size);
        match bounds {
            (Some(start), Some(end), Some(size)) if start <= end && end <= size => {
                Some(FusableOp::Slice(op.axis, start..end))
            }
            _ => None,
        }
    } else {
        None
    })
}

/// The groups of nodes to fuse. Groups are convex: every node on a path between two nodes of a
/// group is in it.
fn groups(model: &TypedModel, known: &HashSet<Symbol>) -> TractResult<Vec<Vec<usize>>> {
    let is_stable = |size: &TDim| size.symbols().iter().all(|it| known.contains(it));
    // A path that leaves a group goes up a level, so it cannot return to it. Before the first group
    // there is no level.
    let mut levels: HashMap<usize, Option<usize>> = HashMap::new();
    let mut groups: Vec<(usize, Vec<usize>)> = vec![];
    for id in model.eval_order()? {
        let node = model.node(id);
        let before = node.inputs.iter().map(|input| levels[&input.node]);
        let before = before.max().flatten();
        let fusable_op = match fusable_op(model, node)? {
            Some(fusable_op) if sizes(model, node)?.all(&is_stable) => fusable_op,
            _ => {
                levels.insert(id, before.map(|level| level + 1));
                continue;
            }
        };
        let level = before.unwrap_or(0);
        levels.insert(id, Some(level));
        if groups.len() <= level {
            groups.resize(level + 1, (0, vec![]));
        }
        let (computed, nodes) = &mut groups[level];
        *computed += usize::from(fusable_op.is_computed());
        nodes.push(id);
    }
    let worth = groups.into_iter().filter(|(computed, _)| *computed > 1);
    Ok(worth.map(|(_, nodes)| nodes).collect())
}

/// All sizes of a node's inputs and outputs.
fn sizes<'a>(
    model: &'a TypedModel,
    node: &'a TypedNode,
) -> TractResult<impl Iterator<Item = &'a TDim>> {
    let (inputs, outputs) = model.node_facts(node.id)?;
    let facts = inputs.into_iter().chain(outputs);
    Ok(facts.flat_map(|fact| fact.shape.iter()))
}

/// A group of operators of a model.
#[derive(Clone, Debug)]
pub(super) struct Group {
    model: TypedModel,
    nodes: Vec<usize>,
    pub(super) inputs: TVec<OutletId>,
    pub(super) outputs: TVec<OutletId>,
    /// The symbols in its sizes that are not the size of an axis of an input.
    others: TVec<Symbol>,
    /// The matrices of products, by node: they are constants, the same for all sizes.
    matrices: Arc<Mutex<HashMap<usize, PackedMatrix<f32>>>>,
}

impl Group {
    fn new(model: &TypedModel, nodes: Vec<usize>) -> TractResult<Self> {
        let is_within = |id: usize| nodes.contains(&id);
        let mut inputs: TVec<OutletId> = tvec![];
        let mut outputs: TVec<OutletId> = tvec![];
        for &id in &nodes {
            let node = model.node(id);
            for &input in &node.inputs {
                let is_constant = model.outlet_fact(input)?.konst.is_some();
                if !is_within(input.node) && !is_constant && !inputs.contains(&input) {
                    inputs.push(input);
                }
            }
            let mut successors = node.outputs[0].successors.iter();
            if model.outputs.contains(&id.into()) || successors.any(|to| !is_within(to.node)) {
                outputs.push(id.into());
            }
        }
        let mut others: TVec<Symbol> = tvec![];
        for &id in &nodes {
            others.extend(sizes(model, model.node(id))?.flat_map(TDim::symbols));
        }
        others.sort_unstable();
        others.dedup();
        for input in &inputs {
            for size in model.outlet_fact(*input)?.shape.iter() {
                others.retain(|symbol| !matches!(size, TDim::Sym(it) if it == symbol));
            }
        }
        Ok(Self {
            model: model.clone(),
            nodes,
            inputs,
            outputs,
            others,
            matrices: Arc::default(),
        })
    }

    /// The values of the symbols that the shapes of the inputs do not tell.
    pub(super) fn other_sizes(&self, symbols: &SymbolValues) -> impl Iterator<Item = Option<i64>> {
        self.others.iter().map(|symbol| symbols.get(symbol))
    }

    /// Checks that the inputs have the sizes given by the symbols.
    pub(super) fn check<'a>(
        &self,
        symbols: &SymbolValues,
        shapes: impl Iterator<Item = &'a [usize]>,
    ) -> TractResult<()> {
        for (input, shape) in std::iter::zip(&self.inputs, shapes) {
            OtherSizes::check(shape, &self.model.outlet_fact(*input)?.shape, symbols)?;
        }
        Ok(())
    }

    pub(super) fn facts(&self) -> TractResult<TVec<TypedFact>> {
        let outputs = self.outputs.iter().map(|output| {
            let fact = self.model.outlet_fact(*output)?;
            Ok(fact.datum_type.fact(fact.shape.clone()))
        });
        outputs.collect()
    }

    /// The program for these values of symbols.
    pub(super) fn program(&self, symbols: &SymbolValues) -> TractResult<Program> {
        let mut writer = Writer {
            group: self,
            symbols,
            constants: vec![],
            instructions: vec![],
            views: HashMap::new(),
        };
        for &id in &self.nodes {
            let fusable_op = fusable_op(&self.model, self.model.node(id))?;
            writer.node(id, fusable_op.context("it was one before")?)?;
        }
        let outputs = self.outputs.iter().map(|&outlet| {
            let view = writer.view(outlet)?;
            Ok(Output {
                shape: view.sizes(),
                elements: writer.flat(view)?,
                datum_type: self.model.outlet_fact(outlet)?.datum_type,
            })
        });
        let outputs = outputs.collect::<TractResult<Vec<_>>>()?;
        Ok(Program::new(writer.instructions, writer.constants, outputs))
    }
}

/// A group's program under construction.
struct Writer<'a> {
    group: &'a Group,
    symbols: &'a SymbolValues,
    constants: Vec<Vec<f32>>,
    instructions: Vec<Instruction>,
    /// The views of computed values.
    views: HashMap<OutletId, View>,
}

impl Writer<'_> {
    fn sizes(&self, outlet: OutletId) -> TractResult<TVec<usize>> {
        let shape = &self.group.model.outlet_fact(outlet)?.shape;
        Ok(shape.eval_to_usize(self.symbols)?.into_owned())
    }

    fn compute(&mut self, function: Function, operands: TVec<Operand>, len: usize) -> Base {
        self.instructions.push(Instruction {
            function,
            operands,
            len,
        });
        Base::Value(self.instructions.len() - 1)
    }

    /// A view of a value's elements.
    fn view(&mut self, outlet: OutletId) -> TractResult<View> {
        if let Some(view) = self.views.get(&outlet) {
            return Ok(view.clone());
        }
        let sizes = self.sizes(outlet)?;
        let fact = self.group.model.outlet_fact(outlet)?;
        let input = self.group.inputs.iter().position(|it| *it == outlet);
        let view = if let Some(input) = input {
            let view = View::whole(Base::Input(input), &sizes);
            if fact.datum_type.is::<bool>() {
                // Everything else reads numbers.
                let len = view.len();
                let function = Function::Read(view.into_merged());
                View::whole(self.compute(function, tvec![], len), &sizes)
            } else {
                view
            }
        } else {
            let value = fact
                .konst
                .as_ref()
                .context("a constant, or it is an input")?;
            let value = value.cast_to::<f32>()?;
            let value = value.try_as_plain_ram()?.as_slice::<f32>()?.to_vec();
            self.keep(value).view(&sizes)
        };
        self.views.insert(outlet, view.clone());
        Ok(view)
    }

    /// The elements of a view, made contiguous.
    fn flat(&mut self, view: View) -> TractResult<Operand> {
        let len = view.len();
        let at = |start: usize| Operand {
            base: view.base,
            start,
            len,
        };
        if len == 0 {
            // A symbolic batch may be empty, without a first element.
            return Ok(at(0));
        }
        let elements = self.elements(view.base)?;
        ensure!(
            view.extent() <= elements,
            "a view of {} elements of {elements}",
            view.extent()
        );
        if let Some(range) = view.contiguous() {
            return Ok(at(range.start));
        }
        if let Some(elements) = self.constant_elements(&view) {
            return Ok(self.keep(elements));
        }
        Ok(Operand {
            base: self.compute(Function::Read(view.into_merged()), tvec![], len),
            start: 0,
            len,
        })
    }

    /// The number of elements of a base.
    fn elements(&self, base: Base) -> TractResult<usize> {
        Ok(match base {
            Base::Input(input) => self.sizes(self.group.inputs[input])?.iter().product(),
            Base::Constant(constant) => self.constants[constant].len(),
            Base::Value(value) => self.instructions[value].len,
        })
    }

    /// The elements of a constant in the order of a view.
    fn constant_elements(&self, view: &View) -> Option<Vec<f32>> {
        let Base::Constant(constant) = view.base else {
            return None;
        };
        let constant = &self.constants[constant];
        if view.extent() > constant.len() {
            return None;
        }
        let mut elements = vec![0.0; view.len()];
        view.read(constant, &mut elements, |float| float);
        Some(elements)
    }

    fn keep(&mut self, elements: Vec<f32>) -> Operand {
        let len = elements.len();
        self.constants.push(elements);
        Operand {
            base: Base::Constant(self.constants.len() - 1),
            start: 0,
            len,
        }
    }

    /// The constant matrix of a product, packed once for all sizes.
    fn matrix(&self, node: &TypedNode, product: &Product) -> TractResult<PackedMatrix<f32>> {
        let matrices = &self.group.matrices;
        let mut matrices = matrices.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = matrices.get(&node.id) {
            return Ok(known.clone());
        }
        let fact = self
            .group
            .model
            .outlet_fact(node.inputs[product.inputs[1]])?;
        let value = fact.konst.as_ref().context("the matrix is a constant")?;
        let view = View::whole(Base::Constant(0), value.shape()).permute(&product.axes[1])?;
        let inner = view.sizes()[..product.inner].iter().product();
        let columns = view.len().checked_div(inner).context("an empty matrix")?;
        let mut elements = vec![0.0; view.len()];
        let plain = value.try_as_plain_ram()?;
        view.read(plain.as_slice::<f32>()?, &mut elements, |float| float);
        let packed = PackedMatrix::pack(&elements, [inner, columns])?;
        matrices.insert(node.id, packed.clone());
        Ok(packed)
    }

    fn node(&mut self, id: usize, fusable_op: FusableOp) -> TractResult<()> {
        let node = self.group.model.node(id);
        if node.outputs[0].fact.konst.is_some() {
            // Its readers take the constant.
            return Ok(());
        }
        let sizes = self.sizes(id.into())?;
        let len = sizes.iter().product();
        let is_matrix = |slot: usize| match &fusable_op {
            FusableOp::Product(product) => product.inputs[1] == slot,
            _ => false,
        };
        let inputs = node.inputs.iter().enumerate();
        let views: TVec<View> = inputs
            .filter(|(slot, _)| !is_matrix(*slot))
            .map(|(_, input)| self.view(*input))
            .collect::<TractResult<_>>()?;
        let whole = |base: Base| View::whole(base, &sizes);
        let view = match fusable_op {
            FusableOp::Unary(_) | FusableOp::Binary(_) | FusableOp::Select => {
                let operands = views
                    .into_iter()
                    .map(|view| self.flat(view.broadcast(&sizes)?));
                let operands = operands.collect::<TractResult<_>>()?;
                let function = match fusable_op {
                    FusableOp::Unary(function) => Function::Unary(function),
                    FusableOp::Binary(function) => Function::Binary(function),
                    _ => Function::Select,
                };
                whole(self.compute(function, operands, len))
            }
            FusableOp::Product(product) => {
                let rows = views[0].clone().permute(&product.axes[0])?;
                let operands = tvec![self.flat(rows)?];
                let matrix = self.matrix(node, &product)?;
                whole(self.compute(Function::Product(matrix), operands, len))
            }
            FusableOp::Slice(axis, range) => views[0].clone().slice(axis, range)?,
            FusableOp::Move(from, to) => {
                let mut axes: TVec<usize> = (0..sizes.len()).collect();
                let axis = axes.remove(from);
                axes.insert(to, axis);
                views[0].clone().permute(&axes)?
            }
            FusableOp::Same => match views[0].with_unit_axes(&sizes) {
                Some(view) => view,
                None => self.flat(views[0].clone())?.view(&sizes),
            },
        };
        self.views.insert(id.into(), view);
        Ok(())
    }
}

/// Fuses the first group of a model. All its sizes are numbers, or symbols known before the first
/// step.
pub(crate) fn fuse(
    model: &TypedModel,
    known: &HashSet<Symbol>,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if_some!(nodes = groups(model, known)?.into_iter().next());
    let name = format!("{}.fused", model.node(nodes[0]).name);
    let group = Group::new(model, nodes)?;
    let mut patch = TypedModelPatch::default();
    let inputs = patch.taps(model, &group.inputs)?;
    let outputs = group.outputs.clone();
    let outlets = patch.wire_node(name, Fused::new(group), &inputs)?;
    for (output, outlet) in std::iter::zip(outputs, outlets) {
        patch.shunt_outside(model, output, outlet)?;
    }
    Ok(Some(patch))
}
