//! Text to graphs, and back.

use std::fmt::Write as _;

use revseq_onnx::model::{
    self, AttributeProto, AttributeType, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, ValueInfoProto,
};
use revseq_onnx::proto::type_proto::Tensor;
use revseq_onnx::proto::{TensorShapeProto, TypeProto, tensor_shape_proto::Dimension};

/// The element types that have names in text, by ONNX's codes.
const TYPES: [(&str, i32); 14] = [
    ("f32", 1),
    ("u8", 2),
    ("i8", 3),
    ("u16", 4),
    ("i16", 5),
    ("i32", 6),
    ("i64", 7),
    ("string", 8),
    ("bool", 9),
    ("f16", 10),
    ("f64", 11),
    ("u32", 12),
    ("u64", 13),
    ("bf16", 16),
];

/// Reads nodes, one a line, and behind them the graphs that they have, as [`graph`] does.
///
/// # Panics
/// The text is not of this form, or names no graph that it has.
#[must_use]
pub fn nodes(text: &str) -> Vec<NodeProto> {
    let sections = sections(&format!("->\n{text}"));
    section(&sections[0], &sections, false).node
}

/// Reads rows of nodes, one a line, and what is expected of them: `y = Neg(x) => Neg`. Lines that start with
/// `#` are comments.
#[must_use]
pub fn rows(text: &str) -> Vec<(String, &str)> {
    let mut nodes = vec![];
    let mut rows = vec![];
    for line in lines(text) {
        let (node, expected) = match line.split_once("=> ") {
            Some((node, expected)) => (node.trim(), Some(expected)),
            None => (line, None),
        };
        nodes.extend(Some(node).filter(|it| !it.is_empty()));
        if let Some(expected) = expected {
            rows.push((std::mem::take(&mut nodes).join("\n"), expected));
        }
    }
    rows
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|it| !it.is_empty() && !it.starts_with('#'))
}

/// Reads a node; the attributes that are graphs have their names in place of them.
///
/// # Panics
/// The text is not of this form.
#[must_use]
pub fn node(line: &str) -> NodeProto {
    let (outputs, call) = line.split_once('=').expect("outputs = a call");
    let (operator, inputs, attributes) = called(call);
    let (domain, operator) = operator.rsplit_once('.').unwrap_or(("", operator));
    let mut node = model::node(operator, &inputs, &names(outputs), attributes);
    node.domain = match domain {
        "" => None,
        "microsoft" => Some("com.microsoft".to_owned()),
        other => Some(other.to_owned()),
    };
    node
}

/// The operator, inputs and attributes of a call.
fn called(text: &str) -> (&str, Vec<&str>, Vec<AttributeProto>) {
    let call = text.trim().strip_suffix(')').expect("inputs in brackets");
    let (operator, inputs) = call.rsplit_once('(').expect("inputs in brackets");
    let (operator, attributes) = match operator.strip_suffix('>') {
        Some(operator) => operator.split_once('<').expect("attributes in brackets"),
        None => (operator, ""),
    };
    let attributes = attributes.split(';').filter(|text| !text.is_empty());
    (operator, names(inputs), attributes.map(attribute).collect())
}

fn names(text: &str) -> Vec<&str> {
    let names = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    names.map(|it| if it == "_" { "" } else { it }).collect()
}

fn attribute(text: &str) -> AttributeProto {
    let (name, value) = text.split_once('=').expect("name=value");
    if let Some(graph) = value.strip_prefix('@') {
        return AttributeProto {
            r#type: Some(AttributeType::GRAPH),
            ..model::text(name, graph)
        };
    }
    let string = |text: &str| text.trim_matches('"').to_owned();
    let Some(list) = value.strip_prefix('[') else {
        return match (value.parse(), value.parse()) {
            (Ok(int), _) => model::int(name, int),
            (_, Ok(float)) if value.contains('.') => model::float(name, float),
            _ => model::text(name, &string(value)),
        };
    };
    let list = list.strip_suffix(']').expect("a list").split(',');
    let list: Vec<&str> = list.map(str::trim).filter(|it| !it.is_empty()).collect();
    let ints: Option<Vec<i64>> = list.iter().map(|it| it.parse().ok()).collect();
    let floats: Option<Vec<f32>> = list.iter().map(|it| it.parse().ok()).collect();
    match (ints, floats) {
        (Some(ints), _) => model::ints(name, &ints),
        (_, Some(floats)) => model::floats(name, &floats),
        _ => {
            let texts: Vec<String> = list.into_iter().map(string).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            model::texts(name, &texts)
        }
    }
}

/// Replaces the names of graphs in a node's attributes by the graphs.
///
/// # Panics
/// There is no such graph.
pub fn attach(node: &mut NodeProto, graph: impl Fn(&str) -> Option<GraphProto>) {
    for attribute in &mut node.attribute {
        if attribute.r#type == Some(AttributeType::GRAPH)
            && let Some(name) = attribute.s.take()
        {
            let name = String::from_utf8_lossy(&name);
            let graph = graph(&name).unwrap_or_else(|| panic!("no graph {name}"));
            *attribute.g.get_or_insert_default() = graph;
        }
    }
}

/// Reads values, separated by spaces: `name`, `name:f32` or `name:f32[N,2]`.
///
/// # Panics
/// The text is not of this form.
#[must_use]
pub fn values(text: &str) -> Vec<ValueInfoProto> {
    text.split_whitespace().map(value).collect()
}

fn value(text: &str) -> ValueInfoProto {
    let Some((name, declared)) = text.split_once(':') else {
        return model::untyped(text);
    };
    let (code, sizes) = match declared.strip_suffix(']') {
        None => (declared, None),
        Some(declared) => {
            let (code, sizes) = declared.split_once('[').expect("sizes in brackets");
            (code, Some(sizes))
        }
    };
    let mut tensor = Tensor {
        elem_type: Some(code_of(code)),
        ..Tensor::default()
    };
    if let Some(sizes) = sizes {
        *tensor.shape.get_or_insert_default() = TensorShapeProto {
            dim: names(sizes).into_iter().map(size).collect(),
            ..TensorShapeProto::default()
        };
    }
    let mut value = model::untyped(name);
    *value.r#type.get_or_insert_default() = TypeProto {
        value: Some(tensor.into()),
        ..TypeProto::default()
    };
    value
}

fn size(text: &str) -> Dimension {
    use revseq_onnx::proto::tensor_shape_proto::dimension::Value;
    let value = match text.parse() {
        Ok(size) => Value::DimValue(size),
        Err(_) => Value::DimParam(text.to_owned()),
    };
    Dimension {
        value: Some(value),
        ..Dimension::default()
    }
}

/// Returns ONNX's code of an element type.
///
/// # Panics
/// There is no type of this name.
#[must_use]
pub fn code_of(name: &str) -> i32 {
    let found = TYPES.iter().find(|(it, _)| *it == name);
    found.unwrap_or_else(|| panic!("no type {name}")).1
}

/// The constant that a literal among a node's inputs stands for: `2` is an int64 scalar, `[2]` or `[1 -2]` a
/// vector, `2.0` and `[2.0 0.5]` are floats, `true` is a truth value, and `2i32` or `[1 2]u8` are of other types.
#[must_use]
pub fn literal(text: &str) -> Option<TensorProto> {
    let is_number = |it: char| it.is_ascii_digit() || "-.[]".contains(it);
    let (text, code) = match TYPES.iter().find(|(name, _)| text.ends_with(name)) {
        Some((name, code)) => (text.strip_suffix(name)?, Some(*code)),
        None => (text, None),
    };
    let (list, sizes) = match text.strip_prefix('[') {
        Some(list) => (list.strip_suffix(']')?, true),
        None => (text, false),
    };
    let all: Vec<&str> = list.split(' ').filter(|it| !it.is_empty()).collect();
    let of = match *all.first().unwrap_or(&"0") {
        "true" | "false" => "bool",
        number if !number.starts_with(is_number) => return None,
        number if number.contains('.') => "f32",
        _ => "i64",
    };
    let code = code.unwrap_or_else(|| code_of(of));
    let bytes: Option<Vec<Vec<u8>>> = all.iter().map(|it| element(it, code)).collect();
    let sizes: &[usize] = if sizes { &[all.len()] } else { &[] };
    let is_one = !sizes.is_empty() || all.len() == 1;
    is_one.then_some(tensor("", code, sizes, bytes?.concat()))
}

/// Reads a graph with the graphs in it: what it reads and returns, then a node or a constant a line.
///
/// ```text
/// x:f32[T,2] -> last:f32[2]
/// first:f32[2] = 0.0
/// last, all = Scan<num_scan_inputs=1;body=@adds>(first, x)
/// @adds: sum row -> more both
/// more = Add(sum, row)
/// both = Mul(more, 2.0)
/// ```
///
/// # Panics
/// The text is not of this form, or names no graph that it has.
#[must_use]
pub fn graph(text: &str) -> GraphProto {
    let sections = sections(text);
    section(&sections[0], &sections, true)
}

/// A graph's name, its values and its lines.
type Section = (String, String, Vec<String>);

fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = vec![];
    for line in lines(text) {
        match (line.strip_prefix('@'), sections.last_mut()) {
            (Some(head), _) => {
                let (name, head) = head.split_once(':').expect("a name and values");
                sections.push((name.to_owned(), head.to_owned(), vec![]));
            }
            (None, None) => sections.push(("graph".to_owned(), line.to_owned(), vec![])),
            (None, Some((.., lines))) => lines.push(line.to_owned()),
        }
    }
    sections
}

/// A graph, whose nodes may read literals.
fn section((name, head, lines): &Section, all: &[Section], has_literals: bool) -> GraphProto {
    let (inputs, outputs) = head.split_once("->").expect("inputs -> outputs");
    let (mut constants, mut nodes) = (vec![], vec![]);
    for line in lines {
        let (name, value) = line.split_once('=').expect("outputs = a call");
        if let Some(constant) = literal(value.trim()).filter(|_| has_literals) {
            constants.push(declared(name.trim(), constant));
            continue;
        }
        let mut node = node(line);
        attach(&mut node, |name| {
            let found = all.iter().find(|it| it.0 == name);
            found.map(|it| section(it, all, has_literals))
        });
        nodes.push(node);
    }
    if has_literals {
        constants.extend(take_literals(&mut nodes));
    }
    GraphProto {
        name: Some(name.clone()),
        input: values(inputs),
        output: values(outputs),
        node: nodes,
        initializer: constants,
        ..GraphProto::default()
    }
}

/// A constant of a name, or of a name and sizes, which one element fills: `w:f32[2,3] = [0.5]`.
fn declared(text: &str, constant: TensorProto) -> TensorProto {
    let (name, sizes) = text.split_once(':').unwrap_or((text, ""));
    let constant = TensorProto {
        name: Some(name.to_owned()),
        ..constant
    };
    let Some((_, sizes)) = sizes.split_once('[') else {
        return constant;
    };
    let sizes = names(sizes.trim_end_matches(']'));
    let sizes = sizes.into_iter().map(|it| it.parse().expect("a size"));
    let sizes: Vec<i64> = sizes.collect();
    let all: i64 = sizes.iter().product();
    let count: i64 = constant.dims.iter().product();
    let raw = constant.raw_data.unwrap_or_default();
    TensorProto {
        raw_data: Some(raw.repeat((all / count) as usize)),
        dims: sizes,
        ..constant
    }
}

/// Replaces the literals among the inputs of a graph's nodes by names; the constants of these names. Graphs
/// within have others.
#[must_use]
pub fn take_literals(nodes: &mut [NodeProto]) -> Vec<TensorProto> {
    let first = nodes.iter().flat_map(NodeProto::outputs).next();
    let own = first.unwrap_or_default().to_owned();
    let mut constants: Vec<TensorProto> = vec![];
    for input in nodes.iter_mut().flat_map(|node| &mut node.input) {
        let Some(constant) = literal(input) else {
            continue;
        };
        *input = format!("{input} of {own}");
        if constants.iter().all(|it| it.name.as_ref() != Some(input)) {
            let name = Some(input.clone());
            constants.push(TensorProto { name, ..constant });
        }
    }
    constants
}

/// The bytes of an element of a type.
fn element(text: &str, code: i32) -> Option<Vec<u8>> {
    let (int, float) = (text.parse::<i128>(), text.parse::<f64>());
    Some(match code {
        model::FLOAT => text.parse::<f32>().ok()?.to_le_bytes().to_vec(),
        model::DOUBLE => float.ok()?.to_le_bytes().to_vec(),
        model::BOOL => vec![u8::from(text.parse::<bool>().ok()?)],
        _ => {
            let width = match code {
                model::INT64 | model::UINT64 => 8,
                model::INT32 | model::UINT32 => 4,
                model::INT16 | model::UINT16 => 2,
                model::INT8 | model::UINT8 => 1,
                _ => return None,
            };
            int.ok()?.to_le_bytes()[..width].to_vec()
        }
    })
}

/// Makes a tensor of these bytes.
#[must_use]
pub fn tensor(name: &str, code: i32, sizes: &[usize], bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(code),
        dims: sizes.iter().map(|&size| size as i64).collect(),
        raw_data: Some(bytes),
        ..TensorProto::default()
    }
}

/// Encodes a model of a graph, for this version of ONNX's operators.
///
/// # Panics
/// The model is of more than 2 GiB.
#[must_use]
pub fn model(graph: GraphProto, opset: i64) -> Vec<u8> {
    let import = |(domain, version): (&str, i64)| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
        ..OperatorSetIdProto::default()
    };
    let imports = [("", opset), ("revseq", 1), ("com.microsoft", 1)];
    let mut model = ModelProto {
        ir_version: Some(8),
        opset_import: imports.map(import).to_vec(),
        ..ModelProto::default()
    };
    *model.graph.get_or_insert_default() = graph;
    revseq_onnx::encode(&model).expect("it fits")
}

/// Writes a graph as text, for a look at what a test found: what is read, constants of few elements, nodes
/// with the graphs in them, and what they return.
#[must_use]
pub fn write(graph: &GraphProto) -> String {
    let mut text = String::new();
    write_graph(&mut text, graph, "");
    text
}

fn write_graph(text: &mut String, graph: &GraphProto, indent: &str) {
    let declared = |values: &[ValueInfoProto]| -> String {
        let all: Vec<String> = values.iter().map(declaration).collect();
        all.join(" ")
    };
    let _ = writeln!(text, "{indent}: {}", declared(&graph.input));
    for tensor in &graph.initializer {
        let _ = writeln!(
            text,
            "{indent}{} {}",
            tensor.name.as_deref().unwrap_or_default(),
            elements(tensor)
        );
    }
    for node in &graph.node {
        let names = |names: &[String]| -> String {
            let names = names.iter().map(|it| if it.is_empty() { "_" } else { it });
            names.collect::<Vec<_>>().join(", ")
        };
        let plain = node.attribute.iter().filter(|it| !it.g.is_set());
        let attributes: Vec<String> = plain.map(attribute_text).collect();
        let attributes = match attributes.is_empty() {
            true => String::new(),
            false => format!("<{}>", attributes.join(";")),
        };
        let (outputs, inputs) = (names(&node.output), names(&node.input));
        let _ = writeln!(
            text,
            "{indent}{outputs} = {}{attributes}({inputs})",
            node.op()
        );
        for attribute in &node.attribute {
            if let Some(graph) = attribute.g.as_option() {
                let name = attribute.name.as_deref().unwrap_or_default();
                let _ = writeln!(text, "{indent}  {name}");
                write_graph(text, graph, &format!("{indent}    "));
            }
        }
    }
    let _ = writeln!(text, "{indent}return {}", declared(&graph.output));
}

fn declaration(value: &ValueInfoProto) -> String {
    let name = value.name.as_deref().unwrap_or_default();
    let Some(tensor) = model::tensor_type(value) else {
        return name.to_owned();
    };
    let code = tensor.elem_type.unwrap_or_default();
    let found = TYPES.iter().find(|(_, it)| *it == code);
    let shape = tensor.shape.as_option().map(|shape| {
        use revseq_onnx::proto::tensor_shape_proto::dimension::Value;
        let sizes = shape.dim.iter().map(|size| match &size.value {
            Some(Value::DimValue(size)) => size.to_string(),
            Some(Value::DimParam(name)) => name.clone(),
            None => "?".to_owned(),
        });
        format!("[{}]", sizes.collect::<Vec<_>>().join(","))
    });
    let code = found.map_or("?", |(name, _)| name);
    format!("{name}:{code}{}", shape.unwrap_or_default())
}

fn elements(tensor: &TensorProto) -> String {
    let sizes = &tensor.dims;
    if let Some(ints) = revseq_onnx::constant::tensor_ints(tensor) {
        return format!("{sizes:?} {ints:?}");
    }
    let raw = tensor.raw_data.as_deref().unwrap_or_default();
    let floats = raw.chunks_exact(4).filter_map(|it| it.try_into().ok());
    let floats: Vec<f32> = floats.map(f32::from_le_bytes).collect();
    match tensor.data_type {
        Some(model::FLOAT) => format!("{sizes:?} {floats:?}"),
        code => format!("{sizes:?} of type {code:?}"),
    }
}

fn attribute_text(attribute: &AttributeProto) -> String {
    let name = attribute.name.as_deref().unwrap_or_default();
    let strings = attribute.s.iter().chain(&attribute.strings);
    let strings: Vec<String> = strings
        .map(|it| String::from_utf8_lossy(it).into_owned())
        .collect();
    match attribute.r#type {
        Some(AttributeType::INT) => format!("{name}={}", attribute.i.unwrap_or_default()),
        Some(AttributeType::INTS) => format!("{name}={:?}", attribute.ints),
        Some(AttributeType::FLOAT) => format!("{name}={:?}", attribute.f.unwrap_or_default()),
        Some(AttributeType::FLOATS) => format!("{name}={:?}", attribute.floats),
        Some(AttributeType::STRING) => format!("{name}={}", strings.join(",")),
        Some(AttributeType::STRINGS) => format!("{name}=[{}]", strings.join(",")),
        _ => format!("{name}=…"),
    }
}
