//! Writes sizes into the declarations of a model, and removes them.

use crate::model::{GraphProto, ModelProto, ValueInfoProto, tensor_type_mut};
use crate::proto::tensor_shape_proto::Dimension;
use crate::proto::tensor_shape_proto::dimension::Value;

/// Puts sizes in the place of their names, in the declarations of the main graph and of the graphs
/// in its nodes; those for which `size` is `None` stay names. Functions declare no sizes.
pub fn bind_sizes(model: &mut ModelProto, size: &impl Fn(&str) -> Option<u64>) {
    if let Some(graph) = model.graph.as_option_mut() {
        bind_graph(graph, size);
    }
}

fn bind_graph(graph: &mut GraphProto, size: &impl Fn(&str) -> Option<u64>) {
    let values = graph.input.iter_mut().chain(&mut graph.output);
    for value in values.chain(&mut graph.value_info) {
        for dim in dims(value).into_iter().flatten() {
            if let Some(Value::DimParam(name)) = &dim.value
                && let Some(size) = size(name)
            {
                dim.value = Some(Value::DimValue(size as i64));
            }
        }
    }
    for inner in graph.node.iter_mut().flat_map(|node| node.graphs_mut()) {
        bind_graph(inner, size);
    }
}

/// Sets the declared size of a tensor along an axis. `false` if it has no such axis.
pub fn set_size(value: &mut ValueInfoProto, axis: usize, size: u64) -> bool {
    let dim = dims(value).and_then(|dims| dims.get_mut(axis));
    let is_there = dim.is_some();
    if let Some(dim) = dim {
        dim.value = Some(Value::DimValue(size as i64));
    }
    is_there
}

/// Declares each axis of a tensor to be of any size. It may still be declared as a name.
pub fn forget_sizes(value: &mut ValueInfoProto) {
    for dim in dims(value).into_iter().flatten() {
        if matches!(dim.value, Some(Value::DimValue(_))) {
            dim.value = None;
        }
    }
}

/// The declared sizes of a tensor; `None` if it has no declared rank, or is no tensor.
fn dims(value: &mut ValueInfoProto) -> Option<&mut Vec<Dimension>> {
    let shape = tensor_type_mut(value)?.shape.as_option_mut()?;
    Some(&mut shape.dim)
}

#[cfg(test)]
mod tests {
    use super::{bind_sizes, set_size};
    use crate::model::{FLOAT, GraphProto, ModelProto, declared_sizes, node, value};
    use crate::proto::tensor_shape_proto::dimension::Value;
    use crate::proto::{AttributeProto, ValueInfoProto};

    fn named(name: &str) -> ValueInfoProto {
        let mut value = value(name, FLOAT, &[None, Some(2)]);
        let dim = super::dims(&mut value).unwrap().first_mut().unwrap();
        dim.value = Some(Value::DimParam("n".to_owned()));
        dim.denotation = Some("BATCH".to_owned());
        value
    }

    #[test]
    fn sizes_are_written_everywhere() {
        let body = AttributeProto {
            name: Some("body".to_owned()),
            g: GraphProto {
                output: vec![named("inner")],
                ..GraphProto::default()
            }
            .into(),
            ..AttributeProto::default()
        };
        let graph = GraphProto {
            node: vec![node("Loop", &[], &["y"], vec![body])],
            input: vec![named("x")],
            value_info: vec![named("y")],
            ..GraphProto::default()
        };
        let mut model = ModelProto {
            graph: graph.into(),
            ..ModelProto::default()
        };
        let before = model.clone();
        bind_sizes(&mut model, &|name| (name == "m").then_some(4));
        assert_eq!(model, before);
        bind_sizes(&mut model, &|name| (name == "n").then_some(4));
        let graph = model.graph.as_option_mut().unwrap();
        let inner = graph.node[0].graphs().next().unwrap();
        for value in [&graph.input[0], &graph.value_info[0], &inner.output[0]] {
            assert_eq!(declared_sizes(value), Some(vec![Some(4), Some(2)]));
        }
        assert!(set_size(&mut graph.input[0], 1, 5));
        assert!(!set_size(&mut graph.input[0], 2, 5));
        let input = &mut graph.input[0];
        assert_eq!(declared_sizes(input), Some(vec![Some(4), Some(5)]));
        let denotation = super::dims(input).unwrap()[0].denotation.as_deref();
        assert_eq!(denotation, Some("BATCH"));
    }

    #[test]
    fn forgotten_sizes_stay_axes() {
        let mut value = named("x");
        super::forget_sizes(&mut value);
        assert_eq!(declared_sizes(&value), Some(vec![None, None]));
        let dims = super::dims(&mut value).unwrap();
        assert_eq!(dims[0].value, Some(Value::DimParam("n".to_owned())));
        let mut untyped = ValueInfoProto::default();
        super::forget_sizes(&mut untyped);
        assert_eq!(untyped, ValueInfoProto::default());
    }
}
