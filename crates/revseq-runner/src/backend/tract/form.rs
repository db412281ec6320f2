//! Models in the form that tract reads.

use std::ops::Deref;

use anyhow::{Context, Result};

use crate::model::Model;

/// The parts of a model that are needed to bring it into that form: its bytes, if they may change.
pub(crate) fn needed_of(model: Model) -> Model {
    if revseq_tract::may_need_preparation(&model.proto) {
        return model;
    }
    model.without_bytes()
}

/// A model in the form that tract reads.
pub(crate) enum Form<'a> {
    /// As it is in its file.
    Same(&'a Model),
    /// The prepared model.
    Prepared(Box<Model>),
}

impl<'a> Form<'a> {
    /// Brings a model into that form; data in other files is not read.
    ///
    /// # Errors
    /// Its functions cannot be inlined.
    pub(super) fn of(model: &'a Model) -> Result<Self> {
        let prepare = || -> Result<_> {
            let Some(bytes) = revseq_tract::prepare(&model.proto, &model.bytes)? else {
                return Ok(None);
            };
            Model::parse(model.path.clone(), bytes).map(Some)
        };
        let prepared = prepare().with_context(|| model.path.display().to_string())?;
        Ok(match prepared {
            Some(model) => Self::Prepared(Box::new(model)),
            None => Self::Same(model),
        })
    }

    /// The same with all of its data.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn with_data(self) -> Result<Self> {
        Ok(match self {
            Self::Prepared(model) => Self::Prepared(Box::new(model.with_data()?)),
            same => same,
        })
    }
}

impl Deref for Form<'_> {
    type Target = Model;

    fn deref(&self) -> &Model {
        match self {
            Self::Same(model) => model,
            Self::Prepared(model) => model,
        }
    }
}
