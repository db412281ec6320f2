//! Programs of texts, their inputs and outputs.

use recurrent_layers::Serial;
use recurrent_steps::{Around, Elements, ElementsMut, Error, Kind, Outputs, Steps, Tensor};
use revseq_onnx::model::{DOUBLE, FLOAT, INT64, TensorProto};
use revseq_test_models::text;

/// Around the loop, names with a small `n` first are int64, and all others float32.
pub(crate) struct Values;

impl Around for Values {
    fn code(&self, name: &str) -> Option<i32> {
        Some(if name.starts_with('n') { INT64 } else { FLOAT })
    }

    fn constant(&self, _name: &str) -> Option<TensorProto> {
        None
    }
}

/// The memory of outputs, and the sizes that they were asked for.
pub(crate) struct Room<'a> {
    pub(crate) memory: Vec<Option<&'a mut [f32]>>,
    pub(crate) sizes: Vec<Vec<usize>>,
}

impl<'a> Room<'a> {
    pub(crate) fn new(memory: &'a mut [Vec<f32>]) -> Self {
        let sizes = vec![vec![]; memory.len()];
        let memory = memory.iter_mut().map(|it| Some(&mut **it)).collect();
        Self { memory, sizes }
    }
}

impl<'a> Outputs<'a> for Room<'a> {
    fn room(
        &mut self,
        index: usize,
        kind: Kind,
        sizes: &[usize],
    ) -> Result<ElementsMut<'a>, String> {
        assert_eq!(kind, Kind::Float);
        self.sizes[index] = sizes.to_vec();
        let all = self.memory[index].take().ok_or("it was given before")?;
        all.get_mut(..sizes.iter().product())
            .map(ElementsMut::Float)
            .ok_or_else(|| format!("{sizes:?} are too many"))
    }
}

/// The program of a loop, with the graphs in it.
pub(crate) fn read(text: &str, around: &dyn Around) -> Result<Steps, String> {
    let graph = text::graph(&format!("->\n{text}"));
    Steps::read(&graph.node[0], 18, around)
}

pub(crate) fn program(text: &str) -> Steps {
    read(text, &Values).unwrap()
}

/// A Scan over `xs` of one state, which its body calls `h`, `x` and `next`.
pub(crate) fn scan(nodes: &str) -> String {
    format!("last = Scan<body=@body;num_scan_inputs=1>(h0, xs)\n@body: h x -> next\n{nodes}")
}

/// Outputs, and their sizes.
pub(crate) type Outcome<const COUNT: usize> = ([Vec<f32>; COUNT], Vec<Vec<usize>>);

/// Runs a program on inputs of these names; its outputs of so many floats.
pub(crate) fn run<const COUNT: usize>(
    program: &Steps,
    given: &[(&str, Tensor<'_>)],
    lens: [usize; COUNT],
) -> Result<Outcome<COUNT>, Error> {
    let by_name = |name: &str| given.iter().find(|it| it.0 == name).expect("it is given").1;
    let given: Vec<Tensor<'_>> = program.inputs().map(|it| by_name(it.0)).collect();
    let mut memory = lens.map(|len| vec![f32::NAN; len]);
    let mut room = Room::new(&mut memory);
    program.run(&given, &mut room, &Serial)?;
    let sizes = room.sizes;
    Ok((memory, sizes))
}

/// Numbers that look like chance.
pub(crate) fn numbers(len: usize, seed: usize) -> Vec<f32> {
    let number = |index: usize| ((index * 7 + seed * 13) % 23) as f32 / 16.0 - 0.7;
    (0..len).map(number).collect()
}

pub(crate) fn floats<'a>(sizes: &'a [usize], elements: &'a [f32]) -> Tensor<'a> {
    Tensor {
        sizes,
        elements: Elements::Float(elements),
    }
}

pub(crate) fn int64s(elements: &[i64]) -> Tensor<'_> {
    Tensor {
        sizes: &[],
        elements: Elements::Int64(elements),
    }
}

pub(crate) fn close(actual: &[f32], expected: &[f32], what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (index, (actual, expected)) in std::iter::zip(actual, expected).enumerate() {
        let bound = 1e-4 * expected.abs().max(1.0);
        assert!(
            (actual - expected).abs() <= bound,
            "{what} {index}: {actual} for {expected}"
        );
    }
}

/// float32 around the loop, but for constants.
pub(crate) struct Constants(pub(crate) Vec<(&'static str, TensorProto)>);

impl Around for Constants {
    fn code(&self, name: &str) -> Option<i32> {
        // Of some constants only the elements are known.
        match self.constant(name) {
            Some(constant) if constant.code() == DOUBLE => None,
            Some(constant) => Some(constant.code()),
            None => Some(FLOAT),
        }
    }

    fn constant(&self, name: &str) -> Option<TensorProto> {
        let mut all = self.0.iter();
        Some(all.find(|it| it.0 == name)?.1.clone())
    }
}

pub(crate) fn float_tensor(sizes: &[usize], elements: &[f32]) -> TensorProto {
    TensorProto {
        data_type: Some(FLOAT),
        dims: sizes.iter().map(|&size| size as i64).collect(),
        float_data: elements.to_vec(),
        ..TensorProto::default()
    }
}
