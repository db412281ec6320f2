//! The report of one of our nodes: its axes, descriptor and plan, and in JSON its feature level.

use std::fmt;

use revseq_graph::{
    Attribute, AttributeValue, ElementType, Error, Input, Node, Operator, TensorType,
};
use revseq_kernels::cpu::KernelChoice;
use revseq_kernels::{FeatureLevel, Plan, ReverseSubsequencesDesc, TensorDesc};
use revseq_onnx::model::{AttributeProto, AttributeType, type_name};
use serde_json::{Value as Json, json};

use crate::model::values::{Dim, ValueType};
use crate::model::walk::Site;

/// One of our nodes.
pub(super) struct Report {
    pub(super) path: String,
    pub(super) operator: String,
    /// The inputs' and the output's roles, names and types.
    values: Vec<(&'static str, String, ValueType)>,
    /// The axes as the model has them; `None` for a default.
    written: Vec<(&'static str, Option<String>)>,
    /// The axes that they are; none if no runtime may take it.
    axes: Vec<(&'static str, i64)>,
    pub(super) outcome: Outcome,
}

/// The kernel of strings (`cpu::reverse_in_place`).
const SWAPS: &str = "swaps of elements";

/// The outcome of lowering a node.
pub(super) enum Outcome {
    /// No runtime may take it.
    Invalid(String),
    /// Sizes or types that it depends on are not declared by the model.
    Missing(Vec<String>),
    Lowered(Box<Lowered>),
}

/// A node with a descriptor.
pub(super) struct Lowered {
    desc: ReverseSubsequencesDesc,
    /// Strings have no fixed size: the descriptor describes their positions, not their bytes.
    is_of_strings: bool,
    /// The lowest feature level of DirectML that takes it, or why the highest does not.
    level: Result<FeatureLevel, String>,
    /// The next lower level, and why that does not take it.
    refused: Option<(FeatureLevel, String)>,
    plan: Result<Plan, String>,
}

/// The operator of a node, if it is one of ours, or the node's error.
pub(super) fn operator(site: &Site<'_>) -> Option<Result<Operator, Error>> {
    let node = site.node;
    if !Operator::is_known(node.domain(), node.op()) {
        return None;
    }
    let attributes: Vec<Attribute<'_>> = site
        .attributes
        .iter()
        .map(|(name, attribute)| Attribute {
            name,
            value: attribute_value(attribute),
        })
        .collect();
    let shapes: Vec<Option<Vec<Option<u64>>>> = site.inputs.iter().map(ValueType::sizes).collect();
    let inputs: Vec<Input<'_>> = std::iter::zip(&node.input, &site.inputs)
        .zip(&shapes)
        .map(|((name, value_type), shape)| Input {
            name,
            element_type: value_type.known_element_type(),
            shape: shape.as_deref(),
        })
        .collect();
    Some(Operator::from_node(&Node {
        name: node.name(),
        domain: node.domain.as_deref().unwrap_or_default(),
        op_type: node.op(),
        since_version: site.version,
        attributes: &attributes,
        inputs: &inputs,
    }))
}

fn attribute_value(attribute: &AttributeProto) -> AttributeValue<'_> {
    match attribute.r#type {
        Some(AttributeType::INT) => AttributeValue::Int(attribute.i.unwrap_or_default()),
        _ => AttributeValue::Other(attribute.type_name()),
    }
}

/// Reports a node, if it is one of ours.
pub(super) fn report(site: &Site<'_>) -> Option<Report> {
    let operator = operator(site)?;
    let (roles, axes): ([&'static str; 3], &[&'static str]) = if site.node.op() == "ReverseSequence"
    {
        (
            ["input", "sequence_lens", "output"],
            &["batch_axis", "time_axis"],
        )
    } else {
        (["data", "sequence_lengths", "output"], &["axis"])
    };
    let value = |role, name: Option<&String>, value_type: Option<&ValueType>| {
        (
            role,
            name.cloned().unwrap_or_default(),
            value_type.cloned().unwrap_or_default(),
        )
    };
    let values = vec![
        value(roles[0], site.node.input.first(), site.inputs.first()),
        value(roles[1], site.node.input.get(1), site.inputs.get(1)),
        value(roles[2], site.node.output.first(), site.outputs.first()),
    ];
    let written = axes
        .iter()
        .map(|&axis| {
            let found = site.attributes.iter().find(|(name, _)| *name == axis);
            (axis, found.map(|(_, attribute)| written(attribute)))
        })
        .collect();
    let (mut axes, outcome) = match operator {
        Ok(operator) => (self::axes(operator), outcome(site, operator)),
        Err(error) => (Vec::new(), Outcome::Invalid(error.to_string())),
    };
    if let Outcome::Invalid(_) = outcome {
        axes.clear();
    }
    Some(Report {
        path: site.path.clone(),
        operator: site.operator(),
        values,
        written,
        axes,
        outcome,
    })
}

fn written(attribute: &AttributeProto) -> String {
    match attribute_value(attribute) {
        AttributeValue::Int(value) => value.to_string(),
        AttributeValue::Other(other) => format!("of type {other}"),
    }
}

fn axes(operator: Operator) -> Vec<(&'static str, i64)> {
    match operator {
        Operator::ReverseSequence {
            batch_axis,
            time_axis,
        } => vec![("batch_axis", batch_axis), ("time_axis", time_axis)],
        Operator::ReverseSubsequences { axis } => vec![("axis", axis)],
    }
}

fn outcome(site: &Site<'_>, operator: Operator) -> Outcome {
    let [data_name, lengths_name] = operator.input_names();
    let (Some(data), Some(lengths)) = (site.inputs.first(), site.inputs.get(1)) else {
        return Outcome::Invalid("it has too few inputs".to_owned());
    };
    let mut missing = Vec::new();
    let data_type = match (data.element_type, data.known_element_type()) {
        (None, _) => {
            missing.push(format!("the element type of {data_name}"));
            None
        }
        (Some(code), None) => {
            return Outcome::Invalid(format!(
                "input {data_name} has elements of type {}, which the operator does not support",
                type_name(code)
            ));
        }
        (_, known) => known,
    };
    // ReverseSequence has lengths of one type only.
    let lengths_type = match operator {
        Operator::ReverseSequence { .. } => {
            Some(ElementType::Fixed(revseq_kernels::DataType::Int64))
        }
        Operator::ReverseSubsequences { .. } => lengths.known_element_type(),
    };
    if lengths_type.is_none() {
        missing.push(format!("the element type of {lengths_name}"));
    }
    missing_sizes(data, data_name, &mut missing);
    let sizes: Option<Vec<u64>> = data
        .shape
        .as_ref()
        .and_then(|shape| shape.iter().map(Dim::size).collect());
    let (Some(sizes), Some(data_type), Some(lengths_type)) = (sizes, data_type, lengths_type)
    else {
        return Outcome::Missing(missing);
    };
    // The known sizes of the lengths have been checked; the others follow from the data.
    let lengths_sizes = operator.lengths_shape(&sizes, 1);
    let tensor = |element_type, sizes| TensorType {
        element_type,
        sizes,
    };
    let (data, lengths) = (
        tensor(data_type, &sizes),
        tensor(lengths_type, &lengths_sizes),
    );
    match operator.lower(site.node.name(), data, lengths) {
        Ok(desc) => {
            let lowered = Lowered::new(desc, data_type == ElementType::String);
            Outcome::Lowered(Box::new(lowered))
        }
        Err(error) => Outcome::Invalid(error.to_string()),
    }
}

/// Adds the sizes of a value that are not known, each once.
fn missing_sizes(data: &ValueType, name: &str, missing: &mut Vec<String>) {
    let Some(shape) = &data.shape else {
        missing.push(format!("the rank of {name}"));
        return;
    };
    for (dimension, dim) in shape.iter().enumerate() {
        let mut name_missing = |name: &String| {
            let what = format!("{name} (--dim {name}=SIZE)");
            if !missing.contains(&what) {
                missing.push(what);
            }
        };
        match dim {
            Dim::Known(_) => {}
            Dim::Symbol(name) => name_missing(name),
            Dim::Computed { symbols, .. } => symbols.iter().for_each(&mut name_missing),
            Dim::Unknown => missing.push(format!("the size of {name} in dimension {dimension}")),
        }
    }
}

impl Lowered {
    fn new(desc: ReverseSubsequencesDesc, is_of_strings: bool) -> Self {
        let level = match is_of_strings {
            true => Err("DirectML has no strings".to_owned()),
            false => (desc.lowest_feature_level()).map_err(|error| error.to_string()),
        };
        let refused = level.as_ref().ok().and_then(|level| {
            let lower = FeatureLevel::ALL.into_iter().rfind(|lower| lower < level)?;
            Some((lower, desc.validate(lower).err()?.to_string()))
        });
        let plan = Plan::new(&desc).map_err(|error| error.to_string());
        Self {
            desc,
            is_of_strings,
            level,
            refused,
            plan,
        }
    }
}

impl Report {
    /// The node's lines, as labels and texts.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines: Vec<(&'static str, String)> = self
            .values
            .iter()
            .map(|(role, name, value_type)| (*role, format!("{name}: {value_type}")))
            .collect();
        let written = self.written.iter();
        let written: Vec<String> = written
            .map(|(axis, value)| format!("{axis} {}", value.as_deref().unwrap_or("left out")))
            .collect();
        let axes = self.axes.iter();
        let axes: Vec<String> = axes.map(|(axis, at)| format!("{axis} {at}")).collect();
        let (written, axes) = (written.join(", "), axes.join(", "));
        let axes = match axes.is_empty() || axes == written {
            true => written,
            false => format!("{axes} (written: {written})"),
        };
        lines.push(("axes", axes));
        match &self.outcome {
            Outcome::Invalid(error) => lines.push(("error", error.clone())),
            Outcome::Missing(what) => {
                lines.push(("descriptor", format!("depends on {}", what.join(", "))));
            }
            Outcome::Lowered(lowered) => {
                lines.push(("descriptor", lowered.to_string()));
                let plan = match &lowered.plan {
                    Ok(_) if lowered.is_of_strings => SWAPS.to_owned(),
                    Ok(plan) => format!(
                        "{}, row bytes {}, moved bytes {}",
                        KernelChoice::of_plan(plan),
                        plan.row_bytes(),
                        plan.moved_bytes()
                    ),
                    Err(error) => format!("none: {error}"),
                };
                lines.push(("plan", plan));
            }
        }
        lines
    }

    /// The node as JSON.
    pub(super) fn json(&self) -> Json {
        let values: serde_json::Map<String, Json> = self
            .values
            .iter()
            .map(|(role, name, value_type)| ((*role).to_owned(), value_json(name, value_type)))
            .collect();
        let written: serde_json::Map<String, Json> = self
            .written
            .iter()
            .map(|(axis, value)| {
                let value = value.as_ref().map(|value| match value.parse::<i64>() {
                    Ok(value) => Json::from(value),
                    Err(_) => Json::from(value.as_str()),
                });
                ((*axis).to_owned(), value.into())
            })
            .collect();
        let mut json = json!({
            "path": self.path,
            "operator": self.operator,
            "values": values,
            "written_axes": written,
        });
        if !self.axes.is_empty() {
            let axes = self.axes.iter();
            json["axes"] = axes.map(|(axis, at)| ((*axis).to_owned(), *at)).collect();
        }
        match &self.outcome {
            Outcome::Invalid(error) => json["error"] = error.as_str().into(),
            Outcome::Missing(what) => json["missing"] = what.clone().into(),
            Outcome::Lowered(lowered) => lowered.add_json(&mut json),
        }
        json
    }
}

pub(super) fn value_json(name: &str, value_type: &ValueType) -> Json {
    let shape = value_type.shape.as_ref().map(|shape| -> Json {
        let dims = shape.iter().map(|dim| match dim {
            Dim::Known(size) => Json::from(*size),
            Dim::Symbol(text) | Dim::Computed { text, .. } => Json::from(text.as_str()),
            Dim::Unknown => Json::Null,
        });
        dims.collect()
    });
    json!({
        "name": name,
        "type": value_type.element_type.map(type_name),
        "shape": shape,
    })
}

impl Lowered {
    /// The name of the data's type, as the descriptor's language has it.
    fn data_type(&self) -> &'static str {
        match self.is_of_strings {
            true => "STRING",
            false => self.desc.input.data_type.name(),
        }
    }

    fn add_json(&self, json: &mut Json) {
        let tensor = |tensor: &TensorDesc, data_type: &str| {
            json!({
                "data_type": data_type,
                "sizes": tensor.sizes[..],
                "strides": tensor.strides.as_deref(),
            })
        };
        json["descriptor"] = json!({
            "input": tensor(&self.desc.input, self.data_type()),
            "sequence_lengths": tensor(
                &self.desc.sequence_lengths,
                self.desc.sequence_lengths.data_type.name(),
            ),
            "output": tensor(&self.desc.output, self.data_type()),
            "axis": self.desc.axis,
        });
        json["directml"] = match (&self.level, &self.refused) {
            (Ok(level), None) => json!({ "level": level.to_string() }),
            (Ok(level), Some((lower, why))) => json!({
                "level": level.to_string(),
                "refused": { "level": lower.to_string(), "reason": why },
            }),
            (Err(why), _) => json!({ "level": null, "reason": why }),
        };
        json["plan"] = match &self.plan {
            Ok(_) if self.is_of_strings => json!({ "kernel": SWAPS }),
            Ok(plan) => json!({
                "kernel": KernelChoice::of_plan(plan).to_string(),
                "row_bytes": plan.row_bytes(),
                "moved_bytes": plan.moved_bytes(),
            }),
            Err(error) => json!({ "error": error }),
        };
    }
}

impl fmt::Display for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, lengths) = (&self.desc.input, &self.desc.sequence_lengths);
        write!(
            f,
            "{} {:?}, axis {}; lengths {} {:?}",
            self.data_type(),
            input.sizes,
            self.desc.axis,
            lengths.data_type,
            lengths.sizes
        )?;
        match &lengths.strides {
            Some(strides) => write!(f, ", strides {strides:?}"),
            None => write!(f, ", packed"),
        }
    }
}
