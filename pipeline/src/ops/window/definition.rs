//! The definition of `window`: a dataset of each window of consecutive elements.
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

/// Parameters of `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Window {
    /// Elements of a window, at least 1.
    #[n(0)]
    pub size: u64,
    /// Elements of the input from the beginning of one window to that of the next, at least 1.
    #[n(1)]
    pub shift: u64,
    /// Elements of the input from one in a window to the next, at least 1.
    #[n(2)]
    pub stride: u64,
    /// Whether last windows of fewer elements are dropped.
    #[n(3)]
    pub drop_remainder: bool,
}

impl Window {
    /// Elements of the input from the first of a whole window to its last.
    pub(crate) fn span(&self) -> u64 {
        (self.size - 1).saturating_mul(self.stride).saturating_add(1)
    }

    /// Checks the window.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.size == 0 || self.shift == 0 || self.stride == 0 {
            return Err("has a size, shift or stride of 0; the least is 1".to_owned());
        }
        if self.span() > BUFFER_MAX {
            return Err(format!(
                "holds {} elements at once, the limit is {BUFFER_MAX}",
                self.span()
            ));
        }
        Ok(())
    }
}

/// The operation `window`.
#[derive(Debug, Clone, PartialEq)]
pub struct Windows {
    /// Makes a dataset of each window.
    pub reduce: Graph,
    /// The elements that a window has.
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

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("makes several elements of one position")
    }
}

/// Reads the operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Windows {
        reduce: encoded.function(0, "function")?,
        window: encoded.params()?,
    }))
}

impl Dataset {
    /// The datasets that `reduce` makes of windows of the elements, one after the other.
    ///
    /// Works as `tf.data.Dataset.window`, of which a `flat_map` follows. Sizes, shifts and strides of 0 are
    /// refused.
    pub fn window(self, window: Window, reduce: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        match body(reduce) {
            Ok(reduce) => self.then(Windows { reduce, window }),
            Err(error) => self.failed(error),
        }
    }
}
