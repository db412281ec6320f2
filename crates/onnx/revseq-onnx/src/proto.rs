//! ONNX's messages, as the crate buffa reads and writes them: for programs that build models or look at
//! parts that the other modules have no question for. Their fields are ONNX's and change with it.

pub use crate::generated::{
    AttributeProto, DeviceConfigurationProto, FunctionProto, GraphProto, IntIntListEntryProto,
    ModelProto, NodeDeviceConfigurationProto, NodeProto, OperatorSetIdProto, OperatorStatus,
    ShardedDimProto, ShardingSpecProto, SimpleShardedDimProto, SparseTensorProto,
    StringStringEntryProto, TensorAnnotation, TensorProto, TensorShapeProto, TrainingInfoProto,
    TypeProto, ValueInfoProto, Version, attribute_proto, simple_sharded_dim_proto, tensor_proto,
    tensor_shape_proto, type_proto,
};
