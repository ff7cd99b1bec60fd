//! The graph of a dataset, and what it asks of its operations: names, parameters, rules, and what each makes
//! of its input.
//!
//! Owns the nodes of a graph and the trait that every operation implements in its room below `ops`. Refuses
//! to know any operation, and how one is executed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::Any;
use std::fmt;
use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use smallvec::{SmallVec, smallvec};

use super::cardinality::Cardinality;
use super::error::{AnalysisError, GraphError};
use super::label;
use super::options::Options;
use super::registry::Registry;
use super::schedule::{Cycle, Schedule};
use super::units::Splitting;

/// One operation and the nodes it reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Operation of the node.
    pub op: Op,
    /// Indices of the nodes it reads, each below its own.
    pub inputs: Vec<u32>,
}

/// A dataset's definition. Made by [`Dataset`](super::Dataset) or [`Graph::from_bytes`].
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// Positions of a split, if it is asked for: 1 to [`SPLIT_SIZE_MAX`](super::SPLIT_SIZE_MAX).
    pub(crate) split_size: Option<u64>,
    pub(crate) execution: Execution,
}

/// How a graph is executed that is not as it was defined any more. Not part of its encoding.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Execution {
    /// The numbers of the nodes in the graph as it was defined; empty = their own.
    pub(crate) origins: Vec<u32>,
    /// Whether neighbouring maps are executed each for itself.
    pub(crate) keeps_maps_apart: bool,
    /// Whether its sources are dealt out in splits.
    pub(crate) is_fed: bool,
    /// The nodes as they were defined; absent = its own.
    pub(crate) defined: Option<Arc<[Node]>>,
}

impl Graph {
    /// Returns the nodes, inputs before their users.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

/// One kind of operation with its parameters.
///
/// The defaults are those of an operation over one input that passes on each element as it is.
pub trait Operation: Comparable + fmt::Debug + Send + Sync {
    /// Returns the name on the wire and in messages.
    fn name(&self) -> &'static str;

    /// Encodes the parameters. Graphs, schedules and cycles are encoded beside them.
    ///
    /// # Errors
    /// [`GraphError::Malformed`] for parameters that have no encoding.
    fn encode(&self) -> Result<Vec<u8>, GraphError>;

    /// Returns how many inputs the operation takes.
    fn arity(&self) -> RangeInclusive<usize> {
        1..=1
    }

    /// Returns the graphs that are parameters of the operation, and what each of them is.
    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        SmallVec::new()
    }

    /// Returns the graphs of [`Operation::graphs`], to be changed into graphs of the same shape.
    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        SmallVec::new()
    }

    /// Returns how calls are spread, for an operation that encodes it beside its parameters.
    fn schedule(&self) -> Option<Schedule> {
        None
    }

    /// Returns how calls are spread over threads, to be changed; `None` for an operation that runs in one
    /// thread.
    fn schedule_mut(&mut self) -> Option<&mut Schedule> {
        None
    }

    /// Returns how datasets take turns, for an operation that reads several at once.
    fn cycle(&self) -> Option<Cycle> {
        None
    }

    /// Returns what the operation says of the execution of everything below it.
    fn options(&self) -> Option<&Options> {
        None
    }

    /// Checks the parameters by themselves, given the number of inputs.
    ///
    /// # Errors
    /// The rule and how it is broken, as text.
    fn check(&self, inputs: usize) -> Result<(), String> {
        let _ = inputs;
        Ok(())
    }

    /// Checks whether the operation may stand in a graph of this role, which is nested this deep.
    ///
    /// # Errors
    /// The reason, as text.
    fn check_place(&self, role: Role, nesting: usize) -> Result<(), String> {
        let _ = nesting;
        match role {
            Role::Dataset | Role::Function => Ok(()),
            Role::Value => Err(
                "stands in a function that makes one value of another, which is to be maps alone".to_owned(),
            ),
        }
    }

    /// Infers what the operation yields.
    ///
    /// # Errors
    /// [`AnalysisError`] when the operation cannot take what comes in.
    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        given.input().cloned()
    }

    /// Infers how many elements the operation yields.
    ///
    /// # Errors
    /// [`AnalysisError`] for a name that nobody registered.
    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count()
    }

    /// Returns what a source is called: the operation's name, or a registered one.
    fn source_name(&self) -> String {
        self.name().to_owned()
    }

    /// Returns how a source of `graph` is dealt out.
    ///
    /// # Errors
    /// [`AnalysisError`] for a source that nobody registered.
    fn splitting(&self, graph: &Graph, registry: &dyn Registry) -> Result<Splitting, AnalysisError> {
        let _ = (graph, registry);
        Ok(Splitting::Whole("is not a source".to_owned()))
    }

    /// Returns whether the operation keeps elements for later passes.
    fn keeps_elements(&self) -> bool {
        false
    }

    /// Returns whether the operation keeps elements in files.
    fn keeps_files(&self) -> bool {
        false
    }

    /// Returns why source positions cannot be followed through the operation, in a dataset whose options say
    /// `deterministic`.
    fn misaligns(&self, deterministic: bool) -> Option<&'static str> {
        let _ = deterministic;
        None
    }

    /// Returns whether the operation yields the same elements in whatever order its input comes.
    fn ignores_order(&self) -> bool {
        false
    }

    /// Returns whether the operation, with its parameters, yields exactly what it reads, so that it may be
    /// left out.
    fn does_nothing(&self) -> bool {
        false
    }

    /// Returns whether files that the operation reads leave it as they came, though in another order or
    /// number.
    fn passes_files(&self) -> bool {
        self.options().is_some()
    }

    /// Returns whether the operation passes on elements of its input as they are: some, in another order or
    /// several times.
    fn yields_its_input(&self) -> bool {
        false
    }

    /// Returns the rows of every element but the last, for an operation that stacks as many.
    fn batch_size(&self) -> Option<u64> {
        None
    }

    /// Returns whether the operation ignores errors of what is below it.
    fn ignores_errors(&self) -> bool {
        false
    }

    /// Makes the operation yield the same elements in the same order on all workers. What has no seed draws
    /// with `seed`.
    fn draw_alike(&mut self, seed: u64) {
        let _ = seed;
    }

    /// Makes the operation draw alike in every pass and epoch. Returns whether it draws at all.
    fn fix_draws(&mut self) -> bool {
        false
    }

    /// Gives what the operation keeps for one share of a dataset a place of its own.
    fn take_share(&mut self, index: u64, count: u64) {
        let _ = (index, count);
    }

    /// Returns whether the operation makes elements of the files whose paths come in.
    fn reads_files(&self) -> bool {
        let within = |graph: &Graph| graph.nodes().iter().any(|node| node.op.reads_files());
        self.graphs().iter().any(|(graph, _)| within(graph))
    }

    /// Returns whether nothing declares what the files hold that the operation reads.
    fn lacks_columns(&self) -> bool {
        false
    }

    /// Writes the signatures of registered functions into the operation.
    ///
    /// # Errors
    /// As [`Graph::facts`].
    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        for graph in self.graphs_mut() {
            resolution.resolve(graph, resolution.input())?;
        }
        Ok(())
    }

    /// Returns the name and the parameters for people, cut off where they are long.
    fn label(&self) -> String {
        let parameters = if self.graphs().is_empty() {
            label::parameters(&self)
        } else {
            String::new()
        };
        label::label(self.name(), &parameters)
    }
}

/// Comparison and copying of an operation whose type is erased. A blanket implementation covers every
/// operation.
pub trait Comparable: Any {
    /// Returns whether `other` is of the same type and equal.
    fn equals(&self, other: &dyn Any) -> bool;

    /// Returns a copy.
    fn copied(&self) -> Arc<dyn Operation>;
}

impl<T: Operation + Clone + PartialEq> Comparable for T {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn copied(&self) -> Arc<dyn Operation> {
        Arc::new(self.clone())
    }
}

/// One operation of a graph. Copies share it until one of them is changed.
#[derive(Clone)]
pub struct Op(Arc<dyn Operation>);

impl Op {
    /// Wraps an operation.
    pub fn new(operation: impl Operation) -> Op {
        Op(Arc::new(operation))
    }

    /// Returns the operation if it is of type `T`.
    pub fn of<T: Operation>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Returns whether the operation is of type `T`.
    pub fn is<T: Operation>(&self) -> bool {
        self.of::<T>().is_some()
    }

    /// Returns the operation to be changed if it is of type `T`.
    pub fn of_mut<T: Operation>(&mut self) -> Option<&mut T> {
        if self.is::<T>() {
            (self.change() as &mut dyn Any).downcast_mut()
        } else {
            None
        }
    }

    /// Returns the operation to be changed.
    pub fn change(&mut self) -> &mut dyn Operation {
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = self.0.copied();
        }
        Arc::get_mut(&mut self.0).expect("a copy has one owner")
    }

    /// Returns the graph that is opened as a dataset of its own, for an element, for a window, or once.
    pub(crate) fn body(&self) -> Option<&Graph> {
        let mut bodies = self.graphs().into_iter();
        bodies
            .find(|(_, role)| *role != Role::Value)
            .map(|(graph, _)| graph)
    }
}

impl Deref for Op {
    type Target = dyn Operation;

    fn deref(&self) -> &dyn Operation {
        &*self.0
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Op {
    fn eq(&self, other: &Op) -> bool {
        self.0.equals(&*other.0)
    }
}

impl<T: Operation> From<T> for Op {
    fn from(operation: T) -> Op {
        Op::new(operation)
    }
}

/// Role of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A dataset of its own.
    Dataset,
    /// The body of a function that makes a dataset of its argument.
    Function,
    /// The body of a function that makes one value of its argument: maps.
    Value,
}

/// Inputs of an operation under analysis.
pub struct Given<'a> {
    /// The name of the operation.
    pub(crate) op: &'static str,
    /// The signatures of registered functions.
    pub(crate) registry: &'a dyn Registry,
    /// The elements of each input; of a source in a function, the function's argument.
    pub(crate) specs: SmallVec<[&'a ElementSpec; 1]>,
    /// How many elements each input has, where that is known already.
    pub(crate) counts: SmallVec<[Cardinality; 1]>,
}

impl fmt::Debug for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given")
            .field("op", &self.op)
            .field("specs", &self.specs)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Given<'_> {
    /// Returns the elements of the first input.
    ///
    /// # Errors
    /// [`AnalysisError::Mismatch`] when there is no input, which a graph's own check rules out.
    pub fn input(&self) -> Result<&ElementSpec, AnalysisError> {
        self.specs.first().copied().ok_or_else(|| self.nothing())
    }

    /// Returns how many elements the first input has.
    ///
    /// # Errors
    /// As [`Given::input`].
    pub fn count(&self) -> Result<Cardinality, AnalysisError> {
        self.counts.first().copied().ok_or_else(|| self.nothing())
    }

    /// Returns the error of an operation that cannot take what comes in.
    pub fn mismatch(&self, reason: impl Into<String>) -> AnalysisError {
        AnalysisError::Mismatch {
            op: self.op.to_owned(),
            reason: reason.into(),
        }
    }

    /// Returns the error of an operation whose elements would break a limit.
    pub fn not_allowed(&self, reason: impl fmt::Display) -> AnalysisError {
        AnalysisError::Spec {
            op: self.op.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Returns the spec of one scalar.
    ///
    /// # Errors
    /// [`AnalysisError::Spec`], which a scalar never is.
    pub fn scalar(&self, dtype: Dtype) -> Result<ElementSpec, AnalysisError> {
        ElementSpec::single(TensorSpec::scalar(dtype)).map_err(|error| self.not_allowed(error))
    }

    fn nothing(&self) -> AnalysisError {
        self.mismatch("it is given nothing to work on")
    }
}

/// Context of an operation into which signatures are written.
pub struct Resolution<'a> {
    pub(crate) registry: &'a dyn Registry,
    pub(crate) input: Option<&'a ElementSpec>,
    pub(crate) output: &'a ElementSpec,
}

impl fmt::Debug for Resolution<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolution")
            .field("input", &self.input)
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl<'a> Resolution<'a> {
    /// Returns the signatures of registered functions.
    pub fn registry(&self) -> &'a dyn Registry {
        self.registry
    }

    /// Returns the elements of the first input; `None` of a source.
    pub fn input(&self) -> Option<&'a ElementSpec> {
        self.input
    }

    /// Returns the elements that the operation yields.
    pub fn output(&self) -> &'a ElementSpec {
        self.output
    }

    /// Returns what comes into the operation `op`, for its own inference; `None` of a source.
    pub fn given(&self, op: &'static str) -> Option<Given<'a>> {
        let input = self.input?;
        Some(Given {
            op,
            registry: self.registry,
            specs: smallvec![input],
            counts: SmallVec::new(),
        })
    }
}
