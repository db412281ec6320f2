//! The attributes of nodes.

use std::borrow::Cow;

use crate::error::Error;

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Attribute<'a> {
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f32),
    /// A list of floats.
    Floats(&'a [f32]),
    /// A string.
    String(&'a [u8]),
    /// A list of strings.
    Strings(&'a [Vec<u8>]),
    /// A value of a type that no layer has.
    Other,
}

/// The attributes of a node, as its host has them.
pub trait Attributes {
    /// The attribute of this name, if the node has it.
    fn get(&self, name: &str) -> Option<Attribute<'_>>;
}

impl dyn Attributes + '_ {
    pub(crate) fn integer(&self, name: &'static str) -> Result<Option<i64>, Error> {
        self.read(name, "an integer", |it| match it {
            Attribute::Integer(it) => Some(it),
            _ => None,
        })
    }

    /// An integer that is not 0.
    pub(crate) fn is_set(&self, name: &'static str) -> Result<bool, Error> {
        Ok(self.integer(name)?.is_some_and(|it| it != 0))
    }

    /// An integer that counts something.
    pub(crate) fn count(&self, name: &'static str) -> Result<Option<usize>, Error> {
        let Some(found) = self.integer(name)? else {
            return Ok(None);
        };
        match usize::try_from(found) {
            Ok(count @ 1..) => Ok(Some(count)),
            _ => wrong(name, found, "1 at least"),
        }
    }

    pub(crate) fn float(&self, name: &'static str) -> Result<Option<f32>, Error> {
        self.read(name, "a float", |it| match it {
            Attribute::Float(it) => Some(it),
            _ => None,
        })
    }

    /// A list of floats; none if the node does not have it.
    pub(crate) fn floats(&self, name: &'static str) -> Result<&[f32], Error> {
        let floats = self.read(name, "a list of floats", |it| match it {
            Attribute::Floats(it) => Some(it),
            _ => None,
        });
        Ok(floats?.unwrap_or_default())
    }

    /// A string, which a layer only compares.
    pub(crate) fn text(&self, name: &'static str) -> Result<Option<Cow<'_, str>>, Error> {
        self.read(name, "a string", |it| match it {
            Attribute::String(it) => Some(String::from_utf8_lossy(it)),
            _ => None,
        })
    }

    pub(crate) fn strings(&self, name: &'static str) -> Result<Option<&[Vec<u8>]>, Error> {
        self.read(name, "a list of strings", |it| match it {
            Attribute::Strings(it) => Some(it),
            _ => None,
        })
    }

    fn read<'a, T>(
        &'a self,
        name: &'static str,
        expected: &'static str,
        value: impl FnOnce(Attribute<'a>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(found) = self.get(name) else {
            return Ok(None);
        };
        match value(found) {
            None => wrong(name, found.kind(), expected),
            found => Ok(found),
        }
    }
}

impl Attribute<'_> {
    fn kind(self) -> &'static str {
        match self {
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Floats(_) => "a list of floats",
            Self::String(_) => "a string",
            Self::Strings(_) => "a list of strings",
            Self::Other => "of another type",
        }
    }
}

/// An attribute of a value that it cannot have.
pub(crate) fn wrong<T>(
    name: &'static str,
    actual: impl ToString,
    expected: &'static str,
) -> Result<T, Error> {
    let actual = actual.to_string();
    Err(Error::Attribute {
        name,
        actual,
        expected,
    })
}
