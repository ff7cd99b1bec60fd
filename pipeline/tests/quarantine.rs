//! Tests of elements that failed in earlier attempts at their split, and are left out of all later attempts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_pipeline::exec::{
    COMPONENTS_ADDED, ExecContext, ExecError, Executor, FailedElement, Functions, PreparedMap, Quarantine,
    SplitNumbers, SplitPart, Value,
};
use millstream_pipeline::graph::{Dataset, ErrorPolicy, Graph, Params};
use millstream_pipeline::plan::plan_splits;
use millstream_pipeline::storage::Storage;
use millstream_testkit::rounds;
use parking_lot::Mutex;
use proptest::prelude::*;

use crate::by_split::{EPOCH, SEED, Splits};
use crate::splits::Dealer;
use crate::support::{Allowed, Step, chain, context, extended, functions, model_of, sum};

const SPLITWISE: Allowed = Allowed {
    shuffle: true,
    counting: false,
    repeat: true,
};

/// The maximum number of failed elements in a test.
const FAILED_MAX: usize = 400;

/// Functions that fail for multiples until they are healed. `weak` always fails, and `tires` fails after the
/// first call with a number.
struct Weak {
    functions: Arc<Functions>,
    is_healed: Arc<AtomicBool>,
    /// The numbers that `tires` has seen in this attempt.
    seen: Arc<Mutex<BTreeSet<i64>>>,
}

impl Weak {
    fn new() -> Weak {
        let is_healed = Arc::new(AtomicBool::new(false));
        let healed = is_healed.clone();
        let functions = functions().with_map("weak", move |params, input| {
            let (modulus, healed): (i64, _) = (params.decode()?, healed.clone());
            let call = move |value: Value| {
                let is_multiple = sum(&model_of(&value)).rem_euclid(modulus) == 0;
                match is_multiple && !healed.load(Ordering::Relaxed) {
                    true => Err("a multiple".into()),
                    false => Ok(value),
                }
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        });
        let seen: Arc<Mutex<BTreeSet<i64>>> = Arc::default();
        let (healed, known) = (is_healed.clone(), seen.clone());
        let functions = functions.with_map("tires", move |params, input| {
            let (modulus, healed, known): (i64, _, _) = (params.decode()?, healed.clone(), known.clone());
            let call = move |value: Value| {
                let number = sum(&model_of(&value));
                let is_new = known.lock().insert(number);
                match is_new || number.rem_euclid(modulus) != 0 || healed.load(Ordering::Relaxed) {
                    true => Ok(value),
                    false => Err("tired".into()),
                }
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        });
        Weak {
            functions: Arc::new(functions),
            is_healed,
            seen,
        }
    }

    fn exact(&self, dataset: Dataset) -> Option<Graph> {
        let graph = dataset.graph().unwrap();
        graph.for_exactly_once(SEED, &*self.functions).ok()
    }

    /// Reads all splits, and returns the elements of each split up to the end or the failure.
    fn read(&self, graph: &Graph, quarantine: Option<Quarantine>) -> (Splits, Option<ExecError>) {
        let plan = plan_splits(graph, &*self.functions, &Storage::default()).unwrap();
        let context = ExecContext {
            iteration: 9,
            epoch: EPOCH,
            splits: Some(Box::new(Dealer::new(plan.clone()))),
            plan: Some(plan),
            by_split: true,
            quarantine,
            functions: self.functions.clone(),
            ..context()
        };
        self.seen.lock().clear();
        let mut executor = Executor::open(graph, context).unwrap();
        let mut splits = Splits::new();
        loop {
            let item = match executor.next() {
                Ok(Some(item)) => item,
                Ok(None) => return (splits, None),
                Err(error) => return (splits, Some(error)),
            };
            let bytes = item.value[0].contiguous().unwrap();
            let words = bytes
                .chunks(8)
                .map(|word| i64::from_le_bytes(word.try_into().unwrap()));
            let numbers = SplitNumbers::from_numbers(&words.collect::<Vec<_>>()).unwrap();
            let known = splits.entry(numbers.split as i64).or_default();
            if matches!(numbers.part, SplitPart::Inner | SplitPart::Last) {
                let value = item.value[COMPONENTS_ADDED..].iter().cloned().collect();
                known.push(model_of(&value));
            }
        }
    }

    /// Reads all splits until no element fails. Returns the elements that were left out, the attempts that
    /// failed, and the elements of each split.
    fn read_on(&self, graph: &Graph) -> (Vec<FailedElement>, Vec<Splits>, Splits) {
        let (mut failed, mut attempts) = (Vec::<FailedElement>::new(), Vec::new());
        loop {
            let (splits, error) = self.read(graph, Some(quarantine(&failed)));
            let Some(error) = error else {
                return (failed, attempts, splits);
            };
            let element = error.failure().element;
            let element = element.unwrap_or_else(|| panic!("an element without a name: {error}"));
            let had = splits.get(&(element.split as i64)).map_or(0, Vec::len);
            assert_eq!(element.yielded, had as u64, "{error}");
            assert!(
                !failed
                    .iter()
                    .any(|known| (known.split, known.id) == (element.split, element.id))
            );
            assert!(failed.len() < FAILED_MAX, "{error}");
            failed.push(element);
            attempts.push(splits);
        }
    }
}

fn quarantine(failed: &[FailedElement]) -> Quarantine {
    Quarantine::new(failed.iter().map(|element| (element.split, element.id)))
}

fn weak(modulus: i64, dataset: Dataset) -> Dataset {
    dataset.map("weak", Params::encode(&modulus).unwrap())
}

#[test]
fn failures_are_named_on_request_only() {
    let weak_functions = Weak::new();
    let graph = weak_functions.exact(weak(3, Dataset::range(1, 9, 1)));
    let graph = graph.unwrap();
    let (_, error) = weak_functions.read(&graph, None);
    assert_eq!(error.unwrap().failure().element, None);
    let (_, error) = weak_functions.read(&graph, Some(Quarantine::default()));
    assert!(error.unwrap().failure().element.is_some());
}

#[test]
fn other_splits_keep_their_elements() {
    let weak_functions = Weak::new();
    let dataset = Dataset::range(0, 6, 1).split_size(2).repeat(Some(2));
    let graph = weak_functions.exact(weak(100, dataset)).unwrap();
    let (failed, _, splits) = weak_functions.read_on(&graph);
    let sizes: BTreeMap<i64, usize> = splits
        .iter()
        .map(|(split, elements)| (*split, elements.len()))
        .collect();
    // Both repetitions of the number 0 failed.
    assert_eq!((failed.len(), sizes), (2, [(0, 2), (1, 4), (2, 4)].into()));
}

/// Checks that all attempts agree with the last one, also after the functions are healed.
fn check(functions: &Weak, dataset: Dataset) {
    let Some(graph) = functions.exact(dataset.clone()) else {
        return;
    };
    let (failed, attempts, splits) = functions.read_on(&graph);
    for attempt in &attempts {
        for (split, elements) in attempt {
            let rest = &splits[split];
            assert!(
                rest.starts_with(elements),
                "split {split}: {elements:?} is no start of {rest:?}"
            );
        }
    }
    // An error policy leaves the same elements out, as long as each of them fails.
    if let Some(skipping) = functions.exact(dataset.on_error(ErrorPolicy::SKIP)) {
        let (skipped, error) = functions.read(&skipping, None);
        assert!(error.is_none());
        assert_eq!(skipped, splits);
    }
    functions.is_healed.store(true, Ordering::Relaxed);
    let (healed, error) = functions.read(&graph, Some(quarantine(&failed)));
    assert!(error.is_none());
    assert_eq!(healed, splits);
}

fn add(amount: i64, dataset: Dataset) -> Dataset {
    dataset.map("add", Params::encode(&amount).unwrap())
}

#[test]
fn operations_with_equal_positions_have_other_ids() {
    let rows = || Dataset::range(0, 40, 1).split_size(20).batch(1, false);
    check(&Weak::new(), weak(7, add(1, rows()).shuffle(8, Some(3))));
    let twice = |one: Dataset| add(1, one.clone()).concatenate(weak(7, one));
    check(&Weak::new(), rows().flat_map(twice));
    let batches = add(1, Dataset::range(0, 40, 1).split_size(20)).batch(4, false);
    check(&Weak::new(), weak(6, batches));
}

#[test]
fn every_pass_has_other_ids() {
    let numbers = || Dataset::range(1, 41, 1).split_size(20);
    for threads in [None, Some(3)] {
        let tired = numbers().map("tires", Params::encode(&7_i64).unwrap());
        let tired = threads.map_or(tired.clone(), |threads| tired.parallel(threads));
        let functions = Weak::new();
        let graph = functions.exact(tired.clone().repeat(Some(3))).unwrap();
        let (failed, ..) = functions.read_on(&graph);
        // The multiples of 7 up to 40 fail in the second and the third pass.
        assert_eq!(failed.len(), 10);
        check(&functions, tired.repeat(Some(3)));
    }
}

proptest! {
    #![proptest_config(rounds(150))]

    #[test]
    fn healed_elements_stay_left_out(
        before in chain(SPLITWISE, 0..30),
        after in chain(SPLITWISE, 0..2),
        modulus in 2_i64..6,
        threads in prop::option::of(1_u32..4),
        in_body in any::<bool>(),
    ) {
        let weak_functions = Weak::new();
        let is_parallel = |dataset: Dataset| threads.map_or(dataset.clone(), |threads| dataset.parallel(threads));
        let failing = match in_body {
            true => before.dataset().flat_map(|one| weak(modulus, one.repeat(Some(2)))),
            false => is_parallel(weak(modulus, before.dataset())),
        };
        // A dataset that ignores errors ignores those of earlier operations before they are quarantined.
        let ends = after.steps.iter().filter(|step| !in_body && !matches!(step, Step::Ignore { .. }));
        let dataset = ends.fold(failing, extended);
        check(&weak_functions, dataset);
    }
}
