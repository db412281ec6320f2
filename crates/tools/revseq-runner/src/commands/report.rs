//! The report of one of our nodes: its axes, descriptor and plan, and in JSON its feature level.

use revseq_graph::{
    Attribute, AttributeValue, ElementType, Error, Input, Node, Operator, TensorType,
};
use revseq_kernels::cpu::KernelChoice;
use revseq_kernels::{FeatureLevel, Plan, ReverseSubsequencesDesc, TensorDesc};
use revseq_onnx::model::{AttributeProto, AttributeType, type_name};
use serde_json::{Value as Json, json};

use crate::model::values::{Dim, ValueType};
use crate::model::walk::Site;

/// One of our nodes, reported.
pub(super) struct Report {
    pub(super) path: String,
    pub(super) operator: String,
    /// Its lines, as labels and texts; the label of an error is [`ERROR`].
    pub(super) lines: Vec<(&'static str, String)>,
    pub(super) json: Json,
}

pub(super) const ERROR: &str = "error";

/// The kernel of strings (`cpu::reverse_in_place`).
const SWAPS: &str = "swaps of elements";

/// The outcome of lowering a node.
enum Outcome {
    /// No runtime may take it.
    Invalid(String),
    /// Sizes or types that it depends on are not declared by the model.
    Missing(Vec<String>),
    Lowered {
        desc: Box<ReverseSubsequencesDesc>,
        /// Strings have no fixed size: the descriptor describes their positions, not their bytes.
        is_of_strings: bool,
    },
}

/// The operator of a node, if it is one of ours, or the node's error.
fn operator(site: &Site<'_>) -> Option<Result<Operator, Error>> {
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
    let (roles, names): ([&str; 3], &[&str]) = match site.node.op() {
        "ReverseSequence" => (
            ["input", "sequence_lens", "output"],
            &["batch_axis", "time_axis"],
        ),
        _ => (["data", "sequence_lengths", "output"], &["axis"]),
    };
    let mut report = Report {
        path: site.path.clone(),
        operator: site.operator(),
        lines: Vec::new(),
        json: json!({ "path": site.path, "operator": site.operator() }),
    };
    let node = site.node;
    report.add_value(roles[0], node.input.first(), site.inputs.first());
    report.add_value(roles[1], node.input.get(1), site.inputs.get(1));
    report.add_value(roles[2], node.output.first(), site.outputs.first());
    let (axes, outcome) = match operator {
        Ok(operator) => (axes(operator), outcome(site, operator)),
        Err(error) => (Vec::new(), Outcome::Invalid(error.to_string())),
    };
    match outcome {
        Outcome::Invalid(error) => {
            report.add_axes(site, names, &[]);
            report.json["error"] = error.as_str().into();
            report.lines.push((ERROR, error));
        }
        Outcome::Missing(what) => {
            report.add_axes(site, names, &axes);
            let text = format!("depends on {}", what.join(", "));
            report.lines.push(("descriptor", text));
            report.json["missing"] = what.into();
        }
        Outcome::Lowered {
            desc,
            is_of_strings,
        } => {
            report.add_axes(site, names, &axes);
            report.add_descriptor(&desc, is_of_strings);
            report.json["directml"] = directml(&desc, is_of_strings);
            report.add_plan(&desc, is_of_strings);
        }
    }
    Some(report)
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
        Ok(desc) => Outcome::Lowered {
            desc: Box::new(desc),
            is_of_strings: data_type == ElementType::String,
        },
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

impl Report {
    /// Adds an input or an output in its role.
    fn add_value(&mut self, role: &'static str, name: Option<&String>, value: Option<&ValueType>) {
        let name = name.map_or("", String::as_str);
        let value = value.cloned().unwrap_or_default();
        self.json["values"][role] = value_json(name, &value);
        self.lines.push((role, format!("{name}: {value}")));
    }

    /// Adds the axes as the model has them, and as they are; no runtime may take a node without these.
    fn add_axes(&mut self, site: &Site<'_>, names: &[&str], axes: &[(&str, i64)]) {
        let mut all = Vec::new();
        for &name in names {
            let found = site.attributes.iter().find(|(it, _)| *it == name);
            let (text, json) = match found.map(|(_, attribute)| attribute_value(attribute)) {
                None => ("left out".to_owned(), Json::Null),
                Some(AttributeValue::Int(value)) => (value.to_string(), value.into()),
                Some(AttributeValue::Other(other)) => {
                    let text = format!("of type {other}");
                    (text.clone(), text.into())
                }
            };
            all.push(format!("{name} {text}"));
            self.json["written_axes"][name] = json;
        }
        let written = all.join(", ");
        let axes = axes.iter();
        let all: Vec<String> = axes
            .clone()
            .map(|(axis, at)| format!("{axis} {at}"))
            .collect();
        let text = match all.join(", ") {
            all if all.is_empty() || all == written => written,
            all => format!("{all} (written: {written})"),
        };
        self.lines.push(("axes", text));
        if !all.is_empty() {
            self.json["axes"] = axes.copied().collect();
        }
    }

    fn add_descriptor(&mut self, desc: &ReverseSubsequencesDesc, is_of_strings: bool) {
        let (input, lengths) = (&desc.input, &desc.sequence_lengths);
        let data_type = match is_of_strings {
            true => "STRING",
            false => input.data_type.name(),
        };
        let strides = match &lengths.strides {
            Some(strides) => format!("strides {strides:?}"),
            None => "packed".to_owned(),
        };
        let text = format!(
            "{data_type} {:?}, axis {}; lengths {} {:?}, {strides}",
            input.sizes, desc.axis, lengths.data_type, lengths.sizes
        );
        self.lines.push(("descriptor", text));
        let tensor = |tensor: &TensorDesc, data_type: &str| {
            json!({
                "data_type": data_type,
                "sizes": tensor.sizes[..],
                "strides": tensor.strides.as_deref(),
            })
        };
        self.json["descriptor"] = json!({
            "input": tensor(input, data_type),
            "sequence_lengths": tensor(lengths, lengths.data_type.name()),
            "output": tensor(&desc.output, data_type),
            "axis": desc.axis,
        });
    }

    fn add_plan(&mut self, desc: &ReverseSubsequencesDesc, is_of_strings: bool) {
        let (text, json) = match Plan::new(desc) {
            Ok(_) if is_of_strings => (SWAPS.to_owned(), json!({ "kernel": SWAPS })),
            Ok(plan) => {
                let kernel = KernelChoice::of_plan(&plan).to_string();
                let (row_bytes, moved_bytes) = (plan.row_bytes(), plan.moved_bytes());
                let text = format!("{kernel}, row bytes {row_bytes}, moved bytes {moved_bytes}");
                let json = json!({
                    "kernel": kernel,
                    "row_bytes": row_bytes,
                    "moved_bytes": moved_bytes,
                });
                (text, json)
            }
            Err(error) => {
                let json = json!({ "error": error.to_string() });
                (format!("none: {error}"), json)
            }
        };
        self.lines.push(("plan", text));
        self.json["plan"] = json;
    }
}

/// The lowest feature level of DirectML that takes a node, and why the next lower one does not; or why the
/// highest does not.
fn directml(desc: &ReverseSubsequencesDesc, is_of_strings: bool) -> Json {
    let level = match is_of_strings {
        true => Err("DirectML has no strings".to_owned()),
        false => (desc.lowest_feature_level()).map_err(|error| error.to_string()),
    };
    let level = match level {
        Ok(level) => level,
        Err(why) => return json!({ "level": null, "reason": why }),
    };
    let mut json = json!({ "level": level.to_string() });
    if let Some(lower) = FeatureLevel::ALL.into_iter().rfind(|&it| it < level)
        && let Err(why) = desc.validate(lower)
    {
        json["refused"] = json!({ "level": lower.to_string(), "reason": why.to_string() });
    }
    json
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
