//! The definition of `window`, which turns each window of consecutive elements into a dataset.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use smallvec::{SmallVec, smallvec};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::codec::{Encoded, encoded};
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::function_spec::reduced_spec;
use crate::graph::limits::BUFFER_MAX;
use crate::graph::tree::Graph;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use crate::ops::argument::body;

/// The parameters of `window`, apart from its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Window {
    /// The number of elements of a window, at least 1.
    #[n(0)]
    pub size: u64,
    /// The distance between the first elements of two consecutive windows, in elements of the input. At
    /// least 1.
    #[n(1)]
    pub shift: u64,
    /// The distance between two consecutive elements of a window, in elements of the input. At least 1.
    #[n(2)]
    pub stride: u64,
    /// Whether to drop windows at the end that have fewer elements.
    #[n(3)]
    pub drop_remainder: bool,
}

impl Window {
    /// Returns the number of input elements from the first to the last element of a full window.
    pub(crate) fn span(&self) -> u64 {
        (self.size - 1).saturating_mul(self.stride).saturating_add(1)
    }

    /// Checks the parameters of the window.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.size == 0 || self.shift == 0 || self.stride == 0 {
            return Err("has a size, shift or stride of 0, expected at least 1".to_owned());
        }
        if self.span() > BUFFER_MAX {
            return Err(format!(
                "holds {} elements at once, expected at most {BUFFER_MAX}",
                self.span()
            ));
        }
        Ok(())
    }
}

/// The operation `window`.
#[derive(Debug, Clone, PartialEq)]
pub struct Windows {
    /// The function that turns a window, a dataset of elements, into a dataset.
    pub reduce: Graph,
    /// The parameters that decide which elements form a window.
    pub window: Window,
}

impl Operation for Windows {
    fn name(&self) -> &'static str {
        "window"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(&self.window)
    }

    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        smallvec![(&self.reduce, Role::Function)]
    }

    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        smallvec![&mut self.reduce]
    }

    fn check(&self, _: usize) -> Result<(), String> {
        self.window.check()
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        reduced_spec(self.name(), &self.reduce, given.registry, given.input()?)
    }

    fn is_alike_on_splits(&self, _: Option<u64>) -> bool {
        false
    }

    fn drops_remainder(&self) -> bool {
        self.window.drop_remainder
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("makes several elements of one position")
    }
}

/// Decodes a `window` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Windows {
        reduce: encoded.function(0, "function")?,
        window: encoded.params()?,
    }))
}

impl Dataset {
    /// Turns each window of elements into a dataset with `reduce`, and yields these datasets one after
    /// the other.
    ///
    /// Works like `tf.data.Dataset.window` followed by `flat_map`. [`Dataset::graph`] refuses a size,
    /// shift or stride of 0.
    pub fn window(self, window: Window, reduce: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        match body(reduce) {
            Ok(reduce) => self.then(Windows { reduce, window }),
            Err(error) => self.failed(error),
        }
    }
}
