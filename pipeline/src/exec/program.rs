//! A graph that is ready to be executed. Specs are inferred, functions prepared and files listed once. The
//! graph is then opened as a tree of operations as often as needed; a function's body is opened once for each
//! element.

use std::ops::Deref;
use std::sync::Arc;

use millstream_element::ElementSpec;
use smallvec::{SmallVec, smallvec};
use thiserror::Error;

use crate::graph::{AnalysisError, Given, Graph, Op, Operation, node_specs};
use crate::plan::{PlanError, SplitPlan};
use crate::storage::Storage;

use super::call::{Call, Chain};
use super::context::Shared;
use super::error::{ErrorKind, ExecError};
use super::functions::Functions;
use super::item::Item;
use super::iterate::Input;

/// The reason why a graph cannot be executed.
#[derive(Debug, Clone, Error)]
pub enum OpenError {
    /// The graph cannot be analysed: a function is unknown, or an operation does not fit its input.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// The files cannot be listed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A source or a function's body cannot be opened.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The graph should read splits, but it cannot be split.
    #[error("the dataset cannot be split: {0}")]
    NotSplittable(String),
    /// The plan was made for another graph.
    #[error("expected a split plan for {expected} sources, found a plan for {found} sources")]
    PlanMismatch {
        /// The number of sources of the graph.
        expected: usize,
        /// The number of sources of the plan.
        found: usize,
    },
    /// The graph needs a feature that this build does not have.
    #[error("operation {op:?} is not built in: build with the feature {feature:?}")]
    Feature {
        /// The name of the operation.
        op: &'static str,
        /// The name of the missing feature.
        feature: &'static str,
    },
    /// The graph has a `shard` hint, and no sharding policy has supplied the shard's numbers.
    #[error(
        "the dataset has a shard hint without a shard number: read the dataset under the sharding policy `hint`, \
         or choose the shard with shard(count, index)"
    )]
    ShardHint,
    /// The graph reads a service, and this process has no reader for services.
    #[error("the dataset reads a service, but this process has no service reader")]
    NoServiceReader,
}

/// The place from which a graph's own sources learn their files.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FilesOf<'p> {
    /// The files are listed in the iteration's plan.
    Plan(&'p SplitPlan),
    /// The splits name their files. A second listing could find other files.
    Splits,
    /// The files are listed now, as the files in the bodies of functions always are.
    Disk,
}

/// The means by which a graph is prepared: the functions, and the storage of files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Means<'m> {
    pub(crate) functions: &'m Functions,
    pub(crate) storage: &'m Storage,
    /// The lookup of an operation's preparation by the operation's name.
    pub(crate) find: Find,
}

impl Deref for Means<'_> {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        self.functions
    }
}

/// A function that prepares an operation. The function is called once for each graph that contains the
/// operation.
pub(crate) type Prepare = fn(&Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError>;

/// A function that returns the preparation of the operation with a name.
pub(crate) type Find = fn(&str) -> Option<Prepare>;

/// An operation that is prepared, and can be opened as often as needed.
pub(crate) trait Prepared: Send + Sync {
    /// Opens the operation and its inputs.
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError>;

    /// Returns the call of an operation that is a map.
    fn call(&self, opening: &Opening<'_>) -> Option<Result<Box<dyn Call>, ExecError>> {
        let _ = opening;
        None
    }

    /// Returns the files of a source, and the files of sources in the bodies of functions.
    fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(std::iter::empty())
    }
}

impl<F: Fn(&Opening<'_>) -> Result<Input, ExecError> + Send + Sync> Prepared for F {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        self(opening)
    }
}

/// Returns a prepared operation that `open` opens.
pub(crate) fn prepared<F>(open: F) -> Result<Box<dyn Prepared>, OpenError>
where
    F: Fn(&Opening<'_>) -> Result<Input, ExecError> + Send + Sync + 'static,
{
    Ok(Box::new(open))
}

/// The operation that is being prepared.
pub(crate) struct Preparing<'p> {
    pub(crate) graph: &'p Graph,
    /// The number of the operation's node.
    pub(crate) node: usize,
    pub(crate) means: &'p Means<'p>,
    /// The spec of the elements of the operation's first input.
    pub(crate) input: Option<&'p ElementSpec>,
    /// The spec of the elements that the operation yields.
    pub(crate) output: &'p ElementSpec,
    pub(crate) files: FilesOf<'p>,
    /// The number of the operation among the sources of its graph, if it is a source.
    pub(crate) source: Option<usize>,
}

impl<'p> Preparing<'p> {
    /// Returns the operation.
    pub(crate) fn op(&self) -> &'p Op {
        &self.graph.nodes()[self.node].op
    }

    /// Returns the operation as a `T`, the type that the table of operations lists for its name.
    pub(crate) fn of<T: Operation>(&self) -> Result<&'p T, OpenError> {
        let op = self.op();
        op.of().ok_or_else(|| unprepared(op.name()).into())
    }

    /// Returns the spec of the elements of the operation's first input.
    pub(crate) fn input(&self) -> Result<&'p ElementSpec, OpenError> {
        self.input.ok_or_else(|| unprepared(self.op().name()).into())
    }

    /// Returns the operation's inputs, for the inference of its spec.
    pub(crate) fn given(&self) -> Result<Given<'p>, OpenError> {
        Ok(Given {
            op: self.op().name(),
            registry: self.means.functions,
            specs: smallvec![self.input()?],
            counts: SmallVec::new(),
        })
    }

    /// Prepares a graph that is a parameter of the operation. The files of the graph are always listed now.
    pub(crate) fn body(
        &self,
        graph: &Graph,
        argument: Option<&ElementSpec>,
    ) -> Result<Arc<Program>, OpenError> {
        Program::prepare(graph, self.means, argument, FilesOf::Disk).map(Arc::new)
    }
}

/// An operation that is being opened.
pub(crate) struct Opening<'o> {
    pub(crate) program: &'o Program,
    /// The number of the operation's node.
    pub(crate) node: usize,
    pub(crate) shared: &'o Shared,
    /// The argument of a function's body.
    pub(crate) argument: Option<&'o Arc<[Item]>>,
    /// The node of the full shuffle directly above a source, and the number of positions that it permutes.
    pub(crate) shuffled: Option<(usize, u64)>,
}

/// A graph ready to be opened.
pub(crate) struct Program {
    pub(crate) graph: Graph,
    pub(crate) specs: Vec<ElementSpec>,
    /// The prepared operation of each node.
    pub(crate) parts: Vec<Box<dyn Prepared>>,
}

impl Program {
    /// Prepares `graph`. Blocks on storage if files must be listed.
    pub(crate) fn prepare(
        graph: &Graph,
        means: &Means<'_>,
        argument: Option<&ElementSpec>,
        files: FilesOf<'_>,
    ) -> Result<Program, OpenError> {
        let specs = node_specs(graph, &**means, argument)?;
        let sources = graph.sources();
        if let FilesOf::Plan(plan) = files
            && plan.sources.len() != sources.len()
        {
            return Err(OpenError::PlanMismatch {
                expected: sources.len(),
                found: plan.sources.len(),
            });
        }
        let mut parts = Vec::with_capacity(specs.len());
        for (index, node) in graph.nodes().iter().enumerate() {
            let prepare = (means.find)(node.op.name()).ok_or_else(|| unprepared(node.op.name()))?;
            parts.push(prepare(&Preparing {
                graph,
                node: index,
                means,
                input: node.inputs.first().map(|input| &specs[*input as usize]),
                output: &specs[index],
                files,
                source: sources.iter().position(|source| *source == index),
            })?);
        }
        Ok(Program {
            graph: graph.clone(),
            specs,
            parts,
        })
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the files of the graph's sources, and the files of sources in the bodies of functions.
    pub(crate) fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.parts.iter().flat_map(|part| part.listings()))
    }

    /// Returns the spec of the graph's elements.
    pub(crate) fn spec(&self) -> &ElementSpec {
        &self.specs[self.graph.output()]
    }

    /// Returns the spec of the elements of `node`.
    pub(crate) fn spec_of(&self, node: usize) -> &ElementSpec {
        &self.specs[node]
    }

    /// Returns the number from which the draws of `node` are derived: its place in the graph as defined,
    /// before rewrites.
    pub(crate) fn drawn(&self, node: usize) -> usize {
        self.graph.origin(node) as usize
    }

    /// Returns all maps of the graph as one chain. Serves the bodies of functions that consist of maps only.
    pub(crate) fn chain(&self, shared: &Shared) -> Result<Chain, ExecError> {
        let nodes = self.graph.nodes().iter().enumerate();
        let maps = nodes.filter(|(_, node)| node.op.schedule().is_some());
        self.calls(&maps.map(|(node, _)| node).collect::<Vec<_>>(), shared)
    }

    /// Returns the map at `node` as a call.
    pub(crate) fn call(&self, node: usize, shared: &Shared) -> Result<Box<dyn Call>, ExecError> {
        let opening = Opening {
            program: self,
            node,
            shared,
            argument: None,
            shuffled: None,
        };
        let call = self.parts[node].call(&opening);
        call.unwrap_or_else(|| Err(unprepared(self.graph.nodes()[node].op.name())))
    }
}

/// Returns the internal error for a preparation that does not match its node.
pub(crate) fn unprepared(op: &str) -> ExecError {
    ExecError::new(ErrorKind::Internal, op, "was not prepared")
}

/// Checks that a graph's declaration of a function agrees with the function.
pub(crate) fn check_declared(
    name: &str,
    declared: &ElementSpec,
    actual: &ElementSpec,
) -> Result<(), AnalysisError> {
    if declared == actual {
        return Ok(());
    }
    let reason = format!(
        "the dataset declares that the function yields {declared}, but the registered function yields {actual}"
    );
    Err(AnalysisError::Mismatch {
        op: name.to_owned(),
        reason,
    })
}
