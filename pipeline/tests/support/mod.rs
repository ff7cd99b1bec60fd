//! Support for the tests: registered functions, random chains of operations, and the naive model of the
//! chains.

#[cfg(feature = "images")]
pub(crate) mod jpeg;

#[cfg_attr(
    not(feature = "csv"),
    expect(dead_code, reason = "most formats are cargo features")
)]
pub(crate) mod files;
#[cfg(all(
    feature = "arrow",
    feature = "csv",
    feature = "images",
    feature = "json",
    feature = "mds",
    feature = "numpy",
    feature = "records",
    feature = "sqlite",
    feature = "webdataset"
))]
mod format_samples;
mod functions;
mod naive;
mod rendered;
#[cfg(all(
    feature = "arrow",
    feature = "csv",
    feature = "images",
    feature = "json",
    feature = "mds",
    feature = "numpy",
    feature = "records",
    feature = "saved",
    feature = "sqlite",
    feature = "webdataset"
))]
pub(crate) mod samples;

use std::sync::Arc;

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{ExecContext, Executor, Item, Pool, Tensor, Value};
use millstream_pipeline::graph::{Constant, ConstantTensor, Dataset, Graph, Params, Window, col};
use proptest::prelude::*;

pub(crate) use functions::functions;
pub(crate) use naive::model_step;
pub(crate) use rendered::rendered;

/// An element in the naive model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Model {
    Scalar(i64),
    Rows(Vec<Model>),
}

/// One operation of a random chain.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Add {
        amount: i64,
        parallel: Option<u32>,
    },
    KeepIfSumModulo {
        modulus: i64,
        rest: i64,
    },
    /// `Add` with an expression.
    AddExpr(i64),
    /// `KeepIfSumModulo` with an expression.
    KeepExpr {
        modulus: i64,
        rest: i64,
    },
    Batch {
        size: u64,
        drop_remainder: bool,
    },
    Unbatch,
    /// A batch of the size `batch`, followed by a rebatch.
    Rebatch {
        batch: u64,
        sizes: Vec<u64>,
        drop_remainder: bool,
    },
    Repeat(u64),
    ShuffleAndRepeat {
        buffer: u64,
        count: u64,
        seed: u64,
    },
    /// The remainder of the sum of every element, without repetitions.
    Unique(i64),
    /// A map that fails if the sum is a multiple of `modulus`, followed by `ignore_errors`.
    Ignore {
        modulus: i64,
        parallel: Option<u32>,
    },
    Measured,
    Cache,
    /// A scan that adds every element to a state, and yields the earlier state plus twice the element.
    Scan(i64),
    /// A reduction to the sum of all elements and this number.
    Reduce(i64),
    Take(u64),
    Skip(u64),
    Shard {
        count: u64,
        index: u64,
    },
    /// An enumeration whose numbers are added to the elements.
    Enumerate(i64),
    Prefetch(u64),
    Shuffle {
        buffer: u64,
        seed: u64,
    },
    FlatMap(Vec<Step>),
    /// Windows of elements whose sums have the same remainder.
    GroupByWindow {
        modulus: i64,
        size: u64,
        steps: Vec<Step>,
    },
    Window {
        window: Window,
        steps: Vec<Step>,
    },
    TakeWhileSumBelow(i64),
    /// `TakeWhileSumBelow` with an expression.
    TakeWhileExpr(i64),
    Interleave {
        length: u64,
        block: u64,
        parallel: u32,
        steps: Vec<Step>,
    },
    /// A zip with another chain, whose elements are added.
    Zip(Chain),
    Concatenate(Chain),
    /// A choice between this chain (index 0) and another chain (index 1), by the remainders of a range.
    Choose {
        choices: i64,
        repeat: Option<u64>,
        other: Chain,
        stop_on_empty: bool,
    },
    Sample {
        seed: u64,
        other: Chain,
    },
}

pub(crate) fn pool() -> Arc<Pool> {
    Arc::new(Pool::new(2).unwrap())
}

/// Returns a context that reads the whole dataset.
pub(crate) fn context() -> ExecContext {
    ExecContext::new(1, Arc::new(functions()), pool())
}

pub(crate) fn open(graph: &Graph) -> Executor {
    Executor::open(graph, context()).unwrap()
}

/// Returns all elements of the executor in the form of the model.
pub(crate) fn drain(executor: &mut Executor) -> Vec<Model> {
    let mut all = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        all.push(model_of(&item.value));
    }
    assert!(
        executor.next().unwrap().is_none(),
        "expected no element after the end"
    );
    all
}

/// Converts an `i64` element of any rank to the form of the model.
pub(crate) fn model_of(value: &Value) -> Model {
    fn rows(dims: &[u64], items: &mut dyn Iterator<Item = i64>) -> Model {
        match dims.split_first() {
            None => Model::Scalar(items.next().unwrap()),
            Some((count, rest)) => Model::Rows((0..*count).map(|_| rows(rest, items)).collect()),
        }
    }
    let tensor = value[0].settled().unwrap();
    let items = tensor
        .contiguous()
        .unwrap()
        .chunks_exact(8)
        .map(|item| i64::from_le_bytes(item.try_into().unwrap()));
    rows(tensor.dims(), &mut items.collect::<Vec<_>>().into_iter())
}

pub(crate) fn sum(model: &Model) -> i64 {
    match model {
        Model::Scalar(value) => *value,
        Model::Rows(rows) => rows.iter().map(sum).sum(),
    }
}

/// Appends `step` to a dataset.
pub(crate) fn extended(dataset: Dataset, step: &Step) -> Dataset {
    match step {
        Step::Add {
            amount,
            parallel: None,
        } => dataset.map("add", Params::encode(amount).unwrap()),
        Step::Add {
            amount,
            parallel: Some(threads),
        } => dataset
            .map("add", Params::encode(amount).unwrap())
            .parallel(*threads),
        Step::KeepIfSumModulo { modulus, rest } => {
            dataset.filter("keep", Params::encode(&(*modulus, *rest)).unwrap())
        }
        Step::AddExpr(amount) => dataset.map_expr(col("") + *amount),
        Step::KeepExpr { modulus, rest } => {
            dataset.filter_expr((col("").sum([], false) % *modulus).eq(*rest))
        }
        Step::TakeWhileExpr(bound) => dataset.take_while_expr(col("").sum([], false).lt(*bound)),
        Step::Batch { size, drop_remainder } => dataset.batch(*size, *drop_remainder),
        Step::Unbatch => dataset.unbatch(),
        Step::Rebatch {
            batch,
            sizes,
            drop_remainder,
        } => dataset
            .batch(*batch, false)
            .rebatch_sizes(sizes.clone(), *drop_remainder),
        Step::ShuffleAndRepeat { buffer, count, seed } => {
            dataset.shuffle_and_repeat(*buffer, Some(*count), Some(*seed))
        }
        Step::Unique(modulus) => dataset.map("key", Params::encode(modulus).unwrap()).unique(),
        Step::Ignore { modulus, parallel } => {
            let failing = dataset.map("fails", Params::encode(modulus).unwrap());
            match parallel {
                Some(threads) => failing.parallel(*threads).prefetch(2).ignore_errors(false),
                None => failing.ignore_errors(true),
            }
        }
        Step::Measured => dataset.statistics("here"),
        Step::Cache => dataset.cache(),
        Step::Scan(initial) => dataset.scan(constant(*initial), |both| both.map("running", Params::none())),
        Step::Reduce(initial) => dataset.reduce(constant(*initial), |both| both.map("total", Params::none())),
        Step::Repeat(count) => dataset.repeat(Some(*count)),
        Step::Take(count) => dataset.take(*count),
        Step::Skip(count) => dataset.skip(*count),
        Step::Shard { count, index } => dataset.shard(*count, *index),
        Step::Enumerate(start) => dataset.enumerate(*start).map("total", Params::none()),
        Step::Prefetch(buffer) => dataset.prefetch(*buffer),
        Step::Shuffle { buffer, seed } => dataset.shuffle(*buffer, Some(*seed)),
        Step::FlatMap(steps) => dataset.flat_map(|argument| steps.iter().fold(argument, extended)),
        Step::Interleave { .. }
        | Step::GroupByWindow { .. }
        | Step::Window { .. }
        | Step::Concatenate(_)
        | Step::Choose { .. }
        | Step::Sample { .. }
        | Step::Zip(_) => combined(dataset, step),
        Step::TakeWhileSumBelow(bound) => dataset.take_while("below", Params::encode(bound).unwrap()),
    }
}

/// Appends a step that contains other steps or chains.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the caller handles all other steps"
)]
fn combined(dataset: Dataset, step: &Step) -> Dataset {
    match step {
        Step::Interleave {
            length,
            block,
            parallel,
            steps,
        } => dataset
            .interleave(*length, *block, |argument| steps.iter().fold(argument, extended))
            .parallel(*parallel),
        Step::GroupByWindow { modulus, size, steps } => dataset.group_by_window(
            |element| element.map("key", Params::encode(modulus).unwrap()),
            *size,
            |window| steps.iter().fold(window, extended),
        ),
        Step::Window { window, steps } => {
            dataset.window(*window, |window| steps.iter().fold(window, extended))
        }
        Step::Concatenate(other) => dataset.concatenate(other.dataset()),
        Step::Choose {
            choices,
            repeat,
            other,
            stop_on_empty,
        } => Dataset::choose(
            picks(*choices).repeat(*repeat),
            [dataset, other.dataset()],
            *stop_on_empty,
        ),
        Step::Sample { seed, other } => {
            Dataset::sample([(1.0, dataset), (0.5, other.dataset())], Some(*seed), false)
        }
        Step::Zip(other) => Dataset::zip([dataset, other.dataset()]).map("total", Params::none()),
        _ => panic!("expected a step with other steps or chains, found {step:?}"),
    }
}

/// Returns a dataset of `count` indices: 0, 1, 0, 0, 1, 0, …
fn picks(count: i64) -> Dataset {
    let modulo = |modulus: i64| Params::encode(&modulus).unwrap();
    Dataset::range(0, count, 1)
        .map("modulo", modulo(3))
        .map("modulo", modulo(2))
}

/// The steps that a test allows in its chains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed {
    /// Whether operations that shuffle are allowed.
    pub(crate) shuffle: bool,
    /// Whether operations are allowed whose result depends on the order or the number of a task's
    /// elements: batch, take, skip, shard.
    pub(crate) counting: bool,
    /// Whether `repeat` is allowed.
    pub(crate) repeat: bool,
}

/// Returns steps whose result depends on the order or the number of a task's elements.
fn counting_steps() -> Vec<BoxedStrategy<Step>> {
    let reduce = || prop::collection::vec(inner_step(), 0..3);
    vec![
        (1i64..4, 1u64..5, reduce())
            .prop_map(|(modulus, size, steps)| Step::GroupByWindow { modulus, size, steps })
            .boxed(),
        (1u64..4, 1u64..4, 1u64..3, any::<bool>(), reduce())
            .prop_map(|(size, shift, stride, drop_remainder, steps)| Step::Window {
                window: Window {
                    size,
                    shift,
                    stride,
                    drop_remainder,
                },
                steps,
            })
            .boxed(),
        (0i64..60).prop_map(Step::TakeWhileSumBelow).boxed(),
        (0i64..60).prop_map(Step::TakeWhileExpr).boxed(),
        (1u64..6, any::<bool>())
            .prop_map(|(size, drop_remainder)| Step::Batch { size, drop_remainder })
            .boxed(),
        (1u64..6, prop::collection::vec(1u64..6, 1..3), any::<bool>())
            .prop_map(|(batch, sizes, drop_remainder)| Step::Rebatch {
                batch,
                sizes,
                drop_remainder,
            })
            .boxed(),
        (1i64..9).prop_map(Step::Unique).boxed(),
        (-5i64..5).prop_map(Step::Scan).boxed(),
        Just(Step::Cache).boxed(),
        (-5i64..5).prop_map(Step::Reduce).boxed(),
        (0u64..40).prop_map(Step::Take).boxed(),
        (0u64..20).prop_map(Step::Skip).boxed(),
        (-5i64..5).prop_map(Step::Enumerate).boxed(),
        (1u64..5, 0u64..5)
            .prop_map(|(count, index)| Step::Shard {
                count,
                index: index % count,
            })
            .boxed(),
    ]
}

/// Draws a step. Steps that `allowed` excludes are never drawn.
pub(crate) fn step(allowed: Allowed) -> BoxedStrategy<Step> {
    let mut steps: Vec<BoxedStrategy<Step>> = vec![
        (-5i64..5, prop::option::of(0u32..4))
            .prop_map(|(amount, parallel)| Step::Add { amount, parallel })
            .boxed(),
        (1i64..4, 0i64..3)
            .prop_map(|(modulus, rest)| Step::KeepIfSumModulo { modulus, rest })
            .boxed(),
        (-5i64..5).prop_map(Step::AddExpr).boxed(),
        (1i64..4, 0i64..3)
            .prop_map(|(modulus, rest)| Step::KeepExpr { modulus, rest })
            .boxed(),
        (1u64..4).prop_map(Step::Prefetch).boxed(),
        (1i64..4, prop::option::of(0u32..4))
            .prop_map(|(modulus, parallel)| Step::Ignore { modulus, parallel })
            .boxed(),
        Just(Step::Measured).boxed(),
        prop::collection::vec(inner_step(), 0..3)
            .prop_map(Step::FlatMap)
            .boxed(),
        (
            1u64..5,
            1u64..4,
            0u32..4,
            prop::collection::vec(inner_step(), 0..3),
        )
            .prop_map(|(length, block, parallel, steps)| Step::Interleave {
                length,
                block,
                parallel,
                steps,
            })
            .boxed(),
    ];
    if allowed.repeat {
        steps.push((0u64..4).prop_map(Step::Repeat).boxed());
    }
    if allowed.counting {
        steps.extend(counting_steps());
    }
    if allowed.shuffle {
        steps.push(
            (1u64..20, 0u64..1000)
                .prop_map(|(buffer, seed)| Step::Shuffle { buffer, seed })
                .boxed(),
        );
        if allowed.repeat {
            steps.push(
                (1u64..20, 0u64..4, 0u64..1000)
                    .prop_map(|(buffer, count, seed)| Step::ShuffleAndRepeat { buffer, count, seed })
                    .boxed(),
            );
        }
    }
    prop::strategy::Union::new(steps).boxed()
}

/// Draws a step that also reads another chain.
fn combining_step(allowed: Allowed) -> BoxedStrategy<Step> {
    let mut steps = vec![side().prop_map(Step::Concatenate).boxed()];
    if allowed.counting {
        steps.push(side().prop_map(Step::Zip).boxed());
        steps.push(
            (0i64..40, prop::option::of(0u64..3), side(), any::<bool>())
                .prop_map(|(choices, repeat, other, stop_on_empty)| Step::Choose {
                    choices,
                    repeat,
                    other,
                    // A single choice repeated without end would choose the ended input forever.
                    stop_on_empty: stop_on_empty || choices == 1,
                })
                .boxed(),
        );
    }
    if allowed.shuffle {
        steps.push(
            (0u64..1000, side())
                .prop_map(|(seed, other)| Step::Sample { seed, other })
                .boxed(),
        );
    }
    prop::strategy::Union::new(steps).boxed()
}

/// Draws a chain that another chain reads as well. No step of the chain depends on the order or the
/// number of a task's elements.
fn side() -> BoxedStrategy<Chain> {
    let step = prop_oneof![
        (-5i64..5).prop_map(|amount| Step::Add {
            amount,
            parallel: None
        }),
        (0u64..3).prop_map(Step::Repeat),
        (1u64..3).prop_map(Step::Prefetch),
    ];
    (0i64..20, prop::collection::vec(step, 0..3))
        .prop_map(|(count, steps)| Chain { count, steps })
        .boxed()
}

/// Draws a step for the body of a `flat_map`.
fn inner_step() -> BoxedStrategy<Step> {
    prop_oneof![
        (-5i64..5).prop_map(|amount| Step::Add {
            amount,
            parallel: None
        }),
        (0u64..3).prop_map(Step::Repeat),
        (0u64..3).prop_map(Step::Take),
        (1u64..3).prop_map(Step::Prefetch),
    ]
    .boxed()
}

/// A chain of steps over a range, with its naive model. Every batch except the last step's is taken
/// apart again, because ragged batches do not stack.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) count: i64,
    pub(crate) steps: Vec<Step>,
}

impl Chain {
    pub(crate) fn dataset(&self) -> Dataset {
        self.steps.iter().fold(Dataset::range(0, self.count, 1), extended)
    }

    pub(crate) fn graph(&self) -> Graph {
        self.dataset().graph().unwrap()
    }

    pub(crate) fn model(&self) -> Vec<Model> {
        self.steps
            .iter()
            .fold((0..self.count).map(Model::Scalar).collect(), model_step)
    }
}

pub(crate) fn chain(allowed: Allowed, counts: std::ops::Range<i64>) -> BoxedStrategy<Chain> {
    let step = prop_oneof![4 => step(allowed), 1 => combining_step(allowed)];
    (counts, prop::collection::vec(step, 0..6))
        .prop_map(|(count, steps)| {
            let last = steps.len();
            let mut taken_apart = Vec::new();
            for (index, step) in steps.into_iter().enumerate() {
                let is_batch = matches!(step, Step::Batch { .. } | Step::Rebatch { .. });
                taken_apart.push(step);
                if is_batch && index + 1 < last {
                    taken_apart.push(Step::Unbatch);
                }
            }
            Chain {
                count,
                steps: taken_apart,
            }
        })
        .boxed()
}

/// Returns the spec of an `i64` scalar.
pub(crate) fn scalar() -> ElementSpec {
    ElementSpec::single(TensorSpec::scalar(Dtype::I64)).unwrap()
}

/// Returns an `i64` scalar as a constant of a graph.
pub(crate) fn constant(value: i64) -> Constant {
    Constant::new(scalar(), vec![ConstantTensor::fixed(value.to_le_bytes())])
}

/// Returns the value of an item that is one `i64` scalar.
pub(crate) fn number(item: &Item) -> i64 {
    item.value[0].as_i64().unwrap()
}

/// Returns the bytes of a scalar string component.
pub(crate) fn text(tensor: &Tensor) -> &[u8] {
    assert!(
        tensor.dims().is_empty() && tensor.dtype() == Dtype::String,
        "expected a scalar string"
    );
    tensor.contiguous().unwrap()
}

/// A word tokeniser in JSON. The ids of "a" and "b" are 1 and 2, other words have the id 0, and every
/// text begins with the id 3.
#[cfg(feature = "tokenise")]
pub(crate) const WORDS: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "decoder": null,
    "added_tokens": [{
        "id": 3, "content": "[BOS]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true
    }],
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[BOS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[BOS]": {"id": "[BOS]", "ids": [3], "tokens": ["[BOS]"]}}
    },
    "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "b": 2, "[BOS]": 3}}
}"#;
