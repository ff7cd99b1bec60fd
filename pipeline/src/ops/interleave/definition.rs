//! The definition of `interleave`, which turns each element into a dataset and reads several of these
//! datasets in turn.
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
    /// The function that turns each element into a dataset.
    pub function: FlatMap,
    /// The number of datasets that take turns, the length of a turn, and the schedule of the reads.
    pub cycle: Cycle,
}

impl Operation for Interleave {
    fn name(&self) -> &'static str {
        "interleave"
    }

    fn registered_name(&self) -> Option<&str> {
        self.function.registered_name()
    }

    fn params_mut(&mut self, name: &str) -> Option<&mut Params> {
        self.function.params_mut(name)
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

    fn calls_in_turn(&self) -> bool {
        self.function.calls_in_turn()
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

/// Decodes an `interleave` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    let cycle = encoded.cycle()?;
    let function = FlatMap::decoded(encoded)?;
    Ok(Op::new(Interleave { function, cycle }))
}

/// Returns a cycle without parallel reads.
fn cycle(length: u64, block: u64) -> Cycle {
    Cycle {
        length,
        block,
        schedule: Schedule::default(),
    }
}

impl Dataset {
    /// Turns each element into a dataset with `body`, and reads `length` of these datasets in turn:
    /// `block` elements from each. When a dataset ends, the dataset of the next element takes its
    /// place. The order never varies unless [`Dataset::unordered`] follows. A `length` of 1 makes this
    /// method equal to [`Dataset::flat_map`].
    ///
    /// Works like `tf.data.Dataset.interleave`. [`Dataset::graph`] refuses a length or block of 0, and
    /// lengths above 4096.
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

    /// Works like [`Dataset::interleave`], with datasets that the registered function `name` returns
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

    /// Works like [`Dataset::interleave_registered`], and declares that the function's datasets yield
    /// elements of the spec `output`. Programs in which the function is not registered need this
    /// method.
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
