//! The definition of `group_by_window`, which collects elements of equal keys and turns each window
//! into a dataset.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec};
use smallvec::{SmallVec, smallvec};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::check::check_buffer;
use crate::graph::codec::{Encoded, encoded};
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::function_spec::{reduced_spec, wants_number};
use crate::graph::spec::node_specs;
use crate::graph::tree::Graph;
use crate::graph::tree::Resolution;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use crate::ops::argument::body;

/// The parameters of `group_by_window`.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    /// The function that returns the key of an element: maps that end in an `i64`.
    pub key: Graph,
    /// The number of elements with the same key that form a window.
    pub size: WindowSize,
    /// The function that turns a window, a dataset of elements, into a dataset.
    pub reduce: Graph,
}

/// The number of elements of a window, at least 1.
#[derive(Debug, Clone, PartialEq)]
pub enum WindowSize {
    /// One fixed size for all keys.
    Fixed(u64),
    /// The function that returns the size for a key: maps from an `i64` to an `i64`.
    ByKey(Graph),
}

impl Operation for Grouping {
    fn name(&self) -> &'static str {
        "group_by_window"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        match &self.size {
            WindowSize::Fixed(size) => encoded(&Some(*size)),
            WindowSize::ByKey(_) => encoded(&None::<u64>),
        }
    }

    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        let mut graphs = smallvec![(&self.key, Role::Value), (&self.reduce, Role::Function)];
        if let WindowSize::ByKey(size) = &self.size {
            graphs.push((size, Role::Value));
        }
        graphs
    }

    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        let mut graphs = smallvec![&mut self.key, &mut self.reduce];
        if let WindowSize::ByKey(size) = &mut self.size {
            graphs.push(size);
        }
        graphs
    }

    fn check(&self, _: usize) -> Result<(), String> {
        match &self.size {
            WindowSize::Fixed(size) => check_buffer("window", *size),
            WindowSize::ByKey(_) => Ok(()),
        }
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let input = given.input()?;
        wants_number("the key", &self.key, given.registry, input)?;
        match &self.size {
            WindowSize::Fixed(_) => {}
            WindowSize::ByKey(size) => {
                wants_number(
                    "the size of a window",
                    size,
                    given.registry,
                    &given.scalar(Dtype::I64)?,
                )?;
            }
        }
        reduced_spec("group_by_window", &self.reduce, given.registry, input)
    }

    fn is_alike_on_splits(&self, _: Option<u64>) -> bool {
        false
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("mixes positions")
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        let input = resolution.input();
        resolution.resolve(&mut self.key, input)?;
        resolution.resolve(&mut self.reduce, input)?;
        if let WindowSize::ByKey(size) = &mut self.size {
            let key = node_specs(&self.key, resolution.registry(), input)?.pop();
            resolution.resolve(size, key.as_ref())?;
        }
        Ok(())
    }
}

/// Decodes a `group_by_window` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Grouping {
        key: encoded.function(0, "key")?,
        reduce: encoded.function(1, "reduce function")?,
        size: match encoded.params()? {
            Some(size) => WindowSize::Fixed(size),
            None => WindowSize::ByKey(encoded.function(2, "window size")?),
        },
    }))
}

impl Dataset {
    /// Collects elements by key. As soon as `size` elements have the same key, `reduce` turns this
    /// window into a dataset, whose elements are yielded. At the end of the input, `reduce` runs on the
    /// smaller windows that remain, in the order of their keys.
    ///
    /// `key` is a chain of maps from an element to an `i64`. `reduce` takes the window as a dataset. At
    /// most 2^24 elements are held at a time.
    ///
    /// Works like `tf.data.Dataset.group_by_window`. Holding more bytes than the pipeline's byte budget
    /// is an error.
    pub fn group_by_window(
        self,
        key: impl FnOnce(Dataset) -> Dataset,
        size: u64,
        reduce: impl FnOnce(Dataset) -> Dataset,
    ) -> Dataset {
        self.grouped(key, Ok(WindowSize::Fixed(size)), reduce)
    }

    /// Works like [`Dataset::group_by_window`], with a window size that depends on the key. `size` is a
    /// chain of maps from the key to the size, both `i64`, and runs when a window receives its first
    /// element.
    pub fn group_by_window_sized(
        self,
        key: impl FnOnce(Dataset) -> Dataset,
        size: impl FnOnce(Dataset) -> Dataset,
        reduce: impl FnOnce(Dataset) -> Dataset,
    ) -> Dataset {
        self.grouped(key, body(size).map(WindowSize::ByKey), reduce)
    }

    fn grouped(
        self,
        key: impl FnOnce(Dataset) -> Dataset,
        size: Result<WindowSize, GraphError>,
        reduce: impl FnOnce(Dataset) -> Dataset,
    ) -> Dataset {
        match (body(key), size, body(reduce)) {
            (Ok(key), Ok(size), Ok(reduce)) => self.then(Grouping { key, size, reduce }),
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => self.failed(error),
        }
    }
}
