//! Finds groups that are programs for rows of matrices.

use crate::elements::Lane;
use crate::function::{Float2, Function, Reduction};
use crate::kernels::{Line, MOST_IN_ROWS as MOST, RowOp, Rows, Update};

/// Where a group reads or writes, along all of its axes.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) buffer: usize,
    pub(super) lane: Lane,
    pub(super) offset: isize,
    pub(super) step: isize,
    pub(super) strides: Vec<isize>,
}

impl Spot {
    /// The strides along rows and columns.
    fn ends(&self) -> [isize; 2] {
        let rank = self.strides.len();
        [self.strides[rank - 2], self.strides[rank - 1]]
    }

    fn line(&self) -> Line {
        let rank = self.strides.len();
        Line {
            buffer: self.buffer,
            offset: self.offset,
            step: self.step,
            outer: self.strides[..rank - 2].to_vec(),
            row: self.strides[rank - 2],
        }
    }
}

/// An operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueRef {
    Load(usize),
    Value(usize),
}

/// What a value is: a number of each row, or an array, which may be the same in all rows.
#[derive(Clone, Copy, Debug)]
enum Held {
    Number(usize),
    Array { index: usize, is_same: bool },
}

/// A group before registers are given out.
pub(super) struct GroupCode<'a> {
    /// The sizes of its axes.
    pub(super) axes: &'a [usize],
    pub(super) loads: Vec<&'a Spot>,
    pub(super) code: &'a [(Function, Vec<ValueRef>)],
    pub(super) stores: Vec<(usize, &'a Spot, Option<Reduction>)>,
}

/// Writes a program, whose arrays and numbers are few.
struct Writer<'a> {
    parts: &'a GroupCode<'a>,
    made: Rows,
    held: Vec<Option<Held>>,
    loaded: Vec<Option<Held>>,
    arrays: usize,
    numbers: usize,
    uses: Vec<usize>,
}

/// The rows and columns from which on a program for rows is faster than one for blocks.
const FEWEST: [usize; 2] = [4, 16];

/// Returns the program of a group, if it is one for rows.
pub(super) fn of(parts: &GroupCode<'_>) -> Option<Rows> {
    let [outer @ .., rows, columns] = parts.axes else {
        return None;
    };
    if *rows < FEWEST[0] || *columns < FEWEST[1] || outer.contains(&0) {
        return None;
    }
    // Something is the same along rows or columns, or is summed.
    let stores = parts.stores.iter().map(|it| it.1);
    let spots = parts.loads.iter().copied().chain(stores);
    let fits = |spot: &Spot| matches!(spot.ends(), [_, 0 | 1]) && spot.lane == Lane::Float;
    let is_matrix = |spot: &Spot| matches!(spot.ends(), [1..=isize::MAX, 1]);
    let mut ends = spots.clone();
    if !spots.clone().all(fits)
        || ends.all(is_matrix)
        || !parts.loads.iter().copied().any(is_matrix)
    {
        return None;
    }
    if parts.loads.len() + parts.stores.len() > 2 * MOST {
        return None;
    }
    let mut uses = vec![0; parts.code.len()];
    for (_, operands) in parts.code {
        for operand in operands {
            if let ValueRef::Value(value) = operand {
                uses[*value] += 1;
            }
        }
    }
    for (value, ..) in &parts.stores {
        uses[*value] += 1;
    }
    let mut writer = Writer {
        parts,
        made: Rows {
            outer: outer.to_vec(),
            rows: *rows,
            columns: *columns,
            lines: parts.loads.iter().map(|it| it.line()).collect(),
            numbers: vec![],
            columns_in: vec![],
            before: vec![],
            code: vec![],
            sums: vec![],
            totals: vec![],
            update: None,
        },
        held: vec![None; parts.code.len()],
        loaded: vec![None; parts.loads.len()],
        arrays: 0,
        numbers: 0,
        uses,
    };
    for index in 0..parts.code.len() {
        writer.instruction(index)?;
    }
    for (value, spot, reduction) in &parts.stores {
        writer.store(*value, spot, *reduction)?;
    }
    writer.made.update = update(&writer.made);
    (writer.arrays <= MOST && writer.numbers <= MOST).then_some(writer.made)
}

/// The code as one operation behind those of numbers, if it is one.
fn update(made: &Rows) -> Option<Update> {
    let mut code = made
        .code
        .iter()
        .filter(|op| !matches!(op, RowOp::Numbers(..)));
    let RowOp::Load { to: matrix, line } = *code.next()? else {
        return None;
    };
    let mut update = Update {
        matrix: (line, None),
        outer: None,
        store: None,
        sum: None,
        dot: None,
    };
    let mut rest: Vec<&RowOp> = code.collect();
    let mut current = matrix;
    if let Some(op) = rest.first() {
        let made = match **op {
            RowOp::Mixed(Float2::Mul, to, from, number) if from == matrix => {
                update.matrix.1 = Some(number);
                Some(to)
            }
            RowOp::ScaleAdd { to, scaled, added } if added == matrix && scaled.0 != matrix => {
                update.outer = Some(scaled);
                Some(to)
            }
            RowOp::ScaleBoth { to, one, other } if (one.0 == matrix) != (other.0 == matrix) => {
                let (own, outer) = if one.0 == matrix {
                    (one, other)
                } else {
                    (other, one)
                };
                update.matrix.1 = Some(own.1);
                update.outer = Some(outer);
                Some(to)
            }
            _ => None,
        };
        if let Some(to) = made {
            current = to;
            rest.remove(0);
        }
    }
    for op in rest {
        match *op {
            RowOp::Store { from, line } if from == current && update.store.is_none() => {
                update.store = Some(line);
            }
            RowOp::Sum { to, from } if from == current && update.sum.is_none() => {
                update.sum = Some((to, None));
            }
            RowOp::ScaleSum { to, from, number } if from == current && update.sum.is_none() => {
                update.sum = Some((to, Some(number)));
            }
            RowOp::Total { from, line } if from == current && update.dot.is_none() => {
                update.dot = Some((line, None));
            }
            RowOp::Dot {
                from: [one, other],
                line,
            } if update.dot.is_none() => {
                let array = match (one == current, other == current) {
                    (true, false) => other,
                    (false, true) => one,
                    _ => return None,
                };
                update.dot = Some((line, Some(array)));
            }
            _ => return None,
        }
    }
    Some(update)
}

impl Writer<'_> {
    fn array(&mut self) -> usize {
        self.arrays += 1;
        self.arrays - 1
    }

    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers - 1
    }

    fn operand(&mut self, operand: ValueRef) -> Option<Held> {
        let load = match operand {
            ValueRef::Value(value) => return self.held[value],
            ValueRef::Load(load) => load,
        };
        if let Some(held) = self.loaded[load] {
            return Some(held);
        }
        let held = match self.parts.loads[load].ends() {
            [_, 0] => {
                let to = self.number();
                self.made.numbers.push((to, load));
                Held::Number(to)
            }
            [0, _] => {
                let index = self.array();
                self.made.columns_in.push((index, load));
                Held::Array {
                    index,
                    is_same: true,
                }
            }
            _ => {
                let index = self.array();
                self.made.code.push(RowOp::Load {
                    to: index,
                    line: load,
                });
                Held::Array {
                    index,
                    is_same: false,
                }
            }
        };
        self.loaded[load] = Some(held);
        Some(held)
    }

    fn instruction(&mut self, index: usize) -> Option<()> {
        let (function, operands) = &self.parts.code[index];
        let function = match function {
            Function::Move(Lane::Float) => {
                self.held[index] = self.operand(operands[0]);
                return self.held[index].map(|_| ());
            }
            Function::Float2(function @ (Float2::Add | Float2::Sub | Float2::Mul)) => *function,
            _ => return None,
        };
        let one = self.operand(operands[0])?;
        let other = self.operand(operands[1])?;
        let held = match (one, other) {
            (Held::Number(one), Held::Number(other)) => {
                let to = self.number();
                self.made
                    .code
                    .push(RowOp::Numbers(function, to, [one, other]));
                Held::Number(to)
            }
            (
                Held::Array {
                    index: one,
                    is_same: a,
                },
                Held::Array {
                    index: other,
                    is_same: b,
                },
            ) => {
                let to = self.array();
                let op = self.joined(function, to, (operands, [one, other]));
                let is_same = a && b;
                match is_same {
                    true => self.made.before.push(op),
                    false => self.made.code.push(op),
                }
                Held::Array { index: to, is_same }
            }
            (Held::Array { index: one, .. }, Held::Number(number)) => {
                let to = self.array();
                self.made.code.push(RowOp::Mixed(function, to, one, number));
                Held::Array {
                    index: to,
                    is_same: false,
                }
            }
            (Held::Number(number), Held::Array { index: one, .. }) if function != Float2::Sub => {
                let to = self.array();
                self.made.code.push(RowOp::Mixed(function, to, one, number));
                Held::Array {
                    index: to,
                    is_same: false,
                }
            }
            _ => return None,
        };
        self.held[index] = Some(held);
        Some(())
    }

    /// The function of two arrays, with the products in it if nothing else reads these.
    fn joined(
        &mut self,
        function: Float2,
        to: usize,
        (operands, [one, other]): (&[ValueRef], [usize; 2]),
    ) -> RowOp {
        if function != Float2::Add {
            return RowOp::Arrays(function, to, [one, other]);
        }
        let mut scaled = |operand: ValueRef, array: usize| {
            let is_read_once = match operand {
                ValueRef::Value(value) => self.uses[value] == 1,
                ValueRef::Load(_) => false,
            };
            let place =
                self.made.code.iter().position(
                    |op| matches!(op, RowOp::Mixed(Float2::Mul, made, ..) if *made == array),
                );
            let place = place.filter(|_| is_read_once)?;
            match self.made.code.remove(place) {
                RowOp::Mixed(_, _, from, number) => Some((from, number)),
                _ => None,
            }
        };
        match (scaled(operands[0], one), scaled(operands[1], other)) {
            (Some(one), Some(other)) => RowOp::ScaleBoth { to, one, other },
            (Some(scaled), None) => RowOp::ScaleAdd {
                to,
                scaled,
                added: other,
            },
            (None, Some(scaled)) => RowOp::ScaleAdd {
                to,
                scaled,
                added: one,
            },
            (None, None) => RowOp::Arrays(function, to, [one, other]),
        }
    }

    fn store(&mut self, value: usize, spot: &Spot, reduction: Option<Reduction>) -> Option<()> {
        let line = self.made.lines.len();
        self.made.lines.push(spot.line());
        let Held::Array { index, .. } = self.held[value]? else {
            return None;
        };
        let is_alone = self.uses[value] == 1;
        let of_value = |op: &RowOp| match op {
            RowOp::Mixed(Float2::Mul, made, ..) | RowOp::Arrays(Float2::Mul, made, _) => {
                *made == index
            }
            _ => false,
        };
        let place = self
            .made
            .code
            .iter()
            .position(of_value)
            .filter(|_| is_alone);
        let op = match (reduction, spot.ends()) {
            (None, [1..=isize::MAX, 1]) => RowOp::Store { from: index, line },
            (Some(Reduction::Sum), [0, 1]) => {
                // Sums along outer axes, too, are no sums of rows alone.
                if spot.strides[..spot.strides.len() - 2].contains(&0) {
                    return None;
                }
                let to = self.array();
                self.made.sums.push((to, line));
                match place.map(|place| (place, self.made.code[place].clone())) {
                    Some((place, RowOp::Mixed(_, _, from, number))) => {
                        self.made.code.remove(place);
                        RowOp::ScaleSum { to, from, number }
                    }
                    _ => RowOp::Sum { to, from: index },
                }
            }
            (Some(Reduction::Sum), [1..=isize::MAX, 0]) => {
                if spot.strides[..spot.strides.len() - 2].contains(&0) {
                    return None;
                }
                self.made.totals.push(line);
                match place.map(|place| (place, self.made.code[place].clone())) {
                    Some((place, RowOp::Arrays(_, _, from))) => {
                        self.made.code.remove(place);
                        RowOp::Dot { from, line }
                    }
                    _ => RowOp::Total { from: index, line },
                }
            }
            _ => return None,
        };
        self.made.code.push(op);
        Some(())
    }
}
