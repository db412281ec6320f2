//! The answers of Microsoft's DirectML.dll 1.15.4 itself.
//!
//! `data/directml_cases.json` holds its answers: whether it creates the operator, and the bytes
//! of the output buffer, which held 77s of the data type before.

use half::f16;
use revseq_kernels::cpu::{self, Threads};
use revseq_kernels::{
    DataType, Error, FeatureLevel, LengthsData, LengthsPolicy, Plan, ReverseSubsequencesDesc,
    SequenceLengths, TensorDesc, reference,
};
use serde::Deserialize;

/// Its sizes and strides are in elements, its totals and alignments in bytes.
#[derive(Deserialize)]
struct Case {
    name: String,
    dtype: String,
    sizes: Vec<u64>,
    strides: Option<Vec<u64>>,
    axis: u32,
    lengths_dtype: String,
    lengths_sizes: Vec<u64>,
    lengths_strides: Option<Vec<u64>>,
    lengths: Option<Vec<u64>>,
    output_sizes: Option<Vec<u64>>,
    output_strides: Option<Vec<u64>>,
    output_dtype: Option<String>,
    #[serde(default)]
    alignment_input: u32,
    #[serde(default)]
    alignment_lengths: u32,
    #[serde(default)]
    alignment_output: u32,
    total_input: Option<u64>,
    total_lengths: Option<u64>,
    total_output: Option<u64>,
    /// Whether DirectML creates the operator.
    created: bool,
    /// The input in hexadecimal, as is the output; only of cases that were run.
    input: Option<String>,
    output: Option<String>,
}

fn cases() -> Vec<Case> {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("data/directml_cases.json")).expect("a valid case table");
    assert_eq!(cases.len(), 289);
    cases
}

fn data_type(name: &str) -> DataType {
    let found = DataType::ALL.into_iter().find(|it| it.name() == name);
    found.expect("a data type of DirectML")
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = |at: usize| &hexadecimal[at..at + 2];
    let byte = |at| u8::from_str_radix(digits(at), 16).expect("two hexadecimal digits");
    (0..hexadecimal.len()).step_by(2).map(byte).collect()
}

impl Case {
    fn desc(&self) -> ReverseSubsequencesDesc {
        let tensor = |name: &str, sizes: &[u64], strides: &Option<Vec<u64>>, total, alignment| {
            let sizes = sizes.iter().copied();
            let packed = TensorDesc::packed(data_type(name), sizes);
            TensorDesc {
                strides: strides.as_ref().map(|it| it.iter().copied().collect()),
                total_size_in_bytes: total,
                guaranteed_base_offset_alignment: alignment,
                ..packed
            }
        };
        ReverseSubsequencesDesc {
            input: tensor(
                &self.dtype,
                &self.sizes,
                &self.strides,
                self.total_input,
                self.alignment_input,
            ),
            sequence_lengths: tensor(
                &self.lengths_dtype,
                &self.lengths_sizes,
                &self.lengths_strides,
                self.total_lengths,
                self.alignment_lengths,
            ),
            output: tensor(
                self.output_dtype.as_ref().unwrap_or(&self.dtype),
                self.output_sizes.as_ref().unwrap_or(&self.sizes),
                &self.output_strides,
                self.total_output,
                self.alignment_output,
            ),
            axis: self.axis,
        }
    }

    /// A buffer of 77s, as the output was before the run.
    fn filled(&self, bytes: usize) -> Vec<u8> {
        let element = match data_type(&self.dtype) {
            DataType::Float64 => 77_f64.to_le_bytes().to_vec(),
            DataType::Float32 => 77_f32.to_le_bytes().to_vec(),
            DataType::Float16 => f16::from_f32(77.0).to_le_bytes().to_vec(),
            integer => 77_u64.to_le_bytes()[..integer.size()].to_vec(),
        };
        element.into_iter().cycle().take(bytes).collect()
    }

    /// Reverses as DirectML does; its page does not define lengths above the axis.
    fn by_directmls_rule(&self, desc: &ReverseSubsequencesDesc, input: &[u8]) -> Vec<u8> {
        let lengths = self.lengths.as_ref().expect("a case that was run");
        let (&[rows, axis], 1) = (&*self.sizes, self.axis) else {
            panic!("{}: lengths above the axis are in matrices only", self.name);
        };
        let width = desc.input.data_type.size();
        let element = |row: u64, step: u64| {
            let length = lengths[row as usize] & u64::from(u32::MAX);
            let step = if step < length {
                (length - 1 - step).min(axis - 1)
            } else {
                step
            };
            let at = (row * axis + step) as usize * width;
            &input[at..at + width]
        };
        let coordinates = (0..rows).flat_map(|row| (0..axis).map(move |step| (row, step)));
        coordinates
            .flat_map(|(row, step)| element(row, step).to_vec())
            .collect()
    }
}

/// Whether two coordinates have one element, by counting them.
fn collides(output: &TensorDesc) -> bool {
    let strides = output.effective_strides().unwrap();
    let mut offsets = vec![0];
    for (&size, &stride) in output.sizes.iter().zip(&strides) {
        let along = |offset| (0..size).map(move |at| offset + at * stride);
        offsets = offsets.into_iter().flat_map(along).collect();
    }
    let all = offsets.len();
    offsets.sort_unstable();
    offsets.dedup();
    offsets.len() < all
}

#[test]
fn directml_accepts_every_valid_descriptor() {
    let mut collisions = 0;
    for case in cases() {
        let desc = case.desc();
        let validated = desc.validate(FeatureLevel::V5_0);
        match (case.created, &validated) {
            // It looks at counts and equal strides only, and takes other layouts that collide.
            (true, Err(Error::OverlappingOutput { .. })) => {
                assert!(collides(&desc.output), "{}", case.name);
                collisions += 1;
            }
            (created, _) => assert_eq!(validated.is_ok(), created, "{}: {validated:?}", case.name),
        }
    }
    assert!(collisions > 0);
}

#[test]
fn the_kernels_give_directmls_bytes() {
    let (mut equal, mut above) = (0, 0);
    for case in cases() {
        let (Some(input), Some(output)) = (&case.input, &case.output) else {
            continue;
        };
        let (desc, input, directml) = (case.desc(), bytes(input), bytes(output));
        let plan = Plan::new(&desc).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let lengths = case.lengths.as_ref().expect("a case that was run");
        let narrow: Vec<u32> = lengths.iter().map(|&it| it as u32).collect();
        let data = match desc.sequence_lengths.data_type {
            DataType::Uint64 => LengthsData::U64(lengths),
            _ => LengthsData::U32(&narrow),
        };
        let mut by_reference = case.filled(directml.len());
        reference::reverse_subsequences(&desc, &input, data, &mut by_reference);
        let mut by_kernels = case.filled(directml.len());
        let checked = SequenceLengths::new(&plan, data, LengthsPolicy::Clamp).unwrap();
        cpu::run(&plan, &checked, &input, &mut by_kernels, Threads::Serial).unwrap();
        assert!(by_kernels == by_reference, "{}", case.name);
        if SequenceLengths::new(&plan, data, LengthsPolicy::Reject).is_ok() {
            assert!(by_kernels == directml, "{}", case.name);
            equal += 1;
        } else {
            let by_its_rule = case.by_directmls_rule(&desc, &input);
            assert!(directml.starts_with(&by_its_rule), "{}", case.name);
            assert!(by_kernels != directml, "{}", case.name);
            above += 1;
        }
    }
    assert_eq!((equal, above), (109, 24));
}
