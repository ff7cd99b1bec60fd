//! The definition of `enumerate`, which puts a number before every element.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::spec::side_by_side;
use crate::graph::tree::{Given, Operation};

/// The parameters of `enumerate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Enumerate {
    /// The number of the first element in every pass.
    #[n(0)]
    pub start: i64,
}

impl Operation for Enumerate {
    fn name(&self) -> &'static str {
        "enumerate"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let number = given.scalar(Dtype::I64)?;
        side_by_side(None, &[&number, given.input()?]).map_err(|reason| given.not_allowed(reason))
    }

    fn spans_splits(&self) -> Option<&'static str> {
        Some("numbers the elements of the whole dataset")
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("numbers the elements of each task separately")
    }
}

impl Dataset {
    /// Yields tuples of a number and the element. The numbers begin with `start` in every pass. If the
    /// dataset is distributed in splits, each task counts its own elements.
    ///
    /// Works like `tf.data.Dataset.enumerate`; the number is an `i64` scalar.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let pairs = collect(Dataset::range(7, 9, 1).enumerate(1), 100)?;
    /// assert_eq!((pairs[1][0].as_i64(), pairs[1][1].as_i64()), (Some(2), Some(8)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn enumerate(self, start: i64) -> Dataset {
        self.then(Enumerate { start })
    }
}
