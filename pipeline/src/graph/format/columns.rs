//! The columns of files that describe themselves: the selected columns and their types.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::{check_name, check_names};
use crate::graph::params::SpecField;

/// The columns of a file that become components, and their types.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Columns {
    /// The names of the selected columns, in this order. An empty list means all columns, in the order of the
    /// file.
    #[n(0)]
    pub names: Vec<String>,
    /// The spec of an element. If the spec is `None`, a dispatcher or worker that can read the format takes
    /// it from a file when it analyses the dataset. The file is the first that [`Columns::example`] matches.
    #[n(1)]
    pub declared: Option<SpecField>,
    /// A glob pattern of files that have the same columns as all other files. The builder sets the pattern of
    /// the `files` operation that provides the paths.
    #[n(2)]
    pub example: Option<String>,
}

impl Columns {
    /// Selects all columns that the files have.
    pub fn all() -> Columns {
        Columns::default()
    }

    /// Selects columns by name; their types are read from the files.
    pub fn named<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Columns {
        Columns {
            names: names.into_iter().map(Into::into).collect(),
            ..Columns::default()
        }
    }

    /// Declares the spec of an element, so that no file is read to find the spec.
    #[must_use]
    pub fn declared(mut self, spec: ElementSpec) -> Columns {
        self.declared = Some(SpecField(spec));
        self
    }

    /// Sets the pattern of the files from which the spec of an element is read. The default is the pattern of
    /// the `files` operation that provides the paths.
    #[must_use]
    pub fn like(mut self, pattern: impl Into<String>) -> Columns {
        self.example = Some(pattern.into());
        self
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(pattern) = &self.example {
            check_name("pattern", pattern)?;
        }
        check_names("column", self.names.iter().map(String::as_str))
    }
}
