//! Tensors, and runs of operators of linear attention with them.

use recurrent_layers::{Attention, Attribute, Elements, Error, Operand, Threads};

use crate::given::Given;

impl Given {
    /// Sets a string.
    pub(crate) fn text(&mut self, name: &'static str, value: &'static str) {
        self.0.insert(name, Attribute::String(value.as_bytes()));
    }

    /// Sets integers.
    pub(crate) fn integers<const N: usize>(&mut self, values: [(&'static str, i64); N]) {
        self.0
            .extend(values.map(|(name, value)| (name, Attribute::Integer(value))));
    }
}

/// A tensor of numbers that repeat after many.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) sizes: Vec<usize>,
    pub(crate) elements: Vec<f32>,
    /// The elements of one that has integers.
    integers: Option<Vec<i32>>,
}

impl Tensor {
    pub(crate) fn new(seed: usize, sizes: &[usize]) -> Self {
        let count: usize = sizes.iter().product();
        let number = |at: usize| (((at + 13 * seed) * 37 % 101) as f32 - 50.0) / 60.0;
        Self {
            sizes: sizes.to_vec(),
            elements: (0..count).map(number).collect(),
            integers: None,
        }
    }

    pub(crate) fn of_integers(integers: &[i32]) -> Self {
        Self {
            sizes: vec![integers.len()],
            elements: vec![],
            integers: Some(integers.to_vec()),
        }
    }

    pub(crate) fn map(mut self, function: impl Fn(f32) -> f32) -> Self {
        self.elements.iter_mut().for_each(|it| *it = function(*it));
        self
    }

    pub(crate) fn operand(&self) -> Operand<'_> {
        Operand {
            sizes: &self.sizes,
            elements: match &self.integers {
                None => Elements::Floats(&self.elements),
                Some(integers) => Elements::Integers(integers),
            },
        }
    }
}

/// The outputs of a run.
pub(crate) fn run(
    attention: &Attention,
    inputs: &[Option<&Tensor>],
    threads: &dyn Threads,
) -> Result<Vec<Tensor>, Error> {
    let operands: Vec<_> = inputs.iter().map(|it| it.map(Tensor::operand)).collect();
    let sizes: Vec<_> = operands.iter().map(|it| it.map(|it| it.sizes)).collect();
    let mut made: Vec<Tensor> = attention
        .sizes(&sizes)?
        .iter()
        .map(|sizes| Tensor::new(0, sizes).map(|_| f32::NAN))
        .collect();
    let mut outputs: Vec<_> = made
        .iter_mut()
        .map(|it| Some(&mut it.elements[..]))
        .collect();
    attention.run(&operands, &mut outputs, threads)?;
    Ok(made)
}

pub(crate) fn close(actual: &Tensor, expected: &[f64], sizes: &[usize]) {
    assert_eq!(actual.sizes, sizes);
    assert_eq!(actual.elements.len(), expected.len());
    for (at, (actual, expected)) in std::iter::zip(&actual.elements, expected).enumerate() {
        let bound = 1e-5 * expected.abs().max(1.0);
        let difference = (f64::from(*actual) - expected).abs();
        assert!(
            difference <= bound,
            "element {at} is {actual}, expected {expected}"
        );
    }
}
