//! Lookup of the signatures of registered functions and sources, which the analysis needs.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::Any;

use millstream_element::ElementSpec;

use super::cardinality::Cardinality;
use super::error::AnalysisError;
use super::params::Params;

/// The signatures of registered functions and sources. The executor's `Functions` implements this trait. A
/// dispatcher runs no functions, so it uses [`NoFunctions`] and relies on the declarations in graphs.
pub trait Registry: Send + Sync {
    /// Returns the output spec of the map function `name` for elements of `input`.
    ///
    /// # Errors
    /// [`AnalysisError::Unknown`], with the known names, if `name` is not registered;
    /// [`AnalysisError::Mismatch`] if the function cannot take `input`.
    fn map(&self, name: &str, params: &Params, input: &ElementSpec) -> Result<ElementSpec, AnalysisError>;

    /// Checks that the predicate `name` is registered and takes elements of `input`.
    ///
    /// # Errors
    /// The errors of [`Registry::map`].
    fn filter(&self, name: &str, params: &Params, input: &ElementSpec) -> Result<(), AnalysisError>;

    /// Returns the spec of the elements in the datasets that the function `name` makes from elements of
    /// `input`.
    ///
    /// # Errors
    /// The errors of [`Registry::map`].
    fn flat_map(
        &self,
        name: &str,
        params: &Params,
        input: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError>;

    /// Returns the signature of the source `name`.
    ///
    /// # Errors
    /// The errors of [`Registry::map`].
    fn source(&self, name: &str, params: &Params) -> Result<SourceSignature, AnalysisError>;

    /// Returns the spec of the elements in files of `format`, for a format whose files describe themselves.
    /// The spec is read from the first file that matches [`Columns::example`](super::Columns::example).
    ///
    /// # Errors
    /// [`AnalysisError::Mismatch`] if this registry does not read files, or the file cannot be read.
    fn files(&self, format: &dyn FileFormat) -> Result<ElementSpec, AnalysisError> {
        Err(AnalysisError::Mismatch {
            op: format.op_name().to_owned(),
            reason: "the columns of its files are not declared, and this process does not read files: declare the columns"
                .to_owned(),
        })
    }
}

/// A format of files that describe their own columns.
pub trait FileFormat: Any {
    /// Returns the name of the operation that reads files of this format.
    fn op_name(&self) -> &'static str;
}

/// The signature of a registered source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceSignature {
    /// The spec of the source's elements.
    pub spec: ElementSpec,
    /// The number of elements.
    pub cardinality: Cardinality,
    /// `true` if the source can be opened at any range of its positions. A source that is indexable and
    /// finite can be divided into splits.
    pub indexable: bool,
}

/// A registry without any names. The registry suffices for graphs that declare the outputs of their
/// functions. Predicates need no declarations, because predicates do not change the spec. The check of a
/// predicate always passes.
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
