//! Products of matrices.

use revseq_onnx::model::NodeProto;
use revseq_onnx::sizes::Equation;

use super::Call;
use super::elementwise::float2;
use crate::elements::{Kind, Lane};
use crate::error::{Error, values};
use crate::function::{Float2, Reduction};
use crate::plan::{Operation, Planner, Value, broadcast};
use crate::view::{Axis, View, offsets};

/// Products of so many terms and fewer are sums of elements.
const SMALL: usize = 256;

/// So many columns of what a step computes are multiplied as they lie.
pub(super) const WIDE: usize = 16;

/// The most matrices that are packed for one product.
const MOST_PACKED: usize = 64;

pub(super) fn mat_mul(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    Ok(vec![product(planner, call.input(0)?, call.input(1)?)?])
}

/// MatMul, as ONNX has it from NumPy.
pub(super) fn product(
    planner: &mut Planner<'_>,
    one: &Value,
    other: &Value,
) -> Result<Value, Error> {
    if one.rank() == 0 || other.rank() == 0 {
        return values("a product of a number");
    }
    // A vector is a matrix of one row, or of one column.
    let (is_row, is_column) = (one.rank() == 1, other.rank() == 1);
    let one = match is_row {
        true => one.with(one.view.unsqueeze(0)),
        false => one.clone(),
    };
    let other = match is_column {
        true => other.with(other.view.unsqueeze(1)),
        false => other.clone(),
    };
    let made = matrices(planner, &one, &other)?;
    let mut view = made.view.clone();
    let rank = view.rank();
    if is_column {
        view.axes.remove(rank - 1);
    }
    if is_row {
        view.axes.remove(view.rank() + usize::from(is_column) - 2);
    }
    Ok(made.with(view))
}

/// Products of matrices, the last two axes.
pub(super) fn matrices(
    planner: &mut Planner<'_>,
    one: &Value,
    other: &Value,
) -> Result<Value, Error> {
    let (a, b) = (planner.materialised(one)?, planner.materialised(other)?);
    let (lead_a, [row, term]) = last_two(&a);
    let (lead_b, [other_term, column]) = last_two(&b);
    if term.size != other_term.size {
        return values(format!("a product of {:?} and {:?}", a.sizes(), b.sizes()));
    }
    let size = |axes: &[Axis]| axes.iter().map(|axis| axis.size).collect::<Vec<_>>();
    let batch = broadcast([&*size(lead_a), &*size(lead_b)])?;
    if let Some(made) = with_outer(planner, &a, &b)? {
        return Ok(made);
    }
    let count: usize = batch.iter().product();
    let small = row.size * term.size * column.size;
    let vector = row.size == 1 || column.size == 1;
    // Constant matrices are packed once.
    if small > SMALL || vector && small > SMALL / 4 {
        if let Some(made) = packed(planner, &a, &b, &batch)? {
            return Ok(made);
        }
        // A product of few columns with a constant from the left is that of what is turned.
        if column.size < WIDE
            && planner.constant_index(&a).is_some()
            && let Some(made) = packed(planner, &turned(&b), &turned(&a), &batch)?
        {
            return Ok(made.with(turned(&made.view)));
        }
    }
    // What no step changes is laid out once, as vectors read it.
    let b = match small > SMALL && column.size >= WIDE && planner.is_fixed(&b) {
        true => planner.contiguous(&Value::new(Kind::Float, b))?.view,
        false => b,
    };
    let vector = vector && !(planner.is_fixed(&b) && column.size >= WIDE);
    if term.size == 1 || vector || small <= SMALL || count == 0 {
        // The sum of products of elements.
        let full = [&*batch, &[row.size, term.size, column.size]].concat();
        let one = Value::new(Kind::Float, a.unsqueeze(a.rank()).broadcast(&full));
        let other = Value::new(Kind::Float, b.unsqueeze(b.rank() - 2).broadcast(&full));
        let products = planner.map(float2(Float2::Mul), Kind::Float, &[&one, &other])?;
        let middle = full.len() - 2;
        let made = match term.size {
            1 => products,
            _ => planner.reduce(Reduction::Sum, &products, &[middle])?,
        };
        return Ok(made.with(made.view.without(&[middle])));
    }
    // Vectors read one row after another of the second matrix, or one column after another of the first.
    let is_wide = |axis: Axis| axis.size >= WIDE && axis.stride == 1;
    if !is_wide(last_two(&b).1[1]) && is_wide(row) {
        let made = multiply(planner, &turned(&b), &turned(&a), &batch)?;
        return Ok(made.with(turned(&made.view)));
    }
    multiply(planner, &a, &b, &batch)
}

/// Matrices, the last two axes, with rows for columns.
fn turned(view: &View) -> View {
    let mut order: Vec<usize> = (0..view.rank()).collect();
    let rank = order.len();
    order.swap(rank - 1, rank - 2);
    view.permute(&order)
}

/// A product with the product of a column and a row, which is that with the column, times the row.
fn with_outer(planner: &mut Planner<'_>, a: &View, b: &View) -> Result<Option<Value>, Error> {
    let ([row, term], [_, column]) = (last_two(a).1, last_two(b).1);
    if row.size.min(term.size).min(column.size) < 2 {
        return Ok(None);
    }
    let value = |view: View| Value::new(Kind::Float, view);
    let (one, other) = if let Some((right, below)) = planner.outer_product(b) {
        (
            matrices(planner, &value(a.clone()), &value(right))?,
            value(below),
        )
    } else if let Some((right, below)) = planner.outer_product(a) {
        let below = matrices(planner, &value(below), &value(b.clone()))?;
        (value(right), below)
    } else {
        return Ok(None);
    };
    let multiply = float2(Float2::Mul);
    Ok(Some(planner.map(multiply, Kind::Float, &[&one, &other])?))
}

/// Products of matrices as they lie, for each of a batch.
pub(super) fn multiply(
    planner: &mut Planner<'_>,
    a: &View,
    b: &View,
    batch: &[usize],
) -> Result<Value, Error> {
    let ([row, term], [_, column]) = (last_two(a).1, last_two(b).1);
    let a = a.broadcast(&[batch, &[row.size, term.size]].concat());
    let b = b.broadcast(&[batch, &[term.size, column.size]].concat());
    let sizes = [batch, &[row.size, column.size]].concat();
    let view = planner.add(
        Operation::Multiply { terms: 1 },
        Lane::Float,
        vec![a, b],
        &sizes,
    )?;
    Ok(Value::new(Kind::Float, view))
}

fn last_two(view: &View) -> (&[Axis], [Axis; 2]) {
    match view.axes.split_last_chunk::<2>() {
        Some((lead, last)) => (lead, *last),
        None => (&[], [Axis { size: 1, stride: 0 }; 2]),
    }
}

/// Products with matrices that are constants of the model, if they are.
fn packed(
    planner: &mut Planner<'_>,
    a: &View,
    b: &View,
    batch: &[usize],
) -> Result<Option<Value>, Error> {
    let (lead_b, [term, column]) = last_two(b);
    let (_, [row, _]) = last_two(a);
    let count: usize = lead_b.iter().map(|axis| axis.size).product();
    if planner.constant_index(b).is_none() || count > MOST_PACKED || count == 0 {
        return Ok(None);
    }
    let is_one = count == 1;
    if !is_one && lead_b.iter().map(|it| it.size).ne(batch.iter().copied()) {
        return Ok(None);
    }
    let rows = [batch, &[row.size, term.size]].concat();
    let a = Value::new(Kind::Float, a.broadcast(&rows));
    let a = planner.contiguous(&a)?.view;
    let mut matrices = vec![];
    for offset in offsets(lead_b) {
        let view = View {
            offset: b.offset + offset,
            axes: vec![term, column],
            ..b.clone()
        };
        matrices.push(planner.packed(&view)?);
    }
    let all: usize = batch.iter().product::<usize>() * row.size / if is_one { 1 } else { count };
    let operation = Operation::Product {
        matrices,
        lens: [all * term.size, all * column.size],
    };
    let sizes = [batch, &[row.size, column.size]].concat();
    let view = planner.add(operation, Lane::Float, vec![a], &sizes)?;
    Ok(Some(Value::new(Kind::Float, view)))
}

pub(super) fn gemm(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let turned = |value: &Value, name: &str| match (call.int(name, 0), value.rank()) {
        (_, rank) if rank != 2 => values(format!("a matrix of {rank} axes")),
        (0, _) => Ok(value.clone()),
        _ => Ok(value.with(value.view.permute(&[1, 0]))),
    };
    let one = turned(call.input(0)?, "transA")?;
    let other = turned(call.input(1)?, "transB")?;
    let mut made = matrices(planner, &one, &other)?;
    let times = |planner: &mut Planner<'_>, value: &Value, factor: f32| match factor {
        1.0 => Ok(value.clone()),
        _ => {
            let factor = planner.float(factor);
            planner.map(float2(Float2::Mul), Kind::Float, &[value, &factor])
        }
    };
    made = times(planner, &made, call.float("alpha", 1.0))?;
    if let Some(added) = call.optional(2) {
        let added = times(planner, added, call.float("beta", 1.0))?;
        let sizes = made.sizes();
        broadcast([&*sizes, &*added.sizes()])?;
        made = planner.map(float2(Float2::Add), Kind::Float, &[&made, &added])?;
    }
    Ok(vec![made])
}

/// Says what of an Einsum no program has.
pub(super) fn check_equation(node: &NodeProto) -> Result<(), String> {
    let Some(equation) = Equation::of(node) else {
        return Err("has no equation".into());
    };
    let all = || equation.operands.iter().chain([&equation.output]);
    if all().flatten().any(|it| *it == '.') {
        return Err("has an equation with an ellipsis".into());
    }
    let repeats = |letters: &Vec<char>| {
        let mut letters = letters.clone();
        letters.sort_unstable();
        letters.windows(2).any(|two| two[0] == two[1])
    };
    if all().any(repeats) {
        return Err("has an equation that repeats a letter".into());
    }
    Ok(())
}

pub(super) fn einsum(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let Some(equation) = Equation::of(call.node) else {
        return values("no equation");
    };
    let mut operands = vec![];
    for (index, letters) in equation.operands.iter().enumerate() {
        let value = call.input(index)?;
        if value.rank() != letters.len() {
            return values(format!(
                "{} letters for {} axes",
                letters.len(),
                value.rank()
            ));
        }
        operands.push((letters.clone(), value.clone()));
    }
    let mut operands = operands.into_iter();
    let Some(mut made) = operands.next() else {
        return values("no operands");
    };
    // From the left, two at a time; letters that nothing reads later are summed at once.
    while let Some(next) = operands.next() {
        let later: Vec<char> = operands
            .as_slice()
            .iter()
            .flat_map(|it| it.0.clone())
            .collect();
        let is_kept = |it: &char| equation.output.contains(it) || later.contains(it);
        made = pair(planner, made, next, &is_kept, &equation.output)?;
    }
    let (letters, value) = made;
    let summed: Vec<usize> = (0..letters.len())
        .filter(|&place| !equation.output.contains(&letters[place]))
        .collect();
    let value = match summed.is_empty() {
        true => value,
        false => planner.reduce(Reduction::Sum, &value, &summed)?,
    };
    let order = equation.output.iter().map(|it| {
        let place = letters.iter().position(|own| own == it);
        place.ok_or_else(|| Error::Values(format!("no operand has the letter {it}")))
    });
    let order = order.collect::<Result<Vec<_>, _>>()?;
    Ok(vec![value.with(value.view.permute(&order))])
}

/// An operand, with a letter for each axis.
type Lettered = (Vec<char>, Value);

/// Two operands, with the letters of both that stay and that are summed, and those of one of them.
struct Pair {
    one: Lettered,
    other: Lettered,
    batch: Vec<char>,
    summed: Vec<char>,
    rows: Vec<char>,
    columns: Vec<char>,
}

/// The product of two operands.
fn pair(
    planner: &mut Planner<'_>,
    (one_letters, one): Lettered,
    (other_letters, other): Lettered,
    is_kept: &dyn Fn(&char) -> bool,
    output: &[char],
) -> Result<Lettered, Error> {
    let both = one_letters.iter().filter(|it| other_letters.contains(it));
    let (batch, summed) = both.copied().partition(is_kept);
    let only = |own: &[char], others: &[char]| {
        let own = own.iter().copied();
        own.filter(|it| !others.contains(it)).collect()
    };
    let pair = Pair {
        batch,
        summed,
        rows: only(&one_letters, &other_letters),
        columns: only(&other_letters, &one_letters),
        one: (one_letters, one.with(planner.materialised(&one)?)),
        other: (other_letters, other.with(planner.materialised(&other)?)),
    };
    if !pair.summed.is_empty() && pair.count(&pair.rows) > 1 && pair.count(&pair.columns) > 1 {
        return pair.matrices(planner);
    }
    match pair.with_constant(planner)? {
        Some(made) => Ok(made),
        None => pair.elements(planner, is_kept, output),
    }
}

impl Pair {
    fn size(&self, letter: char) -> usize {
        let of = |(letters, value): &Lettered| {
            let place = letters.iter().position(|it| *it == letter);
            place.map(|place| value.view.axes[place].size)
        };
        match (of(&self.one), of(&self.other)) {
            (Some(a), Some(b)) => a.max(b),
            (a, b) => a.or(b).unwrap_or(1),
        }
    }

    fn sizes(&self, letters: &[char]) -> Vec<usize> {
        letters.iter().map(|&it| self.size(it)).collect()
    }

    fn count(&self, letters: &[char]) -> usize {
        self.sizes(letters).iter().product()
    }

    /// An operand with its axes in this order, repeated along those that it lacks.
    fn arranged(&self, (letters, value): &Lettered, order: &[char]) -> Value {
        let axes = order.iter().map(|it| {
            let size = self.size(*it);
            let place = letters.iter().position(|own| own == it);
            let own = place.map(|place| value.view.axes[place]);
            let own = own.filter(|axis| axis.size == size);
            own.unwrap_or(Axis { size, stride: 0 })
        });
        value.with(View {
            axes: axes.collect(),
            ..value.view.clone()
        })
    }

    /// Rows times columns.
    fn matrices(&self, planner: &mut Planner<'_>) -> Result<Lettered, Error> {
        let Self {
            batch,
            summed,
            rows,
            columns,
            ..
        } = self;
        let [m, k, n] = [rows, summed, columns].map(|letters| self.count(letters));
        let first = self.arranged(&self.one, &[&**batch, rows, summed].concat());
        let second = self.arranged(&self.other, &[&**batch, summed, columns].concat());
        let lead = self.sizes(batch);
        let first = planner.reshape(&first, &[&*lead, &[m, k]].concat())?;
        let second = planner.reshape(&second, &[&*lead, &[k, n]].concat())?;
        let made = matrices(planner, &first, &second)?;
        let letters = [&**batch, rows, columns].concat();
        let made = planner.reshape(&made, &self.sizes(&letters))?;
        Ok((letters, made))
    }

    /// Rows times a constant matrix for each part of the batch, if one operand is constant.
    fn with_constant(&self, planner: &mut Planner<'_>) -> Result<Option<Lettered>, Error> {
        let is_constant = |value: &Value| planner.constant_index(&value.view).is_some();
        let (left, right, own, out) = if is_constant(&self.other.1) {
            (&self.one, &self.other, &self.rows, &self.columns)
        } else if is_constant(&self.one.1) {
            (&self.other, &self.one, &self.columns, &self.rows)
        } else {
            return Ok(None);
        };
        let ([summed], [out]) = (&*self.summed, &**out) else {
            return Ok(None);
        };
        let batch = &*self.batch;
        let first = self.arranged(left, &[batch, own, &[*summed]].concat());
        let second = self.arranged(right, &[batch, &[*summed, *out]].concat());
        // A matrix that is repeated is packed once, by its own axes.
        let is_whole = |(letters, value): &Lettered| {
            letters
                .iter()
                .enumerate()
                .all(|(place, &it)| value.view.axes[place].size == self.size(it))
        };
        if !is_whole(left) || !is_whole(right) {
            return Ok(None);
        }
        let mut rows = first.sizes();
        let last = rows.pop().unwrap_or(1);
        let lead = batch.len();
        let count: usize = rows[lead..].iter().product();
        let flat = planner.reshape(&first, &[&rows[..lead], &[count, last]].concat())?;
        let Some(made) = packed(planner, &flat.view, &second.view, &rows[..lead])? else {
            return Ok(None);
        };
        rows.push(self.size(*out));
        let made = planner.reshape(&made, &rows)?;
        Ok(Some(([batch, own, &[*out]].concat(), made)))
    }

    /// Elements times elements, in the order of the larger operand, or of the output where nothing is summed.
    fn elements(
        &self,
        planner: &mut Planner<'_>,
        is_kept: &dyn Fn(&char) -> bool,
        output: &[char],
    ) -> Result<Lettered, Error> {
        let letters = match self.one.1.view.len() >= self.other.1.view.len() {
            true => [&*self.one.0, &self.columns],
            false => [&*self.other.0, &self.rows],
        };
        let mut order = letters.concat();
        if order.iter().all(|it| output.contains(it)) {
            let own = output.iter().filter(|it| order.contains(it));
            order = own.copied().collect();
        }
        let first = self.arranged(&self.one, &order);
        let second = self.arranged(&self.other, &order);
        let made = planner.map(float2(Float2::Mul), Kind::Float, &[&first, &second])?;
        let gone = (0..order.len()).filter(|&it| !is_kept(&order[it]));
        let gone: Vec<usize> = gone.collect();
        if gone.is_empty() {
            return Ok((order, made));
        }
        let made = planner.reduce(Reduction::Sum, &made, &gone)?;
        order.retain(is_kept);
        Ok((order, made.with(made.view.without(&gone))))
    }
}
