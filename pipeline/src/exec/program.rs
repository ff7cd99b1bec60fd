//! A graph ready to be executed: specs inferred, functions prepared, files listed, once; opened as a tree of
//! operations as often as needed, for a function's body once per element.

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

/// Why a graph cannot be executed.
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
    /// The graph is to be fed splits, and cannot be.
    #[error("the dataset cannot be split: {0}")]
    NotSplittable(String),
    /// The plan was made for another graph.
    #[error("the split plan has {found} sources, the dataset has {expected}")]
    PlanMismatch {
        /// Sources of the graph.
        expected: usize,
        /// Sources of the plan.
        found: usize,
    },
    /// The graph needs a feature that this build does not have.
    #[error("operation {op:?} is not built in: build with the feature {feature:?}")]
    Feature {
        /// The operation.
        op: &'static str,
        /// The feature.
        feature: &'static str,
    },
    /// The graph has a `shard` whose numbers no policy has supplied.
    #[error(
        "the dataset has a shard hint, which only the sharding policy `hint` gives its numbers: read it under that policy, \
         or say which shard with shard(count, index)"
    )]
    ShardHint,
    /// The graph reads a service, and this process has no reader for one.
    #[error("the dataset reads a service, and no service reader is provided here")]
    NoServiceReader,
}

/// Source of the files of a graph's own sources.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FilesOf<'p> {
    /// The iteration's plan.
    Plan(&'p SplitPlan),
    /// The splits: each brings its own. Listing them again could find others.
    Splits,
    /// Nobody yet: they are listed here, as those in the bodies of functions always are.
    Disk,
}

/// Means of preparing a graph: the functions, and the storage of files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Means<'m> {
    pub(crate) functions: &'m Functions,
    pub(crate) storage: &'m Storage,
    /// Finds what prepares an operation by its name.
    pub(crate) find: Find,
}

impl Deref for Means<'_> {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        self.functions
    }
}

/// Prepares an operation, once for each graph that it is in.
pub(crate) type Prepare = fn(&Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError>;

/// Finds what prepares the operation of a name.
pub(crate) type Find = fn(&str) -> Option<Prepare>;

/// An operation that is ready to be opened, as often as needed.
pub(crate) trait Prepared: Send + Sync {
    /// Opens the operation over what it reads.
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError>;

    /// Returns the call of an operation that is a map.
    fn call(&self, opening: &Opening<'_>) -> Option<Result<Box<dyn Call>, ExecError>> {
        let _ = opening;
        None
    }

    /// Returns the files of a source, and of those in functions.
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
    /// The node.
    pub(crate) node: usize,
    pub(crate) means: &'p Means<'p>,
    /// The elements of its first input.
    pub(crate) input: Option<&'p ElementSpec>,
    /// The elements that it yields.
    pub(crate) output: &'p ElementSpec,
    pub(crate) files: FilesOf<'p>,
    /// The number among the sources of its graph.
    pub(crate) source: Option<usize>,
}

impl<'p> Preparing<'p> {
    /// The operation itself.
    pub(crate) fn op(&self) -> &'p Op {
        &self.graph.nodes()[self.node].op
    }

    /// The operation itself, whose type the table of operations says.
    pub(crate) fn of<T: Operation>(&self) -> Result<&'p T, OpenError> {
        let op = self.op();
        op.of().ok_or_else(|| unprepared(op.name()).into())
    }

    /// The elements of its first input.
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

    /// Prepares a graph that the operation has as a parameter, whose files are always listed here.
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
    /// The node.
    pub(crate) node: usize,
    pub(crate) shared: &'o Shared,
    /// Argument of a function's body.
    pub(crate) argument: Option<&'o Arc<[Item]>>,
    /// The full shuffle right above a source, and how many positions it permutes.
    pub(crate) shuffled: Option<(usize, u64)>,
}

/// A graph ready to be opened.
pub(crate) struct Program {
    pub(crate) graph: Graph,
    pub(crate) specs: Vec<ElementSpec>,
    /// Prepared operation of each node.
    pub(crate) parts: Vec<Box<dyn Prepared>>,
}

impl Program {
    /// Prepares `graph`. Blocks on storage where its files are to be listed.
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

    /// The files of its sources, and of those in the bodies of its functions.
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

    /// Returns the number that the draws of `node` depend on: its place in the graph as defined, whatever
    /// rewrites left around it.
    pub(crate) fn drawn(&self, node: usize) -> usize {
        self.graph.origin(node) as usize
    }

    /// All of it as one call: of the body of a function that is maps alone.
    pub(crate) fn chain(&self, shared: &Shared) -> Result<Chain, ExecError> {
        let nodes = self.graph.nodes().iter().enumerate();
        let maps = nodes.filter(|(_, node)| node.op.schedule().is_some());
        self.calls(&maps.map(|(node, _)| node).collect::<Vec<_>>(), shared)
    }

    /// The map at `node` as a call.
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

/// A preparation that does not match its node: ours to fix.
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
        "the dataset declares that it yields {declared}, the function registered here yields {actual}"
    );
    Err(AnalysisError::Mismatch {
        op: name.to_owned(),
        reason,
    })
}
