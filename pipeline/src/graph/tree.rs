//! The graph of a dataset, and the trait that every operation implements: name, parameters, checks, and the
//! inference of its output.
//!
//! Owns the nodes of a graph and the trait that every operation implements in its room below `ops`. Refuses
//! to know any particular operation, and how operations are executed.
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
use super::params::Params;
use super::registry::Registry;
use super::schedule::{Cycle, Schedule};
use super::units::Splitting;

/// One operation and the indices of its inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The operation of the node.
    pub op: Op,
    /// The indices of the nodes that the operation reads, each below the index of this node.
    pub inputs: Vec<u32>,
}

/// The definition of a dataset. [`Dataset`](super::Dataset) and [`Graph::from_bytes`] make graphs.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// The number of positions of a split, 1 to [`SPLIT_SIZE_MAX`](super::SPLIT_SIZE_MAX); `None` means the
    /// default.
    pub(crate) split_size: Option<u64>,
    pub(crate) execution: Execution,
}

/// The state of a graph that was changed for execution, which is not part of the graph's encoding.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Execution {
    /// The numbers of the nodes in the graph as it was defined. An empty list means that the numbers are
    /// unchanged.
    pub(crate) origins: Vec<u32>,
    /// `true` if neighbouring maps are executed separately.
    pub(crate) keeps_maps_apart: bool,
    /// `true` if the sources receive splits.
    pub(crate) is_fed: bool,
    /// The nodes of the graph as it was defined; `None` if the nodes are unchanged.
    pub(crate) defined: Option<Arc<[Node]>>,
}

impl Graph {
    /// Returns the nodes; inputs come before their users.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

/// One kind of operation with its parameters.
///
/// The default methods describe an operation with one input that forwards each element unchanged.
pub trait Operation: Comparable + fmt::Debug + Send + Sync {
    /// Returns the name of the operation on the wire and in messages.
    fn name(&self) -> &'static str;

    /// Encodes the parameters. Graphs, schedules and cycles are encoded separately.
    ///
    /// # Errors
    /// [`GraphError::Malformed`] for parameters that have no encoding.
    fn encode(&self) -> Result<Vec<u8>, GraphError>;

    /// Returns the encoded parameters that decide which element has which position in the output. Returns
    /// `None` for an operation that yields one element for each input element, in the same order.
    ///
    /// # Errors
    /// [`GraphError::Malformed`] for parameters that have no encoding.
    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        self.encode().map(Some)
    }

    /// Returns the allowed number of inputs.
    fn arity(&self) -> RangeInclusive<usize> {
        1..=1
    }

    /// Returns the graphs among the parameters, each with its role.
    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        SmallVec::new()
    }

    /// Returns the graphs of [`Operation::graphs`] for changes that keep their shape.
    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        SmallVec::new()
    }

    /// Returns the schedule of the calls, for an operation whose schedule is encoded next to its parameters.
    fn schedule(&self) -> Option<Schedule> {
        None
    }

    /// Returns the schedule of the calls for changes; `None` for an operation that runs in one thread.
    fn schedule_mut(&mut self) -> Option<&mut Schedule> {
        None
    }

    /// Returns the cycle of the datasets, for an operation that reads several datasets in turn.
    fn cycle(&self) -> Option<Cycle> {
        None
    }

    /// Returns the options that the operation sets for all operations below it.
    fn options(&self) -> Option<&Options> {
        None
    }

    /// Checks the parameters, given the number of inputs but not their specs.
    ///
    /// # Errors
    /// The broken rule, as text.
    fn check(&self, inputs: usize) -> Result<(), String> {
        let _ = inputs;
        Ok(())
    }

    /// Checks that the operation is allowed in a graph with this role and depth of nesting.
    ///
    /// # Errors
    /// The reason why the operation is not allowed, as text.
    fn check_place(&self, role: Role, nesting: usize) -> Result<(), String> {
        let _ = nesting;
        match role {
            Role::Dataset | Role::Function => Ok(()),
            Role::Value => Err(
                "is not allowed in a function that computes one value from another, which consists of maps alone".to_owned(),
            ),
        }
    }

    /// Infers the spec of the operation's elements.
    ///
    /// # Errors
    /// [`AnalysisError`] if the operation cannot take its input.
    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        given.input().cloned()
    }

    /// Infers the number of the operation's elements.
    ///
    /// # Errors
    /// [`AnalysisError`] for a name that is not registered.
    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count()
    }

    /// Returns whether the operation only states the number of elements of the whole dataset.
    fn states_cardinality(&self) -> bool {
        false
    }

    /// Returns the name of a source: the operation's name, or a registered name.
    fn source_name(&self) -> String {
        self.name().to_owned()
    }

    /// Returns the way in which this source of `graph` is divided into splits.
    ///
    /// # Errors
    /// [`AnalysisError`] for a source that is not registered.
    fn splitting(&self, graph: &Graph, registry: &dyn Registry) -> Result<Splitting, AnalysisError> {
        let _ = (graph, registry);
        Ok(Splitting::Whole("is not a source".to_owned()))
    }

    /// Returns whether the operation calls a registered function, which the program expects to be called once
    /// at a time.
    fn calls_in_turn(&self) -> bool {
        false
    }

    /// Returns whether the operation keeps elements for later passes.
    fn keeps_elements(&self) -> bool {
        false
    }

    /// Returns whether the operation keeps elements in files.
    fn keeps_files(&self) -> bool {
        false
    }

    /// Returns the reason why source positions cannot be followed through the operation; `None` if they can.
    /// `deterministic` is the dataset's option for the order of elements.
    fn misaligns(&self, deterministic: bool) -> Option<&'static str> {
        let _ = deterministic;
        None
    }

    /// Returns why the operation cannot run on each split of its source alone, if it cannot.
    fn spans_splits(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether the operation yields on each split alone the elements that it yields on the whole
    /// source, in any order. A split has `count` elements; `None` if their number is unknown.
    fn is_alike_on_splits(&self, count: Option<u64>) -> bool {
        let _ = count;
        true
    }

    /// Returns whether the operation leaves out elements at the end that do not fill an element.
    fn drops_remainder(&self) -> bool {
        false
    }

    /// Returns whether the operation yields the same elements for every order of its input.
    fn ignores_order(&self) -> bool {
        false
    }

    /// Returns whether the operation, with its parameters, yields exactly its input. The rewrites may remove
    /// an operation that yields its input.
    fn does_nothing(&self) -> bool {
        false
    }

    /// Returns whether the operation forwards file paths unchanged, though possibly in another order or
    /// number.
    fn passes_files(&self) -> bool {
        self.options().is_some()
    }

    /// Returns whether the operation yields only elements of its input. The operation may drop, reorder or
    /// repeat elements.
    fn yields_its_input(&self) -> bool {
        false
    }

    /// Returns how many neighbouring elements the operation mixes, for an operation that draws from a buffer.
    /// An operation that permutes its source mixes nothing.
    fn mixed_elements(&self) -> u64 {
        1
    }

    /// Returns the number of rows of every element but the last, for an operation that stacks elements.
    fn batch_size(&self) -> Option<u64> {
        None
    }

    /// Returns whether the operation ignores the errors of the operations below it.
    fn ignores_errors(&self) -> bool {
        false
    }

    /// Makes the operation yield the same elements in the same order on all workers. An operation without a
    /// seed draws with `seed`.
    fn draw_alike(&mut self, seed: u64) {
        let _ = seed;
    }

    /// Makes the operation repeat its draws in every pass and epoch. Returns whether the operation draws at
    /// all.
    fn fix_draws(&mut self) -> bool {
        false
    }

    /// Gives the operation a separate place for the elements that it keeps for share `index` of `count`
    /// shares.
    fn take_share(&mut self, index: u64, count: u64) {
        let _ = (index, count);
    }

    /// Returns whether the operation, or an operation of its functions, reads the files whose paths are its
    /// input.
    fn reads_files(&self) -> bool {
        let within = |graph: &Graph| graph.nodes().iter().any(|node| node.op.reads_files());
        self.graphs().iter().any(|(graph, _)| within(graph))
    }

    /// Returns whether the operation reads files whose columns are not declared.
    fn lacks_columns(&self) -> bool {
        false
    }

    /// Returns the parameters of the function or source registered as `name`, if the operation calls it.
    fn params_mut(&mut self, name: &str) -> Option<&mut Params> {
        let _ = name;
        None
    }

    /// Returns the name of the registered function or source that the operation calls; `None` without one.
    fn registered_name(&self) -> Option<&str> {
        None
    }

    /// Writes the signatures of registered functions into the operation.
    ///
    /// # Errors
    /// The errors of [`Graph::facts`].
    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        for graph in self.graphs_mut() {
            resolution.resolve(graph, resolution.input())?;
        }
        Ok(())
    }

    /// Returns the name and the parameters for people, truncated if they are long.
    fn label(&self) -> String {
        let parameters = if self.graphs().is_empty() {
            label::parameters(&self)
        } else {
            String::new()
        };
        label::label(self.name(), &parameters)
    }
}

/// Comparison and copying of an operation whose type is erased. The blanket implementation covers every
/// operation.
pub trait Comparable: Any {
    /// Returns whether `other` has the same type and an equal value.
    fn equals(&self, other: &dyn Any) -> bool;

    /// Returns a copy of the operation.
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

/// One operation of a graph. Copies share the operation until one copy is changed.
#[derive(Clone)]
pub struct Op(Arc<dyn Operation>);

impl Op {
    /// Wraps an operation.
    pub fn new(operation: impl Operation) -> Op {
        Op(Arc::new(operation))
    }

    /// Returns the operation if it has the type `T`.
    pub fn of<T: Operation>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Returns whether the operation has the type `T`.
    pub fn is<T: Operation>(&self) -> bool {
        self.of::<T>().is_some()
    }

    /// Returns the operation for changes if it has the type `T`.
    pub fn of_mut<T: Operation>(&mut self) -> Option<&mut T> {
        if self.is::<T>() {
            (self.change() as &mut dyn Any).downcast_mut()
        } else {
            None
        }
    }

    /// Returns the operation for changes. A shared operation is copied first.
    pub fn change(&mut self) -> &mut dyn Operation {
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = self.0.copied();
        }
        Arc::get_mut(&mut self.0).expect("a copy has one owner")
    }

    /// Returns the graph that the operation opens as a dataset, for each element, for each window, or once.
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

/// The role of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The graph is an independent dataset.
    Dataset,
    /// The graph is the body of a function that makes a dataset from its argument.
    Function,
    /// The graph is the body of a function that makes one value from its argument, and consists of maps.
    Value,
}

/// The inputs of an operation under analysis.
pub struct Given<'a> {
    /// The name of the operation.
    pub(crate) op: &'static str,
    /// The registry with the signatures of registered functions.
    pub(crate) registry: &'a dyn Registry,
    /// The spec of each input. A source in a function has the spec of the function's argument here.
    pub(crate) specs: SmallVec<[&'a ElementSpec; 1]>,
    /// The number of elements of each input; empty while the specs are inferred.
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
    /// Returns the spec of the first input.
    ///
    /// # Errors
    /// [`AnalysisError::Mismatch`] if the operation has no input, which the check of a graph excludes.
    pub fn input(&self) -> Result<&ElementSpec, AnalysisError> {
        self.specs.first().copied().ok_or_else(|| self.nothing())
    }

    /// Returns the number of elements of the first input.
    ///
    /// # Errors
    /// The errors of [`Given::input`].
    pub fn count(&self) -> Result<Cardinality, AnalysisError> {
        self.counts.first().copied().ok_or_else(|| self.nothing())
    }

    /// Returns the error of an operation that cannot take its input.
    pub fn mismatch(&self, reason: impl Into<String>) -> AnalysisError {
        AnalysisError::Mismatch {
            op: self.op.to_owned(),
            reason: reason.into(),
        }
    }

    /// Returns the error of an operation whose elements would exceed a limit.
    pub fn not_allowed(&self, reason: impl fmt::Display) -> AnalysisError {
        AnalysisError::Spec {
            op: self.op.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Returns the spec of a single scalar.
    ///
    /// # Errors
    /// [`AnalysisError::Spec`], which never occurs for a scalar.
    pub fn scalar(&self, dtype: Dtype) -> Result<ElementSpec, AnalysisError> {
        ElementSpec::single(TensorSpec::scalar(dtype)).map_err(|error| self.not_allowed(error))
    }

    fn nothing(&self) -> AnalysisError {
        self.mismatch("expected an input, found none")
    }
}

/// The context in which signatures are written into an operation.
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
    /// Returns the registry with the signatures of registered functions.
    pub fn registry(&self) -> &'a dyn Registry {
        self.registry
    }

    /// Returns the spec of the first input; `None` for a source.
    pub fn input(&self) -> Option<&'a ElementSpec> {
        self.input
    }

    /// Returns the spec of the operation's elements.
    pub fn output(&self) -> &'a ElementSpec {
        self.output
    }

    /// Returns the input of the operation `op` as [`Given`], for the inference of its output; `None` for a
    /// source.
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
