//! Which operators of a model are run as one.

use std::ops::Range;

use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::{AxisOp, IntoShape};
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::logic::{self, Iff};
use tract_onnx::tract_core::ops::{math, nn};
use tract_onnx::tract_core::tract_linalg::routines::Func;
use tract_onnx::tract_hir::internal::*;

use super::Fused;
use super::program::{Binary, Function, Instruction, Operand, Output, Program, Unary, pack};
use super::view::{Base, View};

/// The most elements of a value: where there are more, an operator's own cost is little.
const MAXIMUM_ELEMENTS: usize = 1 << 14;

/// The most multiplications of a product that is computed without tract's packed
/// kernels.
const MAXIMUM_MULTIPLICATIONS: usize = 1 << 15;

/// What an operator does.
enum Meaning {
    Unary(Unary),
    Binary(Binary),
    Select,
    Product(Product),
    /// The same elements in the same order.
    Same,
    Move(usize, usize),
    Slice(usize, Range<usize>),
}

impl Meaning {
    fn is_computed(&self) -> bool {
        !matches!(self, Self::Same | Self::Move(..) | Self::Slice(..))
    }
}

/// A product of matrices: which inputs they are, and the axes of each.
struct Product {
    inputs: [usize; 2],
    axes: [TVec<usize>; 2],
    inner: usize,
    columns: usize,
}

fn unary(op: &ElementWiseOp) -> Option<Unary> {
    let kernel = |function: Func| function.ew_f32().ok().map(Unary::Kernel);
    let op = &op.0;
    match () {
        () if op.is::<nn::Sigmoid>() => kernel(Func::Sigmoid),
        () if op.is::<math::Tanh>() => kernel(Func::Tanh),
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

fn binary(op: &dyn BinMiniOp) -> Option<Binary> {
    Some(match () {
        () if op.is::<math::Add>() => Binary::Add,
        () if op.is::<math::Sub>() => Binary::Sub,
        () if op.is::<math::SubF>() => Binary::SubFrom,
        () if op.is::<math::Mul>() => Binary::Mul,
        () if op.is::<math::Div>() => Binary::Div,
        () if op.is::<math::Min>() => Binary::Min,
        () if op.is::<math::Max>() => Binary::Max,
        () if op.is::<logic::And>() => Binary::And,
        () if op.is::<logic::Or>() => Binary::Or,
        () if op.is::<logic::CompEq>() => Binary::Equal,
        () if op.is::<logic::CompNE>() => Binary::NotEqual,
        () if op.is::<logic::CompLT>() => Binary::Less,
        () if op.is::<logic::CompLTE>() => Binary::LessOrEqual,
        () if op.is::<logic::CompGT>() => Binary::Greater,
        () if op.is::<logic::CompGTE>() => Binary::GreaterOrEqual,
        () => return None,
    })
}

/// A product with a constant matrix, if it is one and a small one.
fn product(op: &EinSum, facts: &[&TypedFact]) -> Option<Product> {
    let floats = f32::datum_type();
    let is_plain = op.q_params.is_none() && op.operating_dt == floats;
    if !is_plain || facts.len() != 2 || facts.iter().any(|fact| fact.datum_type != floats) {
        return None;
    }
    let sizes = [facts[0].shape.as_concrete()?, facts[1].shape.as_concrete()?];
    // The axes of the first input alone, of the second alone, and of both.
    let mut rows = vec![];
    let mut columns = vec![];
    let mut inner = vec![];
    for axis in op.axes.iter_all_axes() {
        let at = |of: &[usize]| match *of {
            [] => Some(None),
            [at] => Some(Some(at)),
            _ => None,
        };
        let places = (
            at(&axis.inputs[0])?,
            at(&axis.inputs[1])?,
            at(&axis.outputs[0])?,
        );
        let size = |input: usize, at: usize| sizes[input][at];
        match places {
            (Some(a), Some(b), out) => match (size(0, a), size(1, b)) {
                (1, 1) => {}
                (k, l) if k == l && out.is_none() => inner.push((a, b, k)),
                _ => return None,
            },
            (Some(a), None, Some(out)) if size(0, a) != 1 => rows.push((out, a, size(0, a))),
            (None, Some(b), Some(out)) if size(1, b) != 1 => columns.push((out, b, size(1, b))),
            // Axes of size 1 may be anywhere.
            (None, None, _) => {}
            (Some(a), None, _) if size(0, a) == 1 => {}
            (None, Some(b), _) if size(1, b) == 1 => {}
            _ => return None,
        }
    }
    let mut inputs = [0, 1];
    let mut reads: [TVec<usize>; 2] = [
        inner.iter().map(|axis| axis.0).collect(),
        inner.iter().map(|axis| axis.1).collect(),
    ];
    if rows.iter().max() > columns.iter().min() && !rows.is_empty() && !columns.is_empty() {
        std::mem::swap(&mut rows, &mut columns);
        inputs.swap(0, 1);
        reads.swap(0, 1);
        if rows.iter().max() > columns.iter().min() {
            return None;
        }
    }
    facts[inputs[1]].konst.as_ref()?;
    rows.sort_unstable();
    columns.sort_unstable();
    let count = |axes: &[(usize, usize, usize)]| axes.iter().map(|axis| axis.2).product::<usize>();
    let multiplications = [&rows, &columns, &inner].map(|axes| count(axes));
    let total = multiplications
        .iter()
        .try_fold(1usize, |a, b| a.checked_mul(*b))?;
    if total > MAXIMUM_MULTIPLICATIONS {
        return None;
    }
    reads[0].insert_many(0, rows.iter().map(|axis| axis.1));
    reads[1].extend(columns.iter().map(|axis| axis.1));
    Some(Product {
        inputs,
        axes: reads,
        inner: count(&inner),
        columns: count(&columns),
    })
}

/// Whether all is known that is needed of a value: few elements, which are floats or truths.
fn is_small(fact: &TypedFact) -> bool {
    let of = fact.datum_type;
    let elements = fact.shape.volume().as_usize();
    fact.is_plain()
        && (of.is::<f32>() || of.is::<bool>())
        && elements.is_some_and(|it| (1..=MAXIMUM_ELEMENTS).contains(&it))
}

fn meaning(model: &TypedModel, node: &TypedNode) -> TractResult<Option<Meaning>> {
    let (inputs, outputs) = model.node_facts(node.id)?;
    rule_if!(outputs.len() == 1 && inputs.iter().chain(&outputs).all(|fact| is_small(fact)));
    let op = &node.op;
    Ok(if let Some(op) = op.downcast_ref::<ElementWiseOp>() {
        unary(op).map(Meaning::Unary)
    } else if let Some(op) = op.downcast_ref::<TypedBinOp>() {
        binary(&*op.0).map(Meaning::Binary)
    } else if op.is::<Iff>() {
        Some(Meaning::Select)
    } else if let Some(op) = op.downcast_ref::<EinSum>() {
        product(op, &inputs).map(Meaning::Product)
    } else if op.is::<Cast>() {
        let to_truth = outputs[0].datum_type.is::<bool>() && inputs[0].datum_type.is::<f32>();
        Some(if to_truth {
            Meaning::Unary(Unary::Truth)
        } else {
            Meaning::Same
        })
    } else if let Some(op) = op.downcast_ref::<AxisOp>() {
        Some(match *op {
            AxisOp::Move(from, to) => Meaning::Move(from, to),
            _ => Meaning::Same,
        })
    } else if op.is::<IntoShape>() {
        Some(Meaning::Same)
    } else if let Some(op) = op.downcast_ref::<Slice>() {
        let range = op.start.to_usize()?..op.end.to_usize()?;
        Some(Meaning::Slice(op.axis, range))
    } else {
        None
    })
}

type Group = Vec<(usize, Meaning)>;

/// The operators that are run together: each group is closed, in that what leads
/// from one of its nodes to another is in it.
fn groups(model: &TypedModel) -> TractResult<Vec<Group>> {
    // A path that leaves a group goes a level up, and so does not come back to it. Where
    // no group has been yet, there is no level.
    let mut levels: HashMap<usize, Option<usize>> = HashMap::new();
    let mut groups: Vec<Group> = vec![];
    for id in model.eval_order()? {
        let node = model.node(id);
        let before = node.inputs.iter().map(|input| levels[&input.node]);
        let before = before.max().flatten();
        let Some(meaning) = meaning(model, node)? else {
            levels.insert(id, before.map(|level| level + 1));
            continue;
        };
        let level = before.unwrap_or(0);
        levels.insert(id, Some(level));
        if groups.len() <= level {
            groups.resize_with(level + 1, Vec::new);
        }
        groups[level].push((id, meaning));
    }
    let is_worth = |group: &Group| group.iter().filter(|it| it.1.is_computed()).count() > 1;
    Ok(groups.into_iter().filter(is_worth).collect())
}

/// A group's program as it is written.
struct Writer<'a> {
    model: &'a TypedModel,
    inputs: TVec<OutletId>,
    constants: Vec<Vec<f32>>,
    instructions: Vec<Instruction>,
    /// Where what nodes compute is.
    views: HashMap<OutletId, View>,
}

impl Writer<'_> {
    fn sizes(&self, outlet: OutletId) -> TractResult<TVec<usize>> {
        let shape = &self.model.outlet_fact(outlet)?.shape;
        shape.as_concrete().map(Into::into).context("known sizes")
    }

    fn compute(&mut self, function: Function, operands: TVec<Operand>, len: usize) -> Base {
        self.instructions.push(Instruction {
            function,
            operands,
            len,
        });
        Base::Value(self.instructions.len() - 1)
    }

    /// Where the elements of a value are.
    fn view(&mut self, outlet: OutletId) -> TractResult<View> {
        if let Some(view) = self.views.get(&outlet) {
            return Ok(view.clone());
        }
        let sizes = self.sizes(outlet)?;
        let fact = self.model.outlet_fact(outlet)?;
        let view = if let Some(value) = &fact.konst {
            let value = value.cast_to::<f32>()?;
            let value = value.try_as_plain_ram()?.as_slice::<f32>()?.to_vec();
            self.constants.push(value);
            View::whole(Base::Constant(self.constants.len() - 1), &sizes)
        } else {
            self.inputs.push(outlet);
            let view = View::whole(Base::Input(self.inputs.len() - 1), &sizes);
            if fact.datum_type.is::<bool>() {
                // As numbers, which all else reads.
                let len = view.len();
                View::whole(
                    self.compute(Function::Read(view.into_merged()), tvec![], len),
                    &sizes,
                )
            } else {
                view
            }
        };
        self.views.insert(outlet, view.clone());
        Ok(view)
    }

    /// The elements of a view as they follow each other.
    fn flat(&mut self, view: View) -> Operand {
        let len = view.len();
        if let Some(range) = view.contiguous() {
            return Operand {
                base: view.base,
                start: range.start,
                len,
            };
        }
        let base = if let Base::Constant(constant) = view.base {
            let mut elements = vec![0.0; len];
            view.read(&self.constants[constant], &mut elements, |float| float);
            self.constants.push(elements);
            Base::Constant(self.constants.len() - 1)
        } else {
            self.compute(Function::Read(view.into_merged()), tvec![], len)
        };
        Operand {
            base,
            start: 0,
            len,
        }
    }

    /// A constant matrix for products.
    fn packed(&mut self, view: &View, columns: usize) -> TractResult<Operand> {
        let Base::Constant(constant) = view.base else {
            bail!("the matrix is a constant");
        };
        let mut elements = vec![0.0; view.len()];
        view.read(&self.constants[constant], &mut elements, |float| float);
        let packed = pack(&elements, columns);
        let len = packed.len();
        self.constants.push(packed);
        Ok(Operand {
            base: Base::Constant(self.constants.len() - 1),
            start: 0,
            len,
        })
    }

    fn node(&mut self, id: usize, meaning: Meaning) -> TractResult<()> {
        let node = self.model.node(id);
        let sizes = self.sizes(id.into())?;
        let len = sizes.iter().product();
        let views: TVec<View> = node
            .inputs
            .iter()
            .map(|input| self.view(*input))
            .collect::<TractResult<_>>()?;
        let whole = |base: Base| View::whole(base, &sizes);
        let view = match meaning {
            Meaning::Unary(_) | Meaning::Binary(_) | Meaning::Select => {
                let operands = views
                    .into_iter()
                    .map(|view| self.flat(view.broadcast(&sizes)));
                let operands = operands.collect();
                let function = match meaning {
                    Meaning::Unary(function) => Function::Unary(function),
                    Meaning::Binary(function) => Function::Binary(function),
                    _ => Function::Select,
                };
                whole(self.compute(function, operands, len))
            }
            Meaning::Product(product) => {
                let [a, b] = [0, 1].map(|at| {
                    let view = views[product.inputs[at]].clone();
                    view.permute(&product.axes[at])
                });
                let Product { inner, columns, .. } = product;
                let operands = tvec![self.flat(a), self.packed(&b, columns)?];
                whole(self.compute(Function::Product { inner, columns }, operands, len))
            }
            Meaning::Slice(axis, range) => views[0].clone().slice(axis, range),
            Meaning::Move(from, to) => {
                let mut axes: TVec<usize> = (0..sizes.len()).collect();
                let axis = axes.remove(from);
                axes.insert(to, axis);
                views[0].clone().permute(&axes)
            }
            Meaning::Same => match views[0].with_unit_axes(&sizes) {
                Some(view) => view,
                None => self.flat(views[0].clone()).view(&sizes),
            },
        };
        self.views.insert(id.into(), view);
        Ok(())
    }
}

/// Makes one operator of the first group of a model that can be.
pub(crate) fn fuse(model: &TypedModel) -> TractResult<Option<TypedModelPatch>> {
    rule_if_some!(group = groups(model)?.into_iter().next());
    let nodes: Vec<usize> = group.iter().map(|(id, _)| *id).collect();
    let mut writer = Writer {
        model,
        inputs: tvec![],
        constants: vec![],
        instructions: vec![],
        views: HashMap::new(),
    };
    for (id, meaning) in group {
        writer.node(id, meaning)?;
    }
    let is_read_outside = |id: &usize| {
        let mut successors = model.node(*id).outputs[0].successors.iter();
        model.outputs.contains(&(*id).into()) || successors.any(|to| !nodes.contains(&to.node))
    };
    let read_outside: Vec<usize> = nodes.iter().copied().filter(is_read_outside).collect();
    let outputs = read_outside.iter().map(|&id| {
        let view = writer.view(id.into())?;
        Ok(Output {
            shape: view.sizes(),
            elements: writer.flat(view),
            datum_type: model.outlet_fact(id.into())?.datum_type,
        })
    });
    let outputs = outputs.collect::<TractResult<Vec<_>>>()?;
    let op = Fused::new(Program::new(writer.instructions, writer.constants, outputs));
    let mut patch = TypedModelPatch::default();
    let inputs = patch.taps(model, &writer.inputs)?;
    let name = format!("{}.fused", model.node(nodes[0]).name);
    let outlets = patch.wire_node(name, op, &inputs)?;
    for (id, outlet) in std::iter::zip(read_outside, outlets) {
        patch.shunt_outside(model, id.into(), outlet)?;
    }
    Ok(Some(patch))
}
