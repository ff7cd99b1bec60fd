//! The definition of `interleave`: a dataset for each element, several of them by turns.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use smallvec::SmallVec;

use crate::graph::cardinality::Cardinality;
use crate::graph::check::check_cycle;
use crate::graph::codec::Encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::params::{Params, SpecField};
use crate::graph::schedule::{Cycle, Schedule};
use crate::graph::tree::Graph;
use crate::graph::tree::Resolution;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use crate::ops::flat_map::{FlatMap, RegisteredFlatMap};

/// The operation `interleave`.
#[derive(Debug, Clone, PartialEq)]
pub struct Interleave {
    /// Makes a dataset of each element.
    pub function: FlatMap,
    /// The cycle in which the datasets take turns.
    pub cycle: Cycle,
}

impl Operation for Interleave {
    fn name(&self) -> &'static str {
        "interleave"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        self.function.encoded()
    }

    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        self.function.graphs()
    }

    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        self.function.graphs_mut()
    }

    fn schedule_mut(&mut self) -> Option<&mut Schedule> {
        Some(&mut self.cycle.schedule)
    }

    fn cycle(&self) -> Option<Cycle> {
        Some(self.cycle)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_cycle(self.cycle)?;
        self.function.check_name()
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        self.function.spec(given)
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        self.function.cardinality(given)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("makes several elements of one position")
    }

    fn draw_alike(&mut self, _: u64) {
        self.cycle.schedule.ordered = Some(true);
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        self.function.resolve(resolution)
    }
}

/// Reads the operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    let cycle = encoded.cycle()?;
    let function = FlatMap::decoded(encoded)?;
    Ok(Op::new(Interleave { function, cycle }))
}

/// Turns taken by the caller.
fn cycle(length: u64, block: u64) -> Cycle {
    Cycle {
        length,
        block,
        schedule: Schedule::default(),
    }
}

impl Dataset {
    /// The datasets that `body` makes of the elements, `length` of them by turns: `block` elements of one,
    /// then of the next. Where one has ended, the next element's takes its place. The order is always the
    /// same unless [`Dataset::unordered`] follows. With `length` 1 this is [`Dataset::flat_map`].
    ///
    /// Works as `tf.data.Dataset.interleave`. Lengths and blocks of 0, and lengths beyond 4096, are refused.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(0, 4, 1).interleave(2, 1, |number| number.repeat(Some(2)));
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 1, 0, 1, 2, 3, 2, 3].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn interleave(self, length: u64, block: u64, body: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        self.expanded(body, |function| {
            Op::new(Interleave {
                function,
                cycle: cycle(length, block),
            })
        })
    }

    /// Interleaves as [`Dataset::interleave`] does, with datasets that the registered function `name` returns
    /// for the elements.
    pub fn interleave_registered(
        self,
        length: u64,
        block: u64,
        name: impl Into<String>,
        params: Params,
    ) -> Dataset {
        let function = FlatMap::Registered(RegisteredFlatMap {
            name: name.into(),
            params,
            output: None,
        });
        self.then(Interleave {
            function,
            cycle: cycle(length, block),
        })
    }

    /// Interleaves as [`Dataset::interleave_registered`] does, with a stated spec of the datasets' elements,
    /// for a caller that does not have the function.
    pub fn interleave_declared(
        self,
        length: u64,
        block: u64,
        name: impl Into<String>,
        params: Params,
        output: ElementSpec,
    ) -> Dataset {
        let function = FlatMap::Registered(RegisteredFlatMap {
            name: name.into(),
            params,
            output: Some(SpecField(output)),
        });
        self.then(Interleave {
            function,
            cycle: cycle(length, block),
        })
    }
}
