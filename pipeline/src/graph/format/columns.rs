//! The columns of files that describe themselves: those that are wanted, and their types.
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
    /// The columns wanted, in this order; none named = all, as the file orders them.
    #[n(0)]
    pub names: Vec<String>,
    /// The spec of an element. Absent, a dispatcher or a worker reads it from the first file that
    /// [`Columns::example`] matches, when it analyses the dataset and can read the format.
    #[n(1)]
    pub declared: Option<SpecField>,
    /// A glob pattern of files that are like all others; the builder puts that of the `files` below here.
    #[n(2)]
    pub example: Option<String>,
}

impl Columns {
    /// All columns, as a file says.
    pub fn all() -> Columns {
        Columns::default()
    }

    /// Names the columns, whose types the files tell.
    pub fn named<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Columns {
        Columns {
            names: names.into_iter().map(Into::into).collect(),
            ..Columns::default()
        }
    }

    /// States what an element is, so that no file is looked at to find out.
    #[must_use]
    pub fn declared(mut self, spec: ElementSpec) -> Columns {
        self.declared = Some(SpecField(spec));
        self
    }

    /// Says which files to look at to find out what an element is, where they are not those of a `files`
    /// below.
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
