//! The data that a host passes with a node: options, attributes, types and shapes.

use arbitrary::{Result, Unstructured};
use revseq_graph::{
    Attribute, AttributeValue, ElementType, Error, Input, Node, Operator, TensorType,
};
use revseq_kernels::{DataType, Plan};

use crate::recurrent;

/// Reads options and a node out of the bytes, and lowers the node, or runs its layer.
pub fn provider(data: &[u8]) {
    // Missing bytes count as 0 or empty.
    let _ = check(&mut Unstructured::new(data));
}

fn check(u: &mut Unstructured<'_>) -> Result<()> {
    match u.int_in_range(0..=3)? {
        0 => check_options(u),
        1 => recurrent::check(u),
        _ => check_node(u),
    }
}

fn check_options(u: &mut Unstructured<'_>) -> Result<()> {
    let mut entries = Vec::new();
    for _ in 0..u.int_in_range(0..=3)? {
        let start = *u.choose(&[
            "ep.revseqexecutionprovider.",
            "EP.",
            "ep.RevSeqExecutionProvider",
            "",
        ])?;
        let name = text(u, &["lengths", "loops", "layers", ".layers", "lengths."])?;
        let value = text(u, &["reject", "clamp", "keep", "steps", "on"])?;
        entries.push((start.to_owned() + name, value));
    }
    let entries: Vec<_> = entries
        .iter()
        .map(|(key, value)| (key.as_str(), *value))
        .collect();
    if let Err(message) = revseq_ep::fuzzing::options(&entries) {
        assert!(message.contains("expected"), "{message:?}");
    }
    Ok(())
}

/// One of the texts, or any.
pub(crate) fn text<'a>(u: &mut Unstructured<'a>, known: &[&'static str]) -> Result<&'a str> {
    match u.ratio(3, 4)? {
        true => Ok(*u.choose(known)?),
        false => u.arbitrary(),
    }
}

fn check_node(u: &mut Unstructured<'_>) -> Result<()> {
    let name = u.arbitrary()?;
    let domain = text(u, &["", "ai.onnx", "revseq"])?;
    let op_type = text(u, &["ReverseSequence", "ReverseSubsequences"])?;
    let since_version = match u.ratio(7, 8)? {
        true => u.int_in_range(0..=30)?,
        false => u.arbitrary()?,
    };
    let mut attributes = Vec::new();
    for _ in 0..u.int_in_range(0..=3)? {
        attributes.push(Attribute {
            name: text(u, &["batch_axis", "time_axis", "axis"])?,
            value: match u.int_in_range(0..=9)? {
                9 => AttributeValue::Other(u.arbitrary()?),
                8 => AttributeValue::Int(u.arbitrary()?),
                _ => AttributeValue::Int(u.int_in_range(-9..=8)?),
            },
        });
    }
    let sizes = sizes(u)?;
    // Mostly valid, so that later checks are reached, too.
    let mut lengths = sizes.clone();
    match u.int_in_range(0..=3)? {
        0 => lengths = self::sizes(u)?,
        1 if !lengths.is_empty() => {
            let axis = u.choose_index(lengths.len())?;
            lengths[axis] = 1;
        }
        _ if !lengths.is_empty() => lengths = vec![lengths[u.choose_index(lengths.len())?]],
        _ => {}
    }
    let types: Vec<ElementType> = ElementType::all().collect();
    let data_type = *u.choose(&types)?;
    let lengths_type = match u.ratio(3, 4)? {
        true => ElementType::Fixed(DataType::Int64),
        false => *u.choose(&types)?,
    };
    let mut shapes = Vec::new();
    let mut inputs = Vec::new();
    for sizes in [&sizes, &lengths] {
        let unknown: u16 = if u.ratio(1, 4)? { u.arbitrary()? } else { 0 };
        let known = |(dimension, &size): (usize, &u64)| {
            (unknown >> (dimension % 16) & 1 == 0).then_some(size)
        };
        shapes.push(sizes.iter().enumerate().map(known).collect::<Vec<_>>());
    }
    for (shape, element_type) in std::iter::zip(&shapes, [data_type, lengths_type]) {
        let known: u8 = u.arbitrary()?;
        inputs.push(Input {
            name: if known & 7 == 7 { "" } else { "x" },
            element_type: (known & 0x18 != 0).then_some(element_type),
            shape: (known & 0x60 != 0).then_some(shape.as_slice()),
        });
    }
    if u.ratio(1, 8)? {
        inputs.truncate(u.int_in_range(0..=1)?);
    }
    let node = Node {
        name,
        domain,
        op_type,
        since_version,
        attributes: &attributes,
        inputs: &inputs,
    };
    let operator = match Operator::from_node(&node) {
        Ok(operator) => operator,
        Err(error) => {
            check_error(&error, &node);
            return Ok(());
        }
    };
    assert!(Operator::is_known(domain, op_type));
    let lowered = operator.lower(
        name,
        TensorType {
            element_type: data_type,
            sizes: &sizes,
        },
        TensorType {
            element_type: lengths_type,
            sizes: &lengths,
        },
    );
    match lowered {
        Err(error) => check_error(&error, &node),
        Ok(desc) => {
            let rank = desc.input.dimension_count();
            assert!((4..=5).contains(&rank), "{desc:?}");
            let normal = operator.normalize(sizes.len()).expect("it was lowered");
            assert_eq!(normal.normalize(sizes.len()), Ok(normal));
            assert_eq!(desc.input.element_count(), product(&sizes));
            if desc.lowest_feature_level().is_ok() {
                Plan::new(&desc).expect("every descriptor that DirectML takes has a plan");
            }
        }
    }
    Ok(())
}

fn sizes(u: &mut Unstructured<'_>) -> Result<Vec<u64>> {
    let rank = u.int_in_range(0..=8)?;
    (0..rank)
        .map(|_| match u.int_in_range(0..=7)? {
            7 => u.arbitrary(),
            6 => Ok(u.arbitrary::<u16>()?.into()),
            _ => u.int_in_range(0..=9),
        })
        .collect()
}

fn product(sizes: &[u64]) -> Option<u64> {
    match sizes.contains(&0) {
        true => Some(0),
        false => sizes
            .iter()
            .try_fold(1_u64, |all, &size| all.checked_mul(size)),
    }
}

/// An error names its node.
fn check_error(error: &Error, node: &Node<'_>) {
    let text = error.to_string();
    assert_eq!(
        (error.node.as_str(), error.op_type.as_str()),
        (node.name, node.op_type)
    );
    assert!(text.starts_with(node.op_type), "{text:?}");
}
