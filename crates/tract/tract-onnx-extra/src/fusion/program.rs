//! The program of a fused operator.
//!
//! An instruction reads inputs, constants and earlier results, as runs of contiguous floats or as a
//! view, and writes one result into a register. Registers are shared by results that are not needed
//! at the same time. `groups.rs` has checked that operands lie within what they read; a bool is 0
//! or 1.

use recurrent_layers::PackedMatrix;
use tract_onnx::tract_hir::internal::*;

use super::view::{Base, View};
use crate::binary::{Binary, Pairs, truth};
use crate::recurrent::activation::Activation;
use crate::repairs::kernel::Kernel;

/// A function of one operand.
#[derive(Clone, Debug)]
pub(super) enum Unary {
    Kernel(Kernel),
    Activation(Activation),
    Abs,
    Neg,
    Not,
    Recip,
    Sqrt,
    Square,
    /// The truth value of a number: 1 unless the operand is 0.
    Truth,
}

/// The computation of a value from its operands. A bool is 0 or 1.
#[derive(Clone, Debug)]
pub(super) enum Function {
    /// The elements of a view, in its order.
    Read(View),
    Unary(Unary),
    Binary(Binary),
    /// The second operand where the first is true, the third elsewhere.
    Select,
    /// The product with a matrix.
    Product(PackedMatrix<f32>),
}

/// Contiguous elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) base: Base,
    pub(super) start: usize,
    pub(super) len: usize,
}

impl Operand {
    /// The same elements with a shape.
    pub(super) fn view(self, sizes: &[usize]) -> View {
        View::whole(self.base, sizes).at(self.start)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub(super) function: Function,
    pub(super) operands: TVec<Operand>,
    /// The number of elements of the result.
    pub(super) len: usize,
}

impl Instruction {
    /// The values it reads.
    fn values(&self) -> impl Iterator<Item = usize> {
        let view = match &self.function {
            Function::Read(view) => Some(view.base),
            _ => None,
        };
        let bases = self.operands.iter().map(|operand| operand.base).chain(view);
        bases.filter_map(|base| match base {
            Base::Value(value) => Some(value),
            Base::Input(_) | Base::Constant(_) => None,
        })
    }
}

/// Elements that are output as a tensor.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) elements: Operand,
    pub(super) datum_type: DatumType,
    pub(super) shape: TVec<usize>,
}

/// Instructions; each computes the value of its own index.
#[derive(Clone, Debug)]
pub(super) struct Program {
    instructions: Vec<Instruction>,
    /// The register of each value.
    registers: Vec<usize>,
    constants: Vec<Vec<f32>>,
    pub(super) outputs: Vec<Output>,
}

/// The memory for values.
pub(super) type Registers = Vec<Vec<f32>>;

/// The elements of an input.
#[derive(Clone, Copy, Debug)]
pub(super) enum Elements<'a> {
    Floats(&'a [f32]),
    Truths(&'a [bool]),
}

impl<'a> Elements<'a> {
    pub(super) fn of(tensor: &'a Tensor) -> TractResult<Self> {
        let plain = tensor.try_as_plain_ram()?;
        if tensor.datum_type() == bool::datum_type() {
            Ok(Self::Truths(plain.as_slice()?))
        } else {
            Ok(Self::Floats(plain.as_slice()?))
        }
    }
}

/// The memory that operands are read from.
#[derive(Clone, Copy)]
struct Memory<'a> {
    program: &'a Program,
    inputs: &'a [Elements<'a>],
    registers: &'a Registers,
}

impl<'a> Memory<'a> {
    fn floats(self, base: Base) -> &'a [f32] {
        match base {
            Base::Input(input) => match self.inputs[input] {
                Elements::Floats(floats) => floats,
                Elements::Truths(_) => &[],
            },
            Base::Constant(constant) => &self.program.constants[constant],
            Base::Value(value) => &self.registers[self.program.registers[value]],
        }
    }

    fn operand(self, operand: Operand) -> &'a [f32] {
        &self.floats(operand.base)[operand.start..operand.start + operand.len]
    }
}

impl Elements<'_> {
    /// The part with this index, of equal parts.
    pub(super) fn part(self, index: usize, parts: usize) -> Self {
        match self {
            Self::Floats(all) => Self::Floats(part(all, index, parts)),
            Self::Truths(all) => Self::Truths(part(all, index, parts)),
        }
    }
}

fn part<T>(all: &[T], index: usize, parts: usize) -> &[T] {
    let len = all.len() / parts;
    &all[index * len..][..len]
}

impl Program {
    pub(super) fn new(
        instructions: Vec<Instruction>,
        constants: Vec<Vec<f32>>,
        outputs: Vec<Output>,
    ) -> Self {
        Self {
            registers: allocate(&instructions, &outputs),
            instructions,
            constants,
            outputs,
        }
    }

    /// Allocates memory for a run.
    pub(super) fn registers(&self) -> Registers {
        let mut registers = vec![];
        for (instruction, &register) in std::iter::zip(&self.instructions, &self.registers) {
            if register == registers.len() {
                registers.push(vec![]);
            }
            let memory: &mut Vec<f32> = &mut registers[register];
            memory.resize(memory.len().max(instruction.len), 0.0);
        }
        registers
    }

    /// Computes all values. The inputs have the types and shapes that the program was made for.
    pub(super) fn run(
        &self,
        inputs: &[Elements<'_>],
        registers: &mut Registers,
    ) -> TractResult<()> {
        for (instruction, &register) in std::iter::zip(&self.instructions, &self.registers) {
            // Taken out so that the other registers can be read; no operand is in it.
            let mut taken = std::mem::take(&mut registers[register]);
            let memory = Memory {
                program: self,
                inputs,
                registers,
            };
            let to = &mut taken[..instruction.len];
            let operand = |index: usize| memory.operand(instruction.operands[index]);
            match &instruction.function {
                Function::Read(view) => match view.base {
                    Base::Input(input) if let Elements::Truths(truths) = inputs[input] => {
                        view.read(truths, to, truth);
                    }
                    base => view.read(memory.floats(base), to, |float| float),
                },
                Function::Unary(function) => unary(function, to, operand(0))?,
                Function::Binary(function) => {
                    let (a, b) = (operand(0), operand(1));
                    function.apply(Zipped { to, a, b });
                }
                Function::Select => {
                    let operands = std::iter::zip(operand(1), operand(2));
                    let operands = std::iter::zip(operand(0), operands);
                    for (to, (condition, (a, b))) in std::iter::zip(to, operands) {
                        *to = if *condition == 0.0 { *b } else { *a };
                    }
                }
                Function::Product(matrix) => matrix.multiply(operand(0), to)?,
            }
            registers[register] = taken;
        }
        Ok(())
    }

    /// The elements of an output after a [`run`](Self::run).
    pub(super) fn output<'a>(
        &'a self,
        output: usize,
        inputs: &'a [Elements<'a>],
        registers: &'a Registers,
    ) -> &'a [f32] {
        let memory = Memory {
            program: self,
            inputs,
            registers,
        };
        memory.operand(self.outputs[output].elements)
    }

    /// The outputs as tensors after a [`run`](Self::run).
    pub(super) fn tensors(
        &self,
        inputs: &[Elements<'_>],
        registers: &Registers,
    ) -> TractResult<TVec<TValue>> {
        let outputs = self.outputs.iter().enumerate().map(|(index, output)| {
            let elements = self.output(index, inputs, registers);
            let tensor = if output.datum_type == bool::datum_type() {
                let truths: Vec<bool> = elements.iter().map(|float| *float != 0.0).collect();
                Tensor::from_shape(&output.shape, &truths)?
            } else {
                Tensor::from_shape(&output.shape, elements)?
            };
            Ok(tensor.into_tvalue())
        });
        outputs.collect()
    }
}

/// Assigns a register to each value from its definition to its last read.
fn allocate(instructions: &[Instruction], outputs: &[Output]) -> Vec<usize> {
    let mut last_read: Vec<usize> = (0..instructions.len()).collect();
    for (number, instruction) in instructions.iter().enumerate() {
        for value in instruction.values() {
            last_read[value] = number;
        }
    }
    for output in outputs {
        if let Base::Value(value) = output.elements.base {
            last_read[value] = instructions.len();
        }
    }
    let mut free: Vec<usize> = vec![];
    let mut count = 0;
    let mut registers: Vec<usize> = vec![];
    for (number, instruction) in instructions.iter().enumerate() {
        registers.push(free.pop().unwrap_or_else(|| {
            count += 1;
            count - 1
        }));
        let mut ended: TVec<usize> = instruction.values().chain([number]).collect();
        ended.sort_unstable();
        ended.dedup();
        ended.retain(|value| last_read[*value] == number);
        free.extend(ended.into_iter().map(|value| registers[value]));
    }
    registers
}

fn unary(function: &Unary, to: &mut [f32], from: &[f32]) -> TractResult<()> {
    let mut each = |function: fn(f32) -> f32| {
        for (to, from) in std::iter::zip(&mut *to, from) {
            *to = function(*from);
        }
    };
    match function {
        Unary::Kernel(kernel) => {
            to.copy_from_slice(from);
            kernel.run(to)?;
        }
        Unary::Activation(function) => {
            to.copy_from_slice(from);
            function.apply(to);
        }
        Unary::Abs => each(f32::abs),
        Unary::Neg => each(|x| -x),
        Unary::Not => each(|x| truth(x == 0.0)),
        Unary::Recip => each(f32::recip),
        Unary::Sqrt => each(f32::sqrt),
        Unary::Square => each(|x| x * x),
        Unary::Truth => each(|x| truth(x != 0.0)),
    }
    Ok(())
}

/// Equally many elements.
struct Zipped<'a> {
    to: &'a mut [f32],
    a: &'a [f32],
    b: &'a [f32],
}

impl Pairs for Zipped<'_> {
    fn each(self, function: impl Fn(f32, f32) -> f32) {
        for (to, (a, b)) in std::iter::zip(self.to, std::iter::zip(self.a, self.b)) {
            *to = function(*a, *b);
        }
    }
}
