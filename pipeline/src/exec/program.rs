//! A graph ready to be executed: specs inferred, functions prepared, files listed, once; opened as a tree of
//! operations as often as needed, for a function's body once per element.

use std::ops::Deref;
use std::sync::Arc;

use millstream_element::ElementSpec;
use thiserror::Error;

use crate::graph::{
    AnalysisError, Files, FlatMap, Function, Graph, Grouping, ImageFunction, Op, Predicate, SourceSignature,
    TensorSlices, Tensors, WindowSize, component, node_specs, source_signature,
};
use crate::plan::{PlanError, SourcePlan, SplitPlan, listed};
use crate::storage::Storage;

use super::call::{Call, Chain};
use super::context::Shared;
use super::error::{ErrorKind, ExecError};
use super::expr::Verdict;
use super::format;
use super::functions::{Functions, OpenService, PreparedSitedFlatMap, PreparedSitedMap, SourceFactory};
use super::keeps::{self, KeptPart};
use super::native;
use super::ops;
use super::value::Tensor;

/// Why a graph cannot be executed.
#[derive(Debug, Clone, Error)]
pub enum OpenError {
    /// It cannot be analysed: a function is unknown, or an operation does not fit its input.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// Its files cannot be listed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A source or a function's body cannot be opened.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// It is to be fed splits, and cannot be.
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
    /// It needs a feature this build does not have.
    #[error("operation {op:?} is not built in: build with the feature {feature:?}")]
    Feature {
        /// The operation.
        op: &'static str,
        /// The feature.
        feature: &'static str,
    },
    /// It has a `shard` without numbers, and nobody has put any there.
    #[error(
        "the dataset has a shard hint, which only the sharding policy `hint` gives its numbers: read it under that policy, \
         or say which shard with shard(count, index)"
    )]
    ShardHint,
    /// It reads a service, and this process has no reader for one.
    #[error("the dataset reads a service, and no service reader is provided here")]
    NoServiceReader,
}

/// Where the files of a graph's own sources are known from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FilesOf<'p> {
    /// The iteration's plan.
    Plan(&'p SplitPlan),
    /// The splits: each brings its own. Listing them again could find others.
    Splits,
    /// Nobody yet: they are listed here, as those in the bodies of functions always are.
    Disk,
}

/// What a graph is prepared with: the functions, and where files are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Means<'m> {
    pub(crate) functions: &'m Functions,
    pub(crate) storage: &'m Storage,
}

impl Deref for Means<'_> {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        self.functions
    }
}

/// A graph ready to be opened.
pub(crate) struct Program {
    pub(super) graph: Graph,
    pub(super) specs: Vec<ElementSpec>,
    /// What was prepared for each node.
    pub(super) parts: Vec<Part>,
}

/// What an operation needs beside its parameters.
pub(super) enum Part {
    /// Nothing.
    None,
    /// The tensors of `tensors` and `tensor_slices`.
    Tensors(Vec<Tensor>),
    /// The files of `files`.
    Listing(Arc<[String]>),
    /// The files of `files` come with the splits.
    Dealt,
    /// The factory of a registered source.
    Source(Arc<dyn SourceFactory>, SourceSignature),
    /// The factory of the service reader.
    Service(Arc<OpenService>),
    /// The predicate of a `filter` or `take_while`.
    Predicate(ops::Test),
    /// The native function of a `map`.
    Native(Arc<dyn Call>),
    /// The registered function of a `map`.
    Function(PreparedSitedMap),
    /// The body of a `flat_map`, `interleave` or `window`, the numbers of a `choose`, the length of a bucket.
    Body(Arc<Program>),
    /// The key, the reduction and the window size of a `group_by_window`.
    Grouping {
        key: Arc<Program>,
        reduce: Arc<Program>,
        size: Option<Arc<Program>>,
    },
    /// What a `snapshot` is of, and its functions.
    Kept(KeptPart),
    /// The registered function of a `flat_map` or `interleave`.
    FlatMap(PreparedSitedFlatMap),
}

impl Program {
    /// Prepares `graph`. Blocks on storage where its files are to be listed.
    pub(crate) fn prepare(
        graph: &Graph,
        functions: &Means<'_>,
        argument: Option<&ElementSpec>,
        files: FilesOf<'_>,
    ) -> Result<Program, OpenError> {
        let specs = node_specs(graph, &**functions, argument)?;
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
            let input = node.inputs.first().map(|input| &specs[*input as usize]);
            parts.push(if let (Op::Kept(kept), Some(input)) = (&node.op, input) {
                check_runs(&node.op)?;
                Part::Kept(keeps::prepare(kept, graph, index, functions, input)?)
            } else if let Op::Files(wanted) = &node.op {
                let place = sources.iter().position(|source| *source == index);
                files_part(wanted, files, place, functions.storage)?
            } else {
                part(&node.op, functions, input, &specs[index])?
            });
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
        Box::new(
            self.parts
                .iter()
                .flat_map(|part| -> Box<dyn Iterator<Item = &str>> {
                    match part {
                        Part::Listing(paths) => Box::new(paths.iter().map(String::as_str)),
                        Part::Body(body) | Part::Grouping { reduce: body, .. } => body.listings(),
                        Part::None
                        | Part::Tensors(_)
                        | Part::Dealt
                        | Part::Source(..)
                        | Part::Service(_)
                        | Part::Predicate(_)
                        | Part::Native(_)
                        | Part::Kept(_)
                        | Part::Function(_)
                        | Part::FlatMap(_) => Box::new(std::iter::empty()),
                    }
                }),
        )
    }

    /// What the graph yields.
    pub(crate) fn spec(&self) -> &ElementSpec {
        &self.specs[self.graph.output()]
    }

    /// All of it as one call: of the body of a function that is maps alone.
    pub(super) fn chain(&self, shared: &Shared) -> Result<Chain, ExecError> {
        let nodes = self.graph.nodes().iter().enumerate();
        let maps = nodes.filter(|(_, node)| matches!(node.op, Op::Map(..)));
        self.calls(&maps.map(|(node, _)| node).collect::<Vec<_>>(), shared)
    }

    /// The map function at `node` as a call.
    pub(super) fn call(
        &self,
        node: usize,
        function: &Function,
        shared: &Shared,
    ) -> Result<Box<dyn Call>, ExecError> {
        let input = self.graph.nodes()[node]
            .inputs
            .first()
            .map(|input| &self.specs[*input as usize]);
        let input = input.ok_or_else(|| unprepared(function.op_name()))?;
        let place = |name: &str| {
            component(function.op_name(), input, name)
                .map_err(|error| ExecError::new(ErrorKind::Caller, function.op_name(), error.to_string()))
        };
        Ok(match function {
            Function::Registered(registered) => {
                let Part::Function(prepared) = &self.parts[node] else {
                    return Err(unprepared("map"));
                };
                Box::new(ops::RegisteredCall {
                    name: registered.name.clone(),
                    call: Arc::clone(&prepared.call),
                    output: self.specs[node].clone(),
                    seeds: shared.seeds(self.drawn(node), None),
                    cancel: shared.cancel.clone(),
                })
            }
            Function::Native(native) => {
                let Part::Native(call) = &self.parts[node] else {
                    return Err(unprepared(native.op_name()));
                };
                Box::new(native::Shared(Arc::clone(call)))
            }
            Function::Image(image) => image_call(self.drawn(node), image, place(image.component())?, shared)?,
        })
    }
}

#[cfg(feature = "images")]
fn image_call(
    node: usize,
    function: &ImageFunction,
    component: usize,
    shared: &Shared,
) -> Result<Box<dyn Call>, ExecError> {
    super::image::call(node, function, component, shared)
}

#[cfg(not(feature = "images"))]
fn image_call(_: usize, function: &ImageFunction, _: usize, _: &Shared) -> Result<Box<dyn Call>, ExecError> {
    Err(unprepared(function.op_name()))
}

/// A preparation that does not match its node: ours to fix.
pub(super) fn unprepared(op: &str) -> ExecError {
    ExecError::new(ErrorKind::Internal, op, "was not prepared")
}

/// The files of the source `wanted`, which is number `place` of its graph.
fn files_part(
    wanted: &Files,
    files: FilesOf<'_>,
    place: Option<usize>,
    storage: &Storage,
) -> Result<Part, OpenError> {
    let plan = match files {
        FilesOf::Splits => return Ok(Part::Dealt),
        FilesOf::Disk => None,
        FilesOf::Plan(plan) => place.and_then(|place| plan.sources.get(place)),
    };
    let Some(SourcePlan::Listed { items }) = plan else {
        let found = listed(wanted, storage)?;
        return Ok(Part::Listing(found.into_iter().map(|file| file.path).collect()));
    };
    let paths: Result<Vec<String>, _> = items.iter().cloned().map(String::from_utf8).collect();
    let refused = |_| {
        let message = "the plan lists a path that is not UTF-8";
        ExecError::new(ErrorKind::Peer, "files", message)
    };
    Ok(Part::Listing(paths.map_err(refused)?.into()))
}

/// What the operation `op` needs, which is given elements of `input` and yields `output`.
fn part(
    op: &Op,
    functions: &Means<'_>,
    input: Option<&ElementSpec>,
    output: &ElementSpec,
) -> Result<Part, OpenError> {
    check_runs(op)?;
    let input = || input.ok_or_else(|| unprepared(op.name()));
    Ok(match op {
        Op::Tensors(Tensors { constant }) | Op::TensorSlices(TensorSlices { constant }) => {
            let tensors = ops::tensors(constant);
            let refused = |reason| ExecError::new(ErrorKind::Caller, op.name(), reason);
            Part::Tensors(tensors.map_err(refused)?)
        }
        Op::Source(source) => {
            let factory = functions.source_factory(&source.name)?;
            Part::Source(factory, source_signature(source, &**functions)?)
        }
        Op::Service(_) => Part::Service(functions.service().ok_or(OpenError::NoServiceReader)?),
        Op::Map(Function::Registered(registered), _) => {
            let prepared = functions.prepare_map(&registered.name, &registered.params, input()?)?;
            check_declared(&registered.name, output, &prepared.output)?;
            Part::Function(prepared)
        }
        Op::Map(Function::Native(of), _) => Part::Native(native::prepare(of, input()?, functions.storage)?),
        Op::Filter(predicate) | Op::TakeWhile(predicate) => {
            Part::Predicate(test(predicate, functions, input()?)?)
        }
        Op::FlatMap(FlatMap::Graph(body))
        | Op::Interleave(FlatMap::Graph(body), _)
        | Op::Window(body, _)
        | Op::Bucket(body, _) => Part::Body(body_of(body, functions, Some(input()?))?),
        Op::FlatMap(FlatMap::Registered(registered)) | Op::Interleave(FlatMap::Registered(registered), _) => {
            let prepared = functions.prepare_flat_map(&registered.name, &registered.params, input()?)?;
            check_declared(&registered.name, output, &prepared.output)?;
            Part::FlatMap(prepared)
        }
        Op::Fold(fold) => {
            let argument = fold.argument(functions.functions, input()?)?;
            Part::Body(body_of(fold.function(), functions, Some(&argument))?)
        }
        Op::GroupByWindow(grouping) => grouping_part(grouping, functions, input()?)?,
        Op::Choose(choices, _) => Part::Body(body_of(choices, functions, None)?),
        Op::Map(..)
        | Op::Read(_)
        | Op::Range(_)
        | Op::Counter(_)
        | Op::Random(_)
        | Op::Files(_)
        | Op::Argument
        | Op::Batch(_)
        | Op::PaddedBatch(_)
        | Op::RaggedBatch(_)
        | Op::Unbatch
        | Op::Shuffle(_)
        | Op::Repeat(_)
        | Op::Take(_)
        | Op::Skip(_)
        | Op::Shard(_)
        | Op::Enumerate(_)
        | Op::Prefetch(_)
        | Op::Options(_)
        | Op::Step(_)
        | Op::Kept(_)
        | Op::Zip(_)
        | Op::Concatenate
        | Op::Sample(_) => Part::None,
    })
}

/// The predicate of a `filter` or `take_while`.
fn test(predicate: &Predicate, functions: &Functions, input: &ElementSpec) -> Result<ops::Test, OpenError> {
    Ok(match predicate {
        Predicate::Registered(registered) => {
            let name = registered.function.clone();
            let call = functions.prepare_filter(&name, &registered.params, input)?;
            ops::Test::Registered(name, call)
        }
        Predicate::Expr(expr) => ops::Test::Expr(Arc::new(Verdict::new(expr, input)?)),
    })
}

/// A graph that an operation has as a parameter, whose files are always listed here.
pub(super) fn body_of(
    graph: &Graph,
    functions: &Means<'_>,
    argument: Option<&ElementSpec>,
) -> Result<Arc<Program>, OpenError> {
    Program::prepare(graph, functions, argument, FilesOf::Disk).map(Arc::new)
}

fn grouping_part(grouping: &Grouping, functions: &Means<'_>, input: &ElementSpec) -> Result<Part, OpenError> {
    let key = body_of(&grouping.key, functions, Some(input))?;
    let reduce = body_of(&grouping.reduce, functions, Some(input))?;
    let size = match &grouping.size {
        WindowSize::Fixed(_) => None,
        WindowSize::ByKey(size) => Some(body_of(size, functions, Some(key.spec()))?),
    };
    Ok(Part::Grouping { key, reduce, size })
}

/// Refuses what nobody can run as it is, and what this build cannot.
fn check_runs(op: &Op) -> Result<(), OpenError> {
    let without = |feature| OpenError::Feature {
        op: op.name(),
        feature,
    };
    if let Op::Map(Function::Image(_), _) = op
        && !cfg!(feature = "images")
    {
        return Err(without("images"));
    }
    if let Op::Map(Function::Native(native), _) = op
        && let Some(feature) = native::missing_feature(native)
    {
        return Err(without(feature));
    }
    if let Op::Read(format) = op
        && let Some(feature) = format::missing_feature(format)
    {
        return Err(without(feature));
    }
    if let Op::Kept(kept) = op
        && kept.is_in_files()
        && !cfg!(feature = "saved")
    {
        return Err(without("saved"));
    }
    if let Op::Shard(shard) = op
        && shard.count.is_none()
    {
        return Err(OpenError::ShardHint);
    }
    Ok(())
}

/// What a graph declares of a function must be what the function says.
fn check_declared(name: &str, declared: &ElementSpec, actual: &ElementSpec) -> Result<(), AnalysisError> {
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
