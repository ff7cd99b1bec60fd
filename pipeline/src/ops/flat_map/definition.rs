//! The definition of `flat_map`, which turns each element into a dataset and yields these datasets one
//! after the other.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use smallvec::{SmallVec, smallvec};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::{multiplied, thinned};
use crate::graph::check::check_name;
use crate::graph::codec::{Encoded, encoded};
use crate::graph::counting::of_body;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::params::{Params, SpecField};
use crate::graph::spec::node_specs;
use crate::graph::tree::Graph;
use crate::graph::tree::Resolution;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use crate::ops::read::{is_of_shards, with_example};

/// The parameters of `flat_map` and `interleave`: the function that turns each element into a dataset.
#[derive(Debug, Clone, PartialEq)]
pub enum FlatMap {
    /// A graph in which [`Argument`](crate::ops::argument::Argument) stands for the element.
    Graph(Box<Graph>),
    /// A registered function that opens a source for the element.
    Registered(RegisteredFlatMap),
}

/// The parameters of a `flat_map` or `interleave` whose function is registered.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct RegisteredFlatMap {
    /// The name under which the function is registered.
    #[n(0)]
    pub name: String,
    /// The parameters of the function, apart from the element.
    #[n(1)]
    pub params: Params,
    /// The declared spec of the elements that the function's datasets yield. `None` asks the registry.
    #[n(2)]
    pub output: Option<SpecField>,
}

impl FlatMap {
    pub(crate) fn encoded(&self) -> Result<Vec<u8>, GraphError> {
        match self {
            FlatMap::Registered(params) => encoded(params),
            // The codec encodes the graph separately from the parameters.
            FlatMap::Graph(_) => Ok(Vec::new()),
        }
    }

    pub(crate) fn decoded(encoded: &Encoded<'_>) -> Result<FlatMap, GraphError> {
        Ok(if encoded.has_graphs() {
            FlatMap::Graph(Box::new(encoded.function(0, "function")?))
        } else {
            FlatMap::Registered(encoded.params()?)
        })
    }

    pub(crate) fn check_name(&self) -> Result<(), String> {
        match self {
            FlatMap::Graph(_) => Ok(()),
            FlatMap::Registered(registered) => check_name("function", &registered.name),
        }
    }
}

impl Operation for FlatMap {
    fn name(&self) -> &'static str {
        "flat_map"
    }

    fn registered_name(&self) -> Option<&str> {
        match self {
            FlatMap::Registered(registered) => Some(&registered.name),
            FlatMap::Graph(_) => None,
        }
    }

    fn params_mut(&mut self, name: &str) -> Option<&mut Params> {
        match self {
            FlatMap::Registered(registered) if registered.name == name => Some(&mut registered.params),
            FlatMap::Registered(_) | FlatMap::Graph(_) => None,
        }
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        self.encoded()
    }

    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        match self {
            FlatMap::Graph(body) => smallvec![(&**body, Role::Function)],
            FlatMap::Registered(_) => SmallVec::new(),
        }
    }

    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        match self {
            FlatMap::Graph(body) => smallvec![&mut **body],
            FlatMap::Registered(_) => SmallVec::new(),
        }
    }

    fn calls_in_turn(&self) -> bool {
        matches!(self, FlatMap::Registered(_))
    }

    fn check(&self, _: usize) -> Result<(), String> {
        self.check_name()
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let input = given.input()?;
        match self {
            FlatMap::Graph(body) => {
                let output = node_specs(body, given.registry, Some(input))?.pop();
                output.ok_or_else(|| given.mismatch("the operation has no function"))
            }
            FlatMap::Registered(registered) => match &registered.output {
                Some(output) => Ok(output.0.clone()),
                None => given
                    .registry
                    .flat_map(&registered.name, &registered.params, input),
            },
        }
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        let count = given.count()?;
        Ok(match self {
            FlatMap::Graph(body) => multiplied(count, of_body(body, given.input()?, given.registry)?),
            FlatMap::Registered(_) => thinned(count),
        })
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("makes several elements of one position")
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        match self {
            FlatMap::Graph(body) => resolution.resolve(body, resolution.input()),
            FlatMap::Registered(registered) => {
                registered.output = Some(SpecField(resolution.output().clone()));
                Ok(())
            }
        }
    }
}

/// Decodes a `flat_map` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    FlatMap::decoded(encoded).map(Op::new)
}

impl Dataset {
    /// Turns each element into a dataset with `body`, and yields these datasets one after the other.
    /// `body` takes a placeholder for its argument: a dataset of exactly that element.
    ///
    /// Works like `tf.data.Dataset.flat_map`. A failure in the body is a failure of the element. If the
    /// body can continue after the failure, the element's dataset continues too.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(1, 3, 1).flat_map(|number| number.repeat(Some(2)));
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([1, 1, 2, 2].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn flat_map(self, body: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        self.expanded(body, Op::new)
    }

    /// Turns each element into a dataset with the registered function `name`, and yields these datasets
    /// one after the other.
    pub fn flat_map_registered(self, name: impl Into<String>, params: Params) -> Dataset {
        self.then(FlatMap::Registered(RegisteredFlatMap {
            name: name.into(),
            params,
            output: None,
        }))
    }

    /// Works like [`Dataset::flat_map_registered`], and declares that the function's datasets yield
    /// elements of the spec `output`. Programs in which the function is not registered need this
    /// method.
    pub fn flat_map_declared(self, name: impl Into<String>, params: Params, output: ElementSpec) -> Dataset {
        self.then(FlatMap::Registered(RegisteredFlatMap {
            name: name.into(),
            params,
            output: Some(SpecField(output)),
        }))
    }

    /// Adds the operation that `op` makes from the body of a function.
    pub(crate) fn expanded(
        mut self,
        body: impl FnOnce(Dataset) -> Dataset,
        op: impl FnOnce(FlatMap) -> Op,
    ) -> Dataset {
        match crate::ops::argument::body(body) {
            Ok(body) => {
                let op = op(FlatMap::Graph(Box::new(body)));
                if op.graphs().iter().any(|(graph, _)| is_of_shards(graph)) {
                    self = self.of_indexes();
                }
                match self.listed() {
                    Some(pattern) => self.then(with_example(op, &pattern)),
                    None => self.then(op),
                }
            }
            Err(error) => {
                self.error.get_or_insert(error);
                self
            }
        }
    }
}
