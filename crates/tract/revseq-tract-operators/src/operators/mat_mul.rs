//! MatMul of two vectors, which tract refuses, of wide integers, which it cannot run, and of sizes that may
//! broadcast, which it takes for equal.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::ops::change_axes::{AxisOp, wire_rank_broadcast};
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::tract_num_traits::{WrappingAdd, WrappingMul, Zero};

use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};
use crate::other_sizes::OtherSizes;
use crate::typed_op::{Stateless, Typed};

/// Parses a MatMul.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    over_tract(ctx, node, MatMul)
}

#[derive(Clone, Debug)]
struct MatMul;

impl Operator for MatMul {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let shapes = node.inputs.iter().map(|fact| fact.shape.concretize());
        let shapes: Option<TVec<TVec<TDim>>> = shapes.collect();
        if let Some([a, b]) = shapes.as_deref()
            && let (Some(columns), Some(rows)) = (a.last(), b.iter().rev().take(2).next_back())
            && let (Ok(columns), Ok(rows)) = (columns.to_i64(), rows.to_i64())
        {
            ensure!(
                columns == rows,
                "its operands have {columns} columns and {rows} rows, expected as many"
            );
        }
        let mut ranks = node.inputs.iter().map(|it| it.shape.rank().concretize());
        node.computes &= !ranks.all(|rank| rank == Some(1));
        Ok(None)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let (a, b) = (node.input(0)?, node.input(1)?);
        let are_vectors = a.rank() == 1 && b.rank() == 1;
        let datum_type = a.datum_type;
        let is_wide =
            [i64::datum_type(), u64::datum_type(), u32::datum_type()].contains(&datum_type);
        let is_open = may_broadcast(&batch(a), &batch(b));
        rule_if!(is_wide || is_open || are_vectors);
        let product = of_matrices(node, [node.inputs[0], node.inputs[1]], |node, operands| {
            let mut operands = wire_rank_broadcast(node.part("operand"), node.model, &operands)?;
            if is_wide {
                return node.op("product", Typed(IntegerProduct), &operands);
            }
            let rank = node.fact(operands[0])?.rank();
            if is_open {
                operands = broadcast(node, &operands, rank - 2)?;
            }
            let axes = AxesMapping::for_numpy_matmul(rank, false, false, false)?;
            node.op("product", EinSum::new(axes, datum_type), &operands)
        });
        Ok(Some(tvec![product?]))
    }
}

/// Wires a product of matrices for operands that may be vectors: a row on the left side, and a column on the
/// right side.
pub(super) fn of_matrices(
    node: &mut Wiring<'_>,
    mut operands: [OutletId; 2],
    product: impl FnOnce(&mut Wiring<'_>, [OutletId; 2]) -> TractResult<OutletId>,
) -> TractResult<OutletId> {
    let mut is_vector = [false; 2];
    for (side, operand) in operands.iter_mut().enumerate() {
        let rank = node.fact(*operand)?.rank();
        ensure!(
            rank > 0,
            "an operand is a scalar, expected a matrix or a vector"
        );
        is_vector[side] = rank == 1;
        if is_vector[side] {
            *operand = node.op("matrix", AxisOp::Add(side), &[*operand])?;
        }
    }
    let mut made = product(node, operands)?;
    let rank = node.fact(made)?.rank();
    for (side, axis) in [(1, rank - 1), (0, rank - 2)] {
        if is_vector[side] {
            made = node.op("vector", AxisOp::Rm(axis), &[made])?;
        }
    }
    Ok(made)
}

/// The shape of a product of matrices, whose other axes broadcast.
pub(super) fn product_shape<D: DimLike>(a: &[D], b: &[D]) -> TractResult<TVec<D>> {
    let ([batch_a @ .., rows, inner], [batch_b @ .., other, columns]) = (a, b) else {
        bail!(
            "its operands have {} and {} axes, expected 2 or more",
            a.len(),
            b.len()
        );
    };
    if !inner.compatible_with(other) {
        return Err(OtherSizes::error(format!(
            "its operands have {inner} columns and {other} rows, expected as many"
        )));
    }
    let mut shape = multi_broadcast(&[batch_a, batch_b])?;
    shape.extend([rows.clone(), columns.clone()]);
    Ok(shape)
}

/// The sizes of the axes before those of a matrix, from the last on.
fn batch(fact: &TypedFact) -> TVec<TDim> {
    let sizes = fact.shape.iter().rev().skip(2);
    sizes.cloned().collect()
}

/// Whether sizes, from the last on, may differ, one of them 1: tract takes either for the other.
fn may_broadcast(a: &[TDim], b: &[TDim]) -> bool {
    let is_number = |size: &TDim| size.to_i64().is_ok();
    std::iter::zip(a, b)
        .any(|(a, b)| !(a == b || a.is_one() || b.is_one() || is_number(a) && is_number(b)))
}

/// Broadcasts the first axes of two operands to the same sizes.
fn broadcast(
    node: &mut Wiring<'_>,
    operands: &[OutletId],
    axes: usize,
) -> TractResult<TVec<OutletId>> {
    let shapes = operands
        .iter()
        .map(|it| Ok(node.fact(*it)?.shape.to_tvec()));
    let shapes: TVec<TVec<TDim>> = shapes.collect::<TractResult<_>>()?;
    let batch: TVec<&[TDim]> = shapes.iter().map(|shape| &shape[..axes]).collect();
    let batch = multi_broadcast(&batch)?;
    let operands = std::iter::zip(operands, &shapes).map(|(operand, shape)| {
        let mut to = batch.clone();
        to.extend(shape[axes..].iter().cloned());
        if to == *shape {
            return Ok(*operand);
        }
        node.op("batch", MultiBroadcastTo::new(to.into()), &[*operand])
    });
    operands.collect()
}

/// The product of matrices of integers, which wraps around. The operands have as many axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct IntegerProduct;

impl IntegerProduct {
    fn product<T>(a: &Tensor, b: &Tensor, shape: &[usize]) -> TractResult<Tensor>
    where
        T: Datum + Copy + WrappingAdd + WrappingMul + Zero,
    {
        let batch = &shape[..shape.len() - 2];
        let (a, b) = (a.to_plain_array_view::<T>()?, b.to_plain_array_view::<T>()?);
        let of_batch = |sizes: &[usize]| [batch, &sizes[sizes.len() - 2..]].concat();
        let a = a.broadcast(of_batch(a.shape())).context("it broadcasts")?;
        let b = b.broadcast(of_batch(b.shape())).context("it broadcasts")?;
        let rank = shape.len();
        let inner = a.shape()[rank - 1];
        let made = tract_ndarray::ArrayD::from_shape_fn(shape, |at| {
            let (mut of_a, mut of_b) = (at.clone(), at);
            (0..inner).fold(T::zero(), |sum, index| {
                of_a[rank - 1] = index;
                of_b[rank - 2] = index;
                sum.wrapping_add(&a[&of_a].wrapping_mul(&b[&of_b]))
            })
        });
        Ok(made.into_tensor())
    }
}

impl Stateless for IntegerProduct {
    const NAME: &str = "IntegerMatMul";

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (a, b) = args_2!(inputs);
        let shape = product_shape(a.shape(), b.shape())?;
        let product = match a.datum_type() {
            DatumType::I64 => Self::product::<i64>(&a, &b, &shape),
            DatumType::U64 => Self::product::<u64>(&a, &b, &shape),
            DatumType::U32 => Self::product::<u32>(&a, &b, &shape),
            other => bail!("it is of {other:?}, expected numbers"),
        }?;
        Ok(tvec![product.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let (a, b) = (inputs[0], inputs[1]);
        ensure!(
            a.datum_type == b.datum_type,
            "its operands are {:?} and {:?}, expected one type",
            a.datum_type,
            b.datum_type
        );
        let shape = product_shape(&a.shape, &b.shape)?;
        Ok(tvec![a.datum_type.fact(shape)])
    }
}
