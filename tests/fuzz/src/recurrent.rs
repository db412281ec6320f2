//! A node of a recurrent layer with any attributes, and a run of it with operands of any sizes.

use arbitrary::{Result, Unstructured};
use recurrent_layers::{Inputs, Layer, Layout, Memory, Outputs, Serial, ValidSteps, Weights};
use revseq_ep::fuzzing::layer;
use revseq_ep::fuzzing::model::{self, AttributeProto, AttributeType};

use crate::provider::text;

/// The most elements of an operand.
const MOST: usize = 1 << 12;

pub(crate) fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let op_type = *u.choose(&["LSTM", "GRU", "RNN"])?;
    let mut attributes = vec![];
    for _ in 0..u.int_in_range(0..=4)? {
        attributes.push(attribute(u)?);
    }
    let mut layer = match layer(op_type, &attributes) {
        Ok(layer) => layer,
        Err(reason) => {
            assert!(!reason.is_empty());
            return Ok(());
        }
    };
    layer.features = size(u)?;
    layer.units = size(u)?;
    run(u, &layer)
}

fn attribute(u: &mut Unstructured<'_>) -> Result<AttributeProto> {
    let names = [
        "direction",
        "activations",
        "activation_alpha",
        "activation_beta",
        "clip",
        "hidden_size",
        "layout",
        "input_forget",
        "linear_before_reset",
    ];
    let name = text(u, &names)?;
    let functions = [
        "Sigmoid",
        "tanh",
        "Affine",
        "Softplus",
        "Elu",
        "ThresholdedRelu",
    ];
    Ok(match (name, u.ratio(1, 8)?) {
        (_, true) => AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(AttributeType::GRAPH),
            ..AttributeProto::default()
        },
        ("direction", _) => model::text(name, text(u, &["forward", "reverse", "bidirectional"])?),
        ("activations", _) => {
            let mut all = vec![];
            for _ in 0..u.int_in_range(0..=6)? {
                all.push(text(u, &functions)?);
            }
            model::texts(name, &all)
        }
        ("activation_alpha" | "activation_beta", _) => {
            let values: Vec<f32> = u.arbitrary()?;
            model::floats(name, &values)
        }
        ("clip", _) => model::float(name, u.arbitrary()?),
        _ => model::int(name, u.int_in_range(-1..=3)?),
    })
}

/// A small size, or any.
fn size(u: &mut Unstructured<'_>) -> Result<usize> {
    match u.ratio(1, 16)? {
        true => u.arbitrary(),
        false => u.int_in_range(0..=20),
    }
}

/// The elements of an operand of this shape, of which there may be more or less.
fn elements(u: &mut Unstructured<'_>, shape: &[usize]) -> Result<Vec<f32>> {
    let count = shape
        .iter()
        .try_fold(1_usize, |all, it| all.checked_mul(*it));
    let mut count = count.unwrap_or(MOST).min(MOST);
    if u.ratio(1, 32)? {
        count = u.int_in_range(0..=MOST)?;
    }
    let some: [f32; 4] = u.arbitrary()?;
    Ok((0..count).map(|it| some[it % some.len()]).collect())
}

fn optional(u: &mut Unstructured<'_>, shape: &[usize]) -> Result<Option<Vec<f32>>> {
    let is_there: bool = u.arbitrary()?;
    is_there.then(|| elements(u, shape)).transpose()
}

/// Runs the layer: whatever the sizes, it returns its outputs or an error.
fn run(u: &mut Unstructured<'_>, layer: &Layer) -> Result<()> {
    let (gates, directions) = (layer.cell.gates(), layer.directions.len());
    let (units, features) = (layer.units, layer.features);
    let rows = gates.saturating_mul(units);
    let (w, r) = (
        elements(u, &[directions, rows, features])?,
        elements(u, &[directions, rows, units])?,
    );
    let b = optional(u, &[directions, 2, rows])?;
    let p = match u.ratio(1, 2)? {
        true => optional(u, &[directions, 3, units])?,
        false => None,
    };
    let weights = Weights {
        w: &w,
        r: &r,
        b: b.as_deref(),
        p: p.as_deref(),
    };
    let packed = match layer.pack(&weights) {
        Ok(packed) => packed,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Ok(());
        }
    };
    let (mut steps, batch) = (size(u)?, size(u)?);
    if features == 0 {
        // Steps without an input take time all the same.
        steps %= 21;
    }
    let state = [directions, batch, units];
    let x = elements(u, &[steps, batch, features])?;
    let (h, c) = (optional(u, &state)?, optional(u, &state)?);
    let mut lengths = vec![];
    for _ in 0..batch.min(MOST) {
        lengths.push(u.int_in_range(0..=21)?);
    }
    let mask = vec![u.arbitrary()?; steps.saturating_mul(batch).min(MOST)];
    let mut inputs = Inputs {
        x: &x,
        w: None,
        r: None,
        steps,
        batch,
        layout: *u.choose(&[Layout::TimeFirst, Layout::BatchFirst])?,
        valid: match u.int_in_range(0..=2)? {
            0 => ValidSteps::All,
            1 => ValidSteps::Lengths(&lengths),
            _ => ValidSteps::Mask {
                mask: &mask,
                blends: u.arbitrary()?,
                repeats: u.arbitrary()?,
            },
        },
        initial_h: h.as_deref(),
        initial_c: c.as_deref(),
    };
    let mut y = elements(u, &[steps, directions, batch, units])?;
    let (mut last_h, mut last_c) = (elements(u, &state)?, elements(u, &state)?);
    let outputs = Outputs {
        y: u.arbitrary::<bool>()?.then_some(&mut *y),
        last_h: u.arbitrary::<bool>()?.then_some(&mut *last_h),
        last_c: u.arbitrary::<bool>()?.then_some(&mut *last_c),
    };
    let packed = match u.arbitrary()? {
        true => packed,
        // Weights that are not packed.
        false => {
            inputs.w = Some(&w);
            // One that lacks is an error.
            inputs.r = u.ratio(7, 8)?.then_some(&*r);
            let of_run = layer.input_of_run().and_then(|w| {
                let r = layer.state_of_run()?;
                layer.packed(&w, &r, weights.b, weights.p)
            });
            // A layer that quantises its input has packed weights alone.
            of_run.unwrap_or(packed)
        }
    };
    if let Err(error) = packed.run(&inputs, outputs, &mut Memory::default(), &Serial) {
        assert!(!error.to_string().is_empty());
    }
    Ok(())
}
