//! The data beside a model.

use std::path::Path;

use tract_onnx::data_resolver::MmapDataResolver;
use tract_onnx::prelude::Tensor;
use tract_onnx::tensor::{load_tensor, proto_from_reader};

/// The tensors of a model's data set, in order.
pub(crate) fn tensors(folder: &Path, kind: &str) -> Vec<Tensor> {
    let set = folder.join("test_data_set_0");
    (0..)
        .map(|index| set.join(format!("{kind}_{index}.pb")))
        .map_while(|path| std::fs::File::open(path).ok())
        .map(|file| {
            let proto = proto_from_reader(file).expect("a tensor");
            load_tensor(&MmapDataResolver, &proto, None).expect("a tensor")
        })
        .collect()
}
