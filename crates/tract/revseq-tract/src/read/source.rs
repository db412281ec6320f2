//! A model in the form that tract reads, of which plans are made.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use revseq_onnx::{Model, ModelProto, file, tensor};
use tract_onnx::pb;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use super::weights::{self, Weights};
use super::{adapt, lacking, mixed, register};
use crate::error::{Error, ErrorKind};

/// A model that has been checked and brought into the form that tract reads.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The model in tract's messages, without its weights.
    proto: Arc<pb::ModelProto>,
    /// The weights, which all plans share.
    weights: Weights,
}

impl Source {
    /// Reads a model's file, with its data in other files.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let model = file::open(path).map_err(|error| {
            let kind = match path.is_file() {
                true => ErrorKind::Model,
                false => ErrorKind::Read,
            };
            Error::new(kind, format!("cannot read {}: {error}", path.display()))
        })?;
        Self::new(model)
    }

    /// Decodes a model, which has all of its data inside.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        Self::of_model(Model::decode(bytes).map_err(model_error)?)
    }

    /// Takes a decoded model, which has all of its data inside.
    pub(crate) fn of_model(mut model: Model) -> Result<Self, Error> {
        if let Some(file) = model.external_files().pop_first() {
            let error = format!("its data is in {file:?}: open it by the path of its file");
            return Err(Error::new(ErrorKind::Model, error));
        }
        tensor::all_to_raw(&mut model.proto).map_err(model_error)?;
        Self::new(model.proto)
    }

    /// Brings a model that is checked and has all of its data as `raw_data` into the form that
    /// tract reads.
    pub(crate) fn new(mut model: ModelProto) -> Result<Self, Error> {
        prepare(&mut model)?;
        revseq_rewrite::compute_halves_in_floats(&mut model);
        revseq_rewrite::layers_for_tract(&mut model).map_err(model_error)?;
        match Self::of_prepared(model)? {
            (_, Some(error)) => Err(error),
            (source, None) => Ok(source),
        }
    }

    /// The same for a model whose values keep their types, with what tract lacks for it.
    pub(super) fn as_declared(mut model: ModelProto) -> Result<(Self, Option<Error>), Error> {
        prepare(&mut model)?;
        Self::of_prepared(model)
    }

    /// The source, and what tract lacks for it or would compute otherwise than it is meant.
    fn of_prepared(mut model: ModelProto) -> Result<(Self, Option<Error>), Error> {
        let mixed = mixed::mixes(&model);
        let weights = weights::take(&mut model).map_err(|it| model_error(format!("{it:#}")))?;
        let bytes = revseq_onnx::encode(&model).map_err(model_error)?;
        drop(model);
        let proto = tract_onnx::onnx().proto_model_for_read(&mut &*bytes);
        let proto = proto.map_err(|it| model_error(format!("{it:#}")))?;
        let source = Self {
            proto: Arc::new(proto),
            weights,
        };
        let lacking = lacking::lacks(source.graph(), source.opset());
        Ok((source, lacking.or(mixed)))
    }

    /// The version of ONNX's own operators.
    pub(crate) fn opset(&self) -> i64 {
        let mut imports = self.proto.opset_import.iter();
        let own = imports.find(|import| matches!(&*import.domain, "" | "ai.onnx"));
        own.map_or(i64::MAX, |import| import.version)
    }

    /// The main graph.
    pub(crate) fn graph(&self) -> &pb::GraphProto {
        static NONE: LazyLock<pb::GraphProto> = LazyLock::new(pb::GraphProto::default);
        self.proto.graph.as_ref().unwrap_or(&NONE)
    }

    /// Parses the model, after `change` has changed its main graph, with a template, which has the scope of
    /// symbols and [options](crate::LoadOptions::template).
    pub(crate) fn parse(
        &self,
        mut template: InferenceModel,
        change: impl FnOnce(&mut pb::GraphProto) -> TractResult<()>,
    ) -> TractResult<InferenceModel> {
        let mut proto = pb::ModelProto::clone(&self.proto);
        change(proto.graph.get_or_insert_default())?;
        adapt::complete(&mut proto);
        let mut onnx = tract_onnx::onnx().with_ignore_value_info(true);
        onnx.op_register = register::bounded_operators();
        self.weights.lend(&mut template);
        let mut parsed = onnx.parse_with_template(&proto, None, template)?;
        if let Some(name) = parsed.unresolved_inputs.first() {
            bail!("no node produces {name:?}");
        }
        // All others were for the parsers.
        let properties = &mut parsed.model.properties;
        properties.retain(|key, _| key.starts_with("onnx."));
        Ok(parsed.model)
    }
}

fn prepare(model: &mut ModelProto) -> Result<(), Error> {
    revseq_rewrite::for_tract(model).map_err(model_error)?;
    Ok(())
}

fn model_error(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Model, error.to_string())
}
