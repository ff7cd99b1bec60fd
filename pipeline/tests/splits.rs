//! Tests of workers that share a pool of splits: they yield each element once, and finish every lease.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_pipeline::exec::{
    ExecContext, ExecError, Executor, FinishedSplit, Item, Pool, Source, SourceFactory, Split, SplitError,
    SplitSource, Tensor, Value,
};
use millstream_pipeline::graph::{
    Cardinality, Dataset, Graph, Params, SourceSignature, Splitting, Units, Window,
};
use millstream_pipeline::plan::{ListedItem, SourcePlan, SplitPlan, plan_splits};
use millstream_pipeline::storage::Storage;
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Allowed, Model, chain, context, functions, model_of, number, scalar};

const UNCOUNTED: Allowed = Allowed {
    shuffle: true,
    counting: false,
    repeat: true,
};

/// A dispatcher's handling of splits in one process, with one pass at a time, as in tf.data.
#[derive(Clone)]
pub(crate) struct Dealer {
    shared: Arc<parking_lot::Mutex<Dealt>>,
    /// The current pass of each source, according to the latest reply to this worker.
    told: BTreeMap<u32, u64>,
}

struct Dealt {
    plan: SplitPlan,
    /// The current pass of each source, and its next split.
    at: Vec<(u64, u64)>,
    leases: u64,
    questions: u64,
}

impl Dealer {
    pub(crate) fn new(plan: SplitPlan) -> Dealer {
        let at = vec![(0, 0); plan.sources.len()];
        Dealer {
            shared: Arc::new(parking_lot::Mutex::new(Dealt {
                plan,
                at,
                leases: 0,
                questions: 0,
            })),
            told: BTreeMap::new(),
        }
    }

    pub(crate) fn leases(&self) -> u64 {
        self.shared.lock().leases
    }

    fn questions(&self) -> u64 {
        self.shared.lock().questions
    }
}

impl SplitSource for Dealer {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        let mut dealt = self.shared.lock();
        dealt.questions += 1;
        let (mut pass, mut index) = dealt.at[source as usize];
        if repetition > pass {
            (pass, index) = (repetition, 0);
        }
        // A worker learns the progress of other workers only from replies of the dispatcher.
        self.told.insert(source, pass);
        let count = match &dealt.plan.sources[source as usize] {
            SourcePlan::Counted { splits } => *splits,
            SourcePlan::Listed { items } => items.len() as u64,
        };
        if repetition < pass || index == count {
            dealt.at[source as usize] = (pass, index);
            return Ok(None);
        }
        let ListedItem { payload, version } = match &dealt.plan.sources[source as usize] {
            SourcePlan::Counted { .. } => ListedItem::new([]),
            SourcePlan::Listed { items } => items[index as usize].clone(),
        };
        dealt.at[source as usize] = (pass, index + 1);
        let lease = dealt.leases;
        dealt.leases += 1;
        Ok(Some(Split {
            source,
            repetition,
            index,
            lease,
            attempt: 3,
            skipped: false,
            payload,
            version,
        }))
    }

    fn current(&self, source: u32) -> Option<u64> {
        self.told.get(&source).copied()
    }
}

pub(crate) fn fed(graph: &Graph, dealer: &Dealer, task_id: u64) -> Executor {
    let plan = dealer.shared.lock().plan.clone();
    let context = ExecContext {
        task_id,
        plan: Some(plan),
        splits: Some(Box::new(dealer.clone())),
        ..context()
    };
    Executor::open(graph, context).unwrap()
}

pub(crate) fn dealer(graph: &Graph) -> Dealer {
    Dealer::new(plan_splits(graph, &functions(), &Storage::default()).unwrap())
}

/// The account of one worker: the last element of each lease, and the element count when each lease
/// finished.
#[derive(Default)]
struct Account {
    last_seen: BTreeMap<u64, u64>,
    finished: BTreeMap<u64, u64>,
}

impl Account {
    fn saw(&mut self, item: &Item, handed: u64) {
        for mark in &item.marks {
            assert!(
                !self.finished.contains_key(&mark.token.lease()),
                "found an element after its split had finished"
            );
            assert!(mark.from < mark.upto);
            self.last_seen.insert(mark.token.lease(), handed);
        }
    }

    fn finished(&mut self, executor: &mut Executor) {
        let mut finished: Vec<FinishedSplit> = Vec::new();
        executor.finished_splits(&mut finished);
        for split in finished {
            assert_eq!(split.attempt, 3);
            assert_eq!(
                self.finished.insert(split.lease, split.upto),
                None,
                "expected every lease to finish once"
            );
        }
    }

    /// Checks that every lease finished, and only after its last element was yielded.
    fn check(&self) {
        for (lease, handed) in &self.last_seen {
            assert!(
                self.finished.get(lease).is_some_and(|upto| upto >= handed),
                "expected lease {lease} to finish after its last element"
            );
        }
    }
}

/// Runs `workers` workers, interleaved as `turns` states, until all have ended. Returns their elements
/// and all finished leases.
fn run(graph: &Graph, dealer: &Dealer, workers: usize, turns: &[usize]) -> (Vec<Model>, BTreeSet<u64>) {
    let mut executors: Vec<_> = (0..workers)
        .map(|task| (fed(graph, dealer, task as u64), Account::default()))
        .collect();
    let mut ended = vec![false; workers];
    let mut found = Vec::new();
    let mut turn = turns.iter().copied().cycle();
    while ended.contains(&false) {
        let worker = turn.next().unwrap() % workers;
        let worker = (worker..worker + workers)
            .map(|w| w % workers)
            .find(|w| !ended[*w])
            .unwrap();
        let (executor, account) = &mut executors[worker];
        match executor.next().unwrap() {
            Some(item) => {
                account.saw(&item, executor.handed());
                found.push(model_of(&item.value));
            }
            None => ended[worker] = true,
        }
        account.finished(executor);
    }
    let mut finished = BTreeSet::new();
    for (_, account) in &executors {
        account.check();
        for lease in account.finished.keys() {
            assert!(finished.insert(*lease), "lease {lease} finished at two workers");
        }
    }
    (found, finished)
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn workers_finish_every_lease_once(
        chain in chain(UNCOUNTED, 0..60),
        workers in 1usize..5,
        turns in prop::collection::vec(0usize..5, 1..20),
    ) {
        let graph = chain.graph();
        let dealer = dealer(&graph);
        let (mut found, finished) = run(&graph, &dealer, workers, &turns);
        let mut expected = chain.model();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(finished, (0..dealer.leases()).collect::<BTreeSet<_>>());
    }

    #[test]
    fn units_cover_every_position_once(
        positions in prop_oneof![0u64..5000, 1_000_000u64..2_000_000],
        size in prop::option::of(1u64..=4096),
    ) {
        let units = size.map_or(Units::of(positions), |size| Units::sized(positions, size));
        let mut next = 0;
        for index in 0..units.splits() {
            let range = units.range(index).unwrap();
            prop_assert_eq!(range.start, next);
            prop_assert!(!range.is_empty() && range.end - range.start <= size.unwrap_or(4096));
            next = range.end;
        }
        prop_assert_eq!(next, positions);
        prop_assert_eq!(units.range(units.splits()), None);
    }

    #[test]
    fn a_batch_states_its_positions(count in 1i64..5000, size in 1u64..40) {
        let graph = Dataset::range(0, count, 1).batch(size, false).graph().unwrap();
        prop_assert_eq!(graph.facts(&functions()).unwrap().aligned, Ok(()));
        let units = Units::of(count as u64);
        let mut executor = fed(&graph, &dealer(&graph), 0);
        while let Some(item) = executor.next().unwrap() {
            // A single worker takes the splits in order, so lease n is split n.
            let stated: Vec<u64> = item.marks.iter().flat_map(|mark| {
                let start = units.range(mark.token.lease()).unwrap().start;
                start + mark.from..start + mark.upto
            }).collect();
            let Model::Rows(rows) = model_of(&item.value) else { panic!("expected rows in a batch") };
            let rows: Vec<Model> = rows;
            let stated: Vec<_> = stated.into_iter().map(|position| Model::Scalar(position as i64)).collect();
            prop_assert_eq!(stated, rows);
        }
    }
}

#[test]
fn splits_have_the_requested_size() {
    let numbers = || Dataset::range(0, 100, 1);
    let splits = |dataset: Dataset| -> Vec<u64> {
        let graph = dataset.graph().unwrap();
        // The dispatcher and the workers decode the graph in the same way.
        let graph = Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap();
        let facts = graph.facts(&functions()).unwrap();
        let counted = facts.sources.iter().map(|source| match &source.splitting {
            Splitting::Counted(units) => units.splits(),
            Splitting::Listed | Splitting::Whole(_) => panic!("{source:?}"),
        });
        counted.collect()
    };
    assert_eq!(splits(numbers().split_size(1)), [100]);
    assert_eq!(splits(numbers().split_size(30).batch(7, false)), [4]);
    assert_eq!(
        splits(numbers().split_size(50).split_size(20).split_size(40)),
        [5]
    );
    assert_eq!(
        splits(Dataset::zip([numbers().split_size(10), numbers()])),
        [10, 10]
    );
    for positions in [0, 4097] {
        let error = numbers().split_size(positions).graph().unwrap_err().to_string();
        assert!(error.contains("1 to 4096"), "{error}");
    }
    let graph = numbers().split_size(7).batch(3, false).graph().unwrap();
    let (mut found, finished) = run(&graph, &dealer(&graph), 3, &[0, 2, 1, 1]);
    found.sort();
    let rows = found.iter().map(|row| {
        let Model::Rows(rows) = row else {
            panic!("expected rows in a batch, found {row:?}")
        };
        rows.len()
    });
    assert_eq!(
        (rows.sum::<usize>(), finished.len()),
        (100, 15),
        "expected every position once, in 15 splits"
    );
}

#[test]
fn groups_stand_for_all_their_splits() {
    let modulo = || Params::encode(&3i64).unwrap();
    let range = || Dataset::range(0, 60, 1);
    let window = Window {
        size: 4,
        shift: 4,
        stride: 1,
        drop_remainder: false,
    };
    let grouped = range().group_by_window(|element| element.map("key", modulo()), 4, |window| window);
    let reduced = range().window(window, |window| window.batch(3, false).unbatch());
    let ahead = range()
        .interleave(4, 2, |argument| argument)
        .parallel(2)
        .unordered();
    let padded = range().padded_batch(7, false).unbatch();
    for dataset in [grouped, reduced, ahead, padded] {
        let graph = dataset.graph().unwrap();
        let dealer = dealer(&graph);
        let (mut found, finished) = run(&graph, &dealer, 3, &[0, 1, 2, 1]);
        found.sort();
        assert_eq!(found, (0..60).map(Model::Scalar).collect::<Vec<_>>());
        assert_eq!(finished, (0..dealer.leases()).collect::<BTreeSet<_>>());
    }
    let windows = range().window(window, |window| window.batch(4, false));
    let mut executor = fed(&windows.graph().unwrap(), &dealer(&range().graph().unwrap()), 0);
    let item = executor.next().unwrap().unwrap();
    assert_eq!(item.marks.len(), 4, "expected one mark for each split");
}

#[test]
fn a_pair_states_the_splits_of_both() {
    let graph = Dataset::zip([Dataset::range(0, 200, 1), Dataset::range(0, 1000, 1)])
        .graph()
        .unwrap();
    let mut executor = fed(&graph, &dealer(&graph), 0);
    for expected in 0..200 {
        let item = executor.next().unwrap().unwrap();
        let pair: Vec<_> = item.value.iter().map(|tensor| tensor.as_i64()).collect();
        assert_eq!(pair, [Some(expected); 2]);
        assert_eq!(item.marks.len(), 2);
    }
    assert!(executor.next().unwrap().is_none());
}

/// A worker's feed, which leases a few splits before the executor needs them.
struct Ahead {
    dealer: Dealer,
    ready: BTreeMap<u32, VecDeque<Split>>,
}

impl SplitSource for Ahead {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        let ready = self.ready.entry(source).or_default();
        while ready.len() < 7 {
            match self.dealer.next(source, repetition)? {
                Some(split) => ready.push_back(split),
                None => break,
            }
        }
        Ok(ready.pop_front())
    }

    fn pass_over(&mut self, source: u32) -> Result<Vec<Split>, SplitError> {
        Ok(self.ready.remove(&source).into_iter().flatten().collect())
    }
}

#[test]
fn an_abandoned_pass_finishes_its_leases() {
    let zip = Dataset::zip([Dataset::range(0, 20, 1), Dataset::range(0, 100, 1)]);
    for dataset in [zip.prefetch(2), Dataset::range(0, 100, 1).take(20).enumerate(0)] {
        let graph = dataset.repeat(Some(3)).graph().unwrap();
        let dealer = dealer(&graph);
        let context = ExecContext {
            splits: Some(Box::new(Ahead {
                dealer: dealer.clone(),
                ready: BTreeMap::new(),
            })),
            ..context()
        };
        let mut executor = Executor::open(&graph, context).unwrap();
        let mut found = Vec::new();
        let mut account = Account::default();
        while let Some(item) = executor.next().unwrap() {
            account.saw(&item, executor.handed());
            found.push([0, 1].map(|index: usize| item.value[index].as_i64().unwrap()));
            drop(item);
            account.finished(&mut executor);
        }
        let once: Vec<[i64; 2]> = (0..20).map(|number| [number, number]).collect();
        assert_eq!(found, once.repeat(3));
        account.finished(&mut executor);
        account.check();
        // The feed returns its unused leases of the last pass, so only leases of earlier passes stay
        // unfinished.
        let left = dealer.leases() - account.finished.len() as u64;
        assert!(left <= 7, "expected at most 7 unfinished leases, found {left}");
    }
}

#[test]
fn workers_pair_as_the_shorter_input_allows() {
    let keep_tens = Params::encode(&(10i64, 0i64)).unwrap();
    let zip = Dataset::zip([
        Dataset::range(0, 100, 1),
        Dataset::range(0, 100, 1).filter("keep", keep_tens),
    ]);
    let graph = zip.graph().unwrap();
    let (found, _) = run(&graph, &dealer(&graph), 3, &[0, 1, 2]);
    assert_eq!(found.len(), 10);
    let graph = zip_of_passes().graph().unwrap();
    let (found, _) = run(&graph, &dealer(&graph), 3, &[0, 1, 2, 1]);
    assert_eq!(found.len(), 5 * 20);
}

/// Returns five passes of twenty pairs.
fn zip_of_passes() -> Dataset {
    Dataset::zip([Dataset::range(0, 20, 1), Dataset::range(0, 500, 1)]).repeat(Some(5))
}

#[test]
fn a_worker_without_splits_joins_the_next_pass() {
    // One split and two workers: in every pass one of the workers receives nothing.
    let graph = Dataset::range(0, 1, 1).repeat(Some(50)).graph().unwrap();
    let dealer = dealer(&graph);
    let (found, finished) = run(&graph, &dealer, 2, &[0, 1]);
    assert_eq!((found.len(), finished.len()), (50, 50));
}

#[test]
fn an_endless_repeat_of_no_splits_ends() {
    let graph = Dataset::range(0, 0, 1).repeat(None).graph().unwrap();
    assert!(fed(&graph, &dealer(&graph), 0).next().unwrap().is_none());
}

#[test]
fn a_slow_worker_skips_finished_passes() {
    const PASSES: u64 = 20_000;
    for dataset in [
        Dataset::range(0, 2, 1).repeat(Some(PASSES)),
        Dataset::range(0, 2, 1).repeat(Some(2)).repeat(Some(PASSES / 2)),
        Dataset::range(0, 2, 1).repeat(Some(PASSES)).prefetch(1),
    ] {
        let graph = dataset.graph().unwrap();
        let dealer = dealer(&graph);
        let mut ahead = fed(&graph, &dealer, 0);
        let mut found = 0;
        while ahead.next().unwrap().is_some() {
            found += 1;
        }
        assert_eq!(found, 2 * PASSES);
        let before = dealer.questions();
        assert!(fed(&graph, &dealer, 1).next().unwrap().is_none());
        // The first request learns the other workers' progress. The second one asks for the last pass,
        // which may still have splits.
        assert_eq!(dealer.questions() - before, 2);
    }
}

#[test]
fn a_failed_elements_split_never_finishes() {
    let graph = Dataset::range(0, 3, 1)
        .map("add", Params::encode(&0i64).unwrap())
        .prefetch(8)
        .map("fail", Params::none());
    let graph = graph.graph().unwrap();
    let functions = functions().with_map("fail", |_, input| {
        let call = |value: Value| {
            if value[0].as_i64() == Some(1) {
                Err("the test makes this call fail".into())
            } else {
                Ok(value)
            }
        };
        Ok(millstream_pipeline::exec::PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    });
    let dealer = Dealer::new(SplitPlan {
        sources: vec![SourcePlan::Counted { splits: 3 }],
    });
    let context = ExecContext {
        plan: Some(dealer.shared.lock().plan.clone()),
        splits: Some(Box::new(dealer.clone())),
        ..ExecContext::new(0, Arc::new(functions), Arc::new(Pool::new(1).unwrap()))
    };
    let mut executor = Executor::open(&graph, context).unwrap();
    let mut finished = Vec::new();
    drop(executor.next().unwrap());
    executor.finished_splits(&mut finished);
    assert_eq!(
        finished,
        [FinishedSplit {
            lease: 0,
            attempt: 3,
            upto: 1
        }]
    );
    executor.next().unwrap_err();
    finished.clear();
    executor.finished_splits(&mut finished);
    assert_eq!(finished, []);
}

#[test]
fn a_split_beyond_the_source_is_refused() {
    struct Wrong;
    impl SplitSource for Wrong {
        fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
            Ok(Some(Split {
                source,
                repetition,
                index: 99,
                lease: 0,
                attempt: 0,
                skipped: false,
                payload: Vec::new(),
                version: None,
            }))
        }
    }
    let graph = Dataset::range(0, 10, 1).graph().unwrap();
    let context = ExecContext {
        splits: Some(Box::new(Wrong)),
        ..context()
    };
    let error = Executor::open(&graph, context).unwrap().next().unwrap_err();
    assert_eq!(error.kind(), millstream_pipeline::exec::ErrorKind::Peer);
    assert!(error.to_string().contains("split 99"), "{error}");
}

/// A source that yields squares from the first of its positions on.
struct Squares {
    opened: Arc<AtomicU64>,
}

struct Counting {
    next: u64,
}

impl SourceFactory for Squares {
    fn signature(&self, params: &Params) -> Result<SourceSignature, String> {
        Ok(SourceSignature {
            spec: scalar(),
            cardinality: Cardinality::Finite(params.decode()?),
            indexable: true,
        })
    }

    fn open(&self, _: &Params, positions: std::ops::Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Counting {
            next: positions.start,
        }))
    }
}

impl Source for Counting {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        self.next += 1;
        Ok(Some(Value::from_buf([Tensor::i64((self.next - 1) as i64)])))
    }
}

#[test]
fn an_indexable_source_is_opened_at_each_split() {
    let opened = Arc::new(AtomicU64::new(0));
    let functions = Arc::new(functions().with_source(
        "squares",
        Squares {
            opened: Arc::clone(&opened),
        },
    ));
    let graph = Dataset::registered_source("squares", Params::encode(&3000u64).unwrap())
        .graph()
        .unwrap();
    let plan = plan_splits(&graph, &*functions, &Storage::default()).unwrap();
    assert_eq!(plan.sources, [SourcePlan::Counted { splits: 1000 }]);
    let dealer = Dealer::new(plan);
    let mut found = BTreeSet::new();
    for task in 0..2 {
        let context = ExecContext {
            splits: Some(Box::new(dealer.clone())),
            ..ExecContext::new(task, Arc::clone(&functions), Arc::new(Pool::new(1).unwrap()))
        };
        let mut executor = Executor::open(&graph, context).unwrap();
        for _ in 0..1500 {
            let Some(item) = executor.next().unwrap() else {
                break;
            };
            assert!(found.insert(number(&item)));
        }
    }
    assert_eq!(found, (0..3000).collect());
    assert!(opened.load(Ordering::Relaxed) >= 1000);
}
