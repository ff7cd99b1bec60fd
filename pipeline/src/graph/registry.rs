//! Lookup of names that the analysis does not know: the signatures of registered functions and sources.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::Any;

use millstream_element::ElementSpec;

use super::cardinality::Cardinality;
use super::error::AnalysisError;
use super::params::Params;

/// The signatures of registered functions. The executor's `Functions` is one; a dispatcher that runs no
/// functions uses [`NoFunctions`] and relies on what graphs declare.
pub trait Registry: Send + Sync {
    /// Returns the output spec of the map function `name` for elements of `input`.
    ///
    /// # Errors
    /// [`AnalysisError::Unknown`] listing the known names; [`AnalysisError::Mismatch`] when it cannot take
    /// `input`.
    fn map(&self, name: &str, params: &Params, input: &ElementSpec) -> Result<ElementSpec, AnalysisError>;

    /// Returns whether the predicate `name` takes elements of `input`.
    ///
    /// # Errors
    /// As [`Registry::map`].
    fn filter(&self, name: &str, params: &Params, input: &ElementSpec) -> Result<(), AnalysisError>;

    /// Returns the spec of the elements of the datasets that `name` returns for elements of `input`.
    ///
    /// # Errors
    /// As [`Registry::map`].
    fn flat_map(
        &self,
        name: &str,
        params: &Params,
        input: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError>;

    /// The signature of the source `name`.
    ///
    /// # Errors
    /// As [`Registry::map`].
    fn source(&self, name: &str, params: &Params) -> Result<SourceSignature, AnalysisError>;

    /// Returns the spec of files whose `format` does not state it: that of the first file that matches
    /// [`Columns::example`](super::Columns::example).
    ///
    /// # Errors
    /// [`AnalysisError::Mismatch`] when nobody can tell here, or that file cannot be read.
    fn files(&self, format: &dyn FileFormat) -> Result<ElementSpec, AnalysisError> {
        Err(AnalysisError::Mismatch {
            op: format.op_name().to_owned(),
            reason: "what its files hold is not declared, and is not looked up here: declare the columns"
                .to_owned(),
        })
    }
}

/// A format of files that say themselves what is in them.
pub trait FileFormat: Any {
    /// Returns the name of the operation that reads such files.
    fn op_name(&self) -> &'static str;
}

/// Signature of a registered source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceSignature {
    /// Spec of the source's elements.
    pub spec: ElementSpec,
    /// How many elements.
    pub cardinality: Cardinality,
    /// Whether it can be opened at any range of its positions; with a finite cardinality this makes it
    /// splittable.
    pub indexable: bool,
}

/// A registry without any names: graphs that declare their functions' outputs can be analysed with it.
/// Predicates need no declaration, since they yield what they are given, and pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFunctions;

impl Registry for NoFunctions {
    fn map(&self, name: &str, _: &Params, _: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
        Err(unknown("function", name))
    }

    fn filter(&self, _: &str, _: &Params, _: &ElementSpec) -> Result<(), AnalysisError> {
        Ok(())
    }

    fn flat_map(&self, name: &str, _: &Params, _: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
        Err(unknown("flat_map function", name))
    }

    fn source(&self, name: &str, _: &Params) -> Result<SourceSignature, AnalysisError> {
        Err(unknown("source", name))
    }
}

fn unknown(kind: &'static str, name: &str) -> AnalysisError {
    AnalysisError::Unknown {
        kind,
        name: name.to_owned(),
        known: Vec::new(),
    }
}
