//! Products of matrices of bytes: MatMulInteger and QLinearMatMul.

use integer_products::{Bytes, Dense, Matrix, PackedColumns, PackedRows, Sink, ZeroPoints};
use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::math::{Add, Mul};
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;
use tract_onnx::tract_hir::internal::*;

use super::scaled::{Floats, OutputQuantization, Parameter, Scaled};
use super::{bytes_of, check_bytes, with_parameters, work};
use crate::operator::{Operator, Parsed, Wired, Wiring, own};
use crate::operators::mat_mul::{of_matrices, product_shape};
use crate::typed_op::{Stateless, Typed};

/// Parses a MatMulInteger or a QLinearMatMul.
pub(crate) fn parse(_ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let count = node.input.iter().filter(|name| !name.is_empty()).count();
    let mut inputs = optional_inputs(node);
    let mut inputs: [Option<usize>; 8] = std::array::from_fn(|_| inputs.next().flatten());
    let is_scaled = node.op_type == "QLinearMatMul";
    if is_scaled {
        // A, its scale and zero point, B's, and those of the output.
        let [a, of_a, zero_a, b, of_b, zero_b, of_y, zero_y] = inputs;
        inputs = [a, b, zero_a, zero_b, of_a, of_b, of_y, zero_y];
    }
    own(node, [count, 1], OfMatrices { inputs, is_scaled })
}

/// A node before types and shapes are known.
#[derive(Clone, Debug)]
struct OfMatrices {
    /// The places of A, B, their zero points and their scales, and the scale and the zero point of the
    /// output.
    inputs: [Option<usize>; 8],
    is_scaled: bool,
}

impl Operator for OfMatrices {
    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let [a, b, rest @ ..] = self.inputs.map(|place| Some(node.inputs[place?]));
        let (a, b) = a.zip(b).context("it lacks an operand")?;
        let (made, parameters) = match self.is_scaled {
            true => (ProductOutput::Bytes, &rest[..6]),
            false => (ProductOutput::Sums, &rest[..2]),
        };
        let product = of_matrices(node, [a, b], |node, [a, b]| {
            let inputs = with_parameters(node, a, parameters, b)?;
            let op = ByteProduct {
                made,
                columns: None,
            };
            node.op("product", Typed(op), &inputs)
        });
        Ok(Some(tvec![product?]))
    }
}

/// The matrices of a constant operand, and its shape.
#[derive(Debug)]
struct Columns {
    matrices: Vec<PackedColumns>,
    shape: TVec<usize>,
}

impl Columns {
    fn pack(b: &Tensor) -> TractResult<Self> {
        let [.., inner, columns] = *b.shape() else {
            bail!(
                "its second operand has {} axes, expected 2 or more",
                b.rank()
            );
        };
        let plain = b.try_as_plain_ram()?;
        let bytes = bytes_of(&plain)?;
        let count: usize = b.shape()[..b.rank() - 2].iter().product();
        let matrix = |at| Matrix::dense(bytes.from(at * inner * columns), [inner, columns]);
        Ok(Self {
            matrices: (0..count)
                .map(|at| PackedColumns::pack(matrix(at)))
                .collect(),
            shape: b.shape().into(),
        })
    }
}

/// What becomes of the sums of products, and the inputs for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProductOutput {
    /// They are the result.
    Sums,
    /// Bytes: the scales of A and B, and the scale and the zero point of the output.
    Bytes,
    /// Floats: what they are multiplied with, and, if there is one, a bias; one number, or one of each
    /// column.
    Floats { has_bias: bool },
}

/// A product of matrices of bytes. Its inputs are A, the zero points of A and B, those for [what is
/// made](ProductOutput), and B unless that is packed.
#[derive(Clone, Debug)]
struct ByteProduct {
    made: ProductOutput,
    columns: Option<Arc<Columns>>,
}

never_equal!(ByteProduct);

/// The place of a matrix in an operand of this shape, for one of the result.
fn place(at: usize, result: &[usize], operand: &[usize]) -> usize {
    let (mut rest, mut place, mut step) = (at, 0, 1);
    let sizes = operand.iter().rev();
    for (of_result, size) in result.iter().rev().zip(sizes.chain(std::iter::repeat(&1))) {
        if *size > 1 {
            place += rest % of_result * step;
        }
        rest /= of_result;
        step *= size;
    }
    place
}

/// Some rows of the result, and the matrix whose columns they are multiplied with.
struct RowBlock<'a> {
    rows: &'a PackedRows,
    columns: &'a PackedColumns,
    zeros: ZeroPoints<'a>,
    /// The first of the rows.
    first: usize,
    /// The place of the matrix among those of the result.
    matrix: usize,
}

impl RowBlock<'_> {
    fn multiply(&self, to: &mut impl Sink) {
        self.columns.multiply(self.rows, self.zeros, to);
    }
}

/// The operands of a product.
struct ProductOperands<'a> {
    a: Bytes<'a>,
    of_a: &'a [usize],
    columns: &'a Columns,
    zeros: [Parameter<i32>; 2],
    shape: TVec<usize>,
}

impl ProductOperands<'_> {
    /// Multiplies rows, those of each matrix apart, on the threads of a run.
    fn each_part<T: Send>(
        &self,
        to: &mut [T],
        multiply: impl Fn(&RowBlock<'_>, &mut [T]) + Sync + Send,
    ) -> TractResult<()> {
        let [batch @ .., m, n] = &*self.shape else {
            bail!("its result has no axes");
        };
        let [of_a @ .., _, k] = self.of_a else {
            bail!("its first operand has no axes");
        };
        if to.is_empty() {
            return Ok(());
        }
        let of_b = &self.columns.shape[..self.columns.shape.len() - 2];
        let all = to.len() / n;
        // Matrices with the same columns are one.
        let is_one = self.columns.matrices.len() == 1 && self.a.len() == all * k;
        let size = if is_one { all } else { *m };
        par_chunks_mut(to, *n, work([all, *k, *n]), |mut first, mut to| {
            // The matrices of a thread share the memory of their rows.
            let mut rows = PackedRows::default();
            while !to.is_empty() {
                let (matrix, row) = (first / size, first % size);
                let count = (size - row).min(to.len() / n);
                let made;
                (made, to) = std::mem::take(&mut to).split_at_mut(count * n);
                let [at_a, at_b] = match is_one {
                    true => [0, 0],
                    false => [of_a, of_b].map(|it| place(matrix, batch, it)),
                };
                let elements = self.a.from((at_a * size + row) * k);
                rows.set(Matrix::dense(elements, [count, *k]));
                let part = RowBlock {
                    rows: &rows,
                    columns: &self.columns.matrices[at_b],
                    zeros: ZeroPoints {
                        rows: self.zeros[0].of_rows(first..first + count),
                        columns: self.zeros[1].of_matrix(*n, matrix),
                    },
                    first,
                    matrix,
                };
                multiply(&part, made);
                first += count;
            }
            Ok(())
        })
    }
}

impl ByteProduct {
    /// The product whose sums are multiplied as floats, and added to a bias, in the place of the nodes that do
    /// so, which nothing else reads.
    fn with_floats(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let (last, operand) = match self.made {
            ProductOutput::Bytes | ProductOutput::Floats { has_bias: true } => return Ok(None),
            ProductOutput::Sums => {
                rule_if_some!(casts = only_reader(model, node));
                let is_cast = casts
                    .op_as::<Cast>()
                    .is_some_and(|it| it.to == f32::datum_type());
                rule_if!(is_cast);
                rule_if_some!(reader = by_columns(model, casts, |op| op.is::<Mul>()));
                reader
            }
            ProductOutput::Floats { has_bias: false } => {
                rule_if_some!(reader = by_columns(model, node, |op| op.is::<Add>()));
                reader
            }
        };
        let made = ProductOutput::Floats {
            has_bias: self.made != ProductOutput::Sums,
        };
        let mut inputs = node.inputs.clone();
        inputs.insert(inputs.len() - usize::from(self.columns.is_none()), operand);
        let mut patch = TypedModelPatch::default();
        let inputs = patch.taps(model, &inputs)?;
        let op = Typed(Self {
            made,
            ..self.clone()
        });
        let floats = patch.wire_node(&*last.name, op, &inputs)?[0];
        patch.shunt_outside(model, last.id.into(), floats)?;
        Ok(Some(patch))
    }
}

/// The node that alone reads the output of a node.
fn only_reader<'m>(model: &'m TypedModel, node: &TypedNode) -> Option<&'m TypedNode> {
    let [reader] = &*node.outputs[0].successors else {
        return None;
    };
    let is_output = model.outputs.contains(&node.id.into());
    (!is_output).then(|| model.node(reader.node))
}

/// The node that alone reads the output of a node, as an operand of arithmetic with one number or one of each
/// column, and these numbers.
fn by_columns<'m>(
    model: &'m TypedModel,
    node: &TypedNode,
    is_operator: impl Fn(&dyn BinMiniOp) -> bool,
) -> Option<(&'m TypedNode, OutletId)> {
    let reader = only_reader(model, node)?;
    is_operator(&*reader.op_as::<TypedBinOp>()?.0).then_some(())?;
    let [a, b] = *reader.inputs else {
        return None;
    };
    let operand = if a == node.id.into() { b } else { a };
    let fact = model.outlet_fact(operand).ok()?;
    let result = model.outlet_fact(node.id.into()).ok()?;
    let (last, others) = fact.shape.split_last()?;
    let is_row =
        others.iter().all(TDim::is_one) && (last.is_one() || result.shape.last() == Some(last));
    let is_float = fact.datum_type == f32::datum_type() && fact.rank() == result.rank();
    (is_row && is_float && a != b).then_some((reader, operand))
}

impl Stateless for ByteProduct {
    const NAME: &str = "ByteProduct";

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let columns = match &self.columns {
            Some(columns) => Arc::clone(columns),
            None => Arc::new(Columns::pack(
                inputs.last().context("it lacks an operand")?,
            )?),
        };
        let shape = product_shape(inputs[0].shape(), &columns.shape)?;
        let rank = shape.len();
        let matrices: usize = shape[..rank - 2].iter().product();
        let [m, n] = [shape[rank - 2], shape[rank - 1]];
        let a = inputs[0].try_as_plain_ram()?;
        let operands = ProductOperands {
            a: bytes_of(&a)?,
            of_a: inputs[0].shape(),
            columns: &columns,
            zeros: [
                Parameter::read("zero point", &inputs[1], [m, matrices])?,
                Parameter::read("zero point", &inputs[2], [n, matrices])?,
            ],
            shape,
        };
        match self.made {
            ProductOutput::Sums => {
                let mut made = Tensor::zero::<i32>(&operands.shape)?;
                let mut plain = made.try_as_plain_ram_mut()?;
                operands.each_part(plain.as_slice_mut::<i32>()?, |part, elements| {
                    part.multiply(&mut Dense {
                        elements,
                        columns: n,
                    });
                })?;
                return Ok(tvec![made.into_tvalue()]);
            }
            ProductOutput::Floats { has_bias } => {
                let factors: Parameter<f32> = Parameter::read("factor", &inputs[3], [n, 1])?;
                let bias = if has_bias {
                    inputs[4].clone()
                } else {
                    tensor0(0_f32).into_tvalue()
                };
                let bias: Parameter<f32> = Parameter::read("bias", &bias, [n, 1])?;
                let mut made = Tensor::zero::<f32>(&operands.shape)?;
                let mut plain = made.try_as_plain_ram_mut()?;
                operands.each_part(plain.as_slice_mut::<f32>()?, |part, to| {
                    part.multiply(&mut Floats {
                        to,
                        columns: n,
                        factors: factors.of_matrix(n, 0),
                        bias: has_bias.then(|| bias.of_matrix(n, 0)),
                    });
                })?;
                return Ok(tvec![made.into_tvalue()]);
            }
            ProductOutput::Bytes => {}
        }
        let scales: [Parameter<f32>; 2] = [
            Parameter::read("scale", &inputs[3], [m, matrices])?,
            Parameter::read("scale", &inputs[4], [n, matrices])?,
        ];
        let output = OutputQuantization::read(&inputs[5], &inputs[6])?;
        let made = output.tensor(&operands.shape, |to| {
            operands.each_part(to, |part, to| {
                let rows = part.first..part.first + to.len() / n;
                let [of_rows, of_columns] =
                    [scales[0].of_rows(rows), scales[1].of_matrix(n, part.matrix)];
                part.multiply(&mut Scaled::new(to, n, [of_rows, of_columns], &output));
            })
        })?;
        Ok(tvec![made.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        check_bytes("A", inputs[0].datum_type)?;
        let columns = match (&self.columns, inputs.last()) {
            (Some(columns), _) => columns.shape.iter().map(|it| it.to_dim()).collect(),
            (None, Some(b)) => {
                check_bytes("B", b.datum_type)?;
                b.shape.to_tvec()
            }
            (None, None) => bail!("it lacks an operand"),
        };
        let shape = product_shape(&inputs[0].shape, &columns)?;
        let datum_type = match self.made {
            ProductOutput::Sums => i32::datum_type(),
            ProductOutput::Bytes => inputs[6].datum_type,
            ProductOutput::Floats { .. } => f32::datum_type(),
        };
        Ok(tvec![datum_type.fact(shape)])
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        if let Some(patch) = self.with_floats(model, node)? {
            return Ok(Some(patch));
        }
        rule_if!(self.columns.is_none());
        rule_if_let!([others @ .., b] = &*node.inputs);
        rule_if_some!(constant = &model.outlet_fact(*b)?.konst);
        let op = Self {
            columns: Some(Arc::new(Columns::pack(constant)?)),
            ..self.clone()
        };
        TypedModelPatch::replace_single_op(model, node, others, Typed(op)).map(Some)
    }
}
