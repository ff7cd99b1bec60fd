//! Tests of datasets that are divided among workers by files.

use std::collections::BTreeSet;
use std::path::Path;

use millstream_pipeline::exec::{ExecContext, ExecError, Executor};
use millstream_pipeline::graph::{Dataset, Graph, OnError, Params, Shard, ShardBy, ShardingError, Share};
use millstream_pipeline::plan::{FileOrder, SourcePlan, SplitPlan, plan_splits};
use millstream_pipeline::storage::Storage;
use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::{Step, context, functions, text};
use crate::workers::{shards_of, unsteady};

/// Writes `shards` shards of WebDataset with three samples each. The numbers of a shard start at
/// `10 * shard`.
fn directory(shards: usize) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    for shard in 0..shards {
        write(&directory.path().join(format!("{shard:03}.tar")), shard);
    }
    let pattern = format!("{}/*.tar", directory.path().display());
    (directory, pattern)
}

fn write(path: &Path, shard: usize) {
    let mut builder = tar::Builder::new(Vec::new());
    for sample in 0..3 {
        let number = (10 * shard + sample).to_string();
        let mut header = tar::Header::new_gnu();
        header.set_size(number.len() as u64);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, format!("{number}.n"), number.as_bytes())
            .unwrap();
    }
    std::fs::write(path, builder.into_inner().unwrap()).unwrap();
}

fn samples(files: Dataset) -> Dataset {
    files
        .webdataset(["n"], OnError::Raise)
        .parse_int("n")
        .select([("n", "n")])
}

/// Returns the numbers that a worker reads with the plan of an iteration.
fn numbers(graph: &Graph, plan: &SplitPlan, task_id: u64) -> Result<Vec<i64>, ExecError> {
    let context = ExecContext {
        task_id,
        plan: Some(plan.clone()),
        ..context()
    };
    let mut executor = Executor::open(graph, context).unwrap();
    let mut found = Vec::new();
    while let Some(item) = executor.next()? {
        found.push(item.value[0].as_i64().unwrap());
    }
    Ok(found)
}

/// Returns the plan of an iteration, in which the dispatcher has its own order of shuffled files.
fn planned(graph: &Graph, iteration: u64) -> SplitPlan {
    let order = FileOrder { iteration, epoch: 0 };
    plan_splits(graph, &functions(), &Storage::default())
        .unwrap()
        .shuffled(graph, order)
        .in_order()
}

fn share(count: u64, index: u64) -> Share {
    Share {
        count,
        index,
        seed: 7,
    }
}

/// The steps between the listing of the files and the reader of the files.
#[derive(Debug, Clone)]
struct Before {
    listing_shuffled: bool,
    steps: Vec<Step>,
}

impl Before {
    fn dataset(&self, pattern: &str) -> Dataset {
        let files = if self.listing_shuffled {
            Dataset::files_shuffled(pattern, None)
        } else {
            Dataset::files(pattern)
        };
        let steps = self.steps.iter();
        samples(steps.fold(files, crate::support::extended))
    }

    /// Returns how many times each file is read.
    fn repetitions(&self) -> u64 {
        self.steps.iter().fold(1, |times, step| {
            if let Step::Repeat(count) = step {
                times * count
            } else {
                times
            }
        })
    }
}

fn before() -> impl Strategy<Value = Before> {
    let steps = prop_oneof![
        (1u64..20, any::<u64>()).prop_map(|(buffer, seed)| Step::Shuffle { buffer, seed }),
        (1u64..4).prop_map(Step::Prefetch),
        (1u64..3).prop_map(Step::Repeat),
    ];
    (any::<bool>(), prop::collection::vec(steps, 0..4)).prop_map(|(listing_shuffled, steps)| Before {
        listing_shuffled,
        steps,
    })
}

proptest! {
    #![proptest_config(rounds(60))]

    #[test]
    fn by_files_one_worker_reads_each_record(
        files in 1usize..9,
        before in before(),
        workers in 1u64..5,
        iteration: u64,
    ) {
        let (_directory, pattern) = directory(files);
        let graph = unsteady(&before.dataset(&pattern).graph().unwrap());
        let plan = planned(&graph, iteration);
        let times = before.repetitions();
        let listed = files as u64 * times;
        let mut found = Vec::new();
        for index in 0..workers {
            let divided = graph.sharded(ShardBy::Files, share(workers, index)).unwrap();
            match numbers(&divided, &plan, index) {
                Ok(numbers) => found.extend(numbers),
                Err(error) => {
                    prop_assert!(listed < workers, "{} files: {}", listed, error);
                    return Ok(());
                }
            }
        }
        let once = (0..files as i64).flat_map(|file| (0..3).map(move |sample| 10 * file + sample));
        let mut expected: Vec<i64> = (0..times).flat_map(|_| once.clone()).collect();
        expected.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}

/// Checks that worker 3 of 5 reads files 3 and 8 of 10, in any order.
#[test]
fn a_file_shuffle_moves_behind_the_shard() {
    let (_directory, pattern) = directory(10);
    let datasets = [
        Dataset::files(&pattern),
        Dataset::files(&pattern).shuffle(10, None),
        Dataset::files(&pattern).shuffle(10, Some(3)).prefetch(2),
        Dataset::files_shuffled(&pattern, None),
        Dataset::files_shuffled(&pattern, Some(5)).shuffle(4, None),
    ];
    for (number, files) in datasets.into_iter().enumerate() {
        let graph = samples(files).graph().unwrap();
        for by in [ShardBy::Files, ShardBy::FilesOrElements] {
            let divided = graph.sharded(by, share(5, 3)).unwrap();
            let found = numbers(&divided, &planned(&graph, 9), 1).unwrap();
            if number == 0 {
                assert_eq!(found, [30, 31, 32, 80, 81, 82], "in order");
            }
            let found: BTreeSet<i64> = found.into_iter().collect();
            assert_eq!(found, BTreeSet::from([30, 31, 32, 80, 81, 82]), "{divided:?}");
        }
    }
}

#[test]
fn the_shard_stands_before_the_reader() {
    let reading = |argument: Dataset| samples(argument);
    let (_directory, pattern) = directory(10);
    let graph = Dataset::files(&pattern)
        .flat_map(reading)
        .prefetch(2)
        .graph()
        .unwrap();
    let divided = graph.sharded(ShardBy::Files, share(5, 3)).unwrap();
    let names: Vec<&str> = divided.nodes().iter().map(|node| node.op.name()).collect();
    assert_eq!(names, ["files", "shard", "flat_map", "prefetch"]);
    let found = numbers(&divided, &planned(&graph, 9), 1).unwrap();
    assert_eq!(found, [30, 31, 32, 80, 81, 82]);
    // Paths may also come from other sources than a listing.
    let graph = Dataset::range(0, 3, 1)
        .flat_map_declared("paths", Params::none(), path_spec())
        .flat_map(reading)
        .graph()
        .unwrap();
    let divided = graph.sharded(ShardBy::Files, share(3, 1)).unwrap();
    let names: Vec<&str> = divided.nodes().iter().map(|node| node.op.name()).collect();
    assert_eq!(names, ["range", "flat_map", "shard", "flat_map"]);
}

fn path_spec() -> millstream_element::ElementSpec {
    let paths = Dataset::files("x").graph().unwrap();
    paths.facts(&functions()).unwrap().spec
}

#[test]
fn interleaved_files_are_the_workers_own() {
    let (_directory, pattern) = directory(10);
    let interleaved = |files: Dataset| files.interleave(10, 1, samples).prefetch(4);
    let graph = interleaved(Dataset::files(&pattern)).graph().unwrap();
    let divided = graph.sharded(ShardBy::Files, share(5, 3)).unwrap();
    let by_turns = [30, 80, 31, 81, 32, 82];
    assert_eq!(numbers(&divided, &planned(&graph, 9), 1).unwrap(), by_turns);
    // A hint at the same place divides the dataset in the same way.
    let graph = interleaved(Dataset::files(&pattern).shard_hint())
        .graph()
        .unwrap();
    let divided = graph.sharded(ShardBy::Hint, share(5, 3)).unwrap();
    assert_eq!(numbers(&divided, &planned(&graph, 9), 1).unwrap(), by_turns);
}

#[test]
fn every_branch_is_divided_alike() {
    let (_directory, pattern) = directory(10);
    let branch = || samples(Dataset::files_shuffled(&pattern, Some(4)));
    let zipped = Dataset::zip([branch(), branch()]).graph().unwrap();
    let divided = zipped.sharded(ShardBy::Files, share(5, 3)).unwrap();
    assert_eq!(shards_of(&divided).len(), 2, "{divided:?}");
    let context = ExecContext {
        plan: Some(planned(&zipped, 9)),
        ..context()
    };
    let mut executor = Executor::open(&divided, context).unwrap();
    let mut found = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        found.push((item.value[0].as_i64().unwrap(), item.value[1].as_i64().unwrap()));
    }
    let firsts: BTreeSet<i64> = found.iter().map(|(first, _)| *first).collect();
    let seconds: BTreeSet<i64> = found.iter().map(|(_, second)| *second).collect();
    assert_eq!(firsts, BTreeSet::from([30, 31, 32, 80, 81, 82]));
    assert_eq!(firsts, seconds);
    let chained = branch().concatenate(branch()).graph().unwrap();
    let divided = chained.sharded(ShardBy::Files, share(5, 3)).unwrap();
    let found = numbers(&divided, &planned(&chained, 9), 1).unwrap();
    assert_eq!((shards_of(&divided).len(), found.len()), (2, 12));
    // A branch without files cannot be divided by files.
    let mixed = Dataset::zip([branch(), Dataset::range(0, 99, 1)])
        .graph()
        .unwrap();
    let error = mixed.sharded(ShardBy::Files, share(5, 3)).unwrap_err();
    assert!(matches!(error, ShardingError::NoFiles { .. }), "{error}");
    let divided = mixed.sharded(ShardBy::FilesOrElements, share(5, 3)).unwrap();
    assert!(divided.nodes().last().unwrap().op.is::<Shard>());
}

#[test]
fn paths_alone_are_divided_where_they_are_listed() {
    let (_directory, pattern) = directory(4);
    let graph = Dataset::files_shuffled(&pattern, None).graph().unwrap();
    let mut found = BTreeSet::new();
    for index in 0..2 {
        let divided = graph.sharded(ShardBy::Files, share(2, index)).unwrap();
        let context = ExecContext {
            task_id: index,
            ..context()
        };
        let mut executor = Executor::open(&divided, context).unwrap();
        while let Some(item) = executor.next().unwrap() {
            assert!(
                found.insert(text(&item.value[0]).to_vec()),
                "expected every file once"
            );
        }
    }
    assert_eq!(found.len(), 4);
}

#[test]
fn fewer_files_than_workers_are_refused() {
    let (_directory, pattern) = directory(4);
    let graph = samples(Dataset::files(&pattern)).graph().unwrap();
    for index in 0..5 {
        let divided = graph.sharded(ShardBy::Files, share(5, index)).unwrap();
        let found = numbers(&divided, &planned(&graph, 9), 1);
        if index < 4 {
            let error = found.unwrap_err().to_string();
            assert!(error.contains("not enough for 5 shards"), "{error}");
        } else {
            assert_eq!(found.unwrap(), [0_i64; 0]);
        }
    }
    let divided = graph.sharded(ShardBy::Elements, share(5, 3)).unwrap();
    assert_eq!(numbers(&divided, &planned(&graph, 9), 1).unwrap(), [10, 22]);
}

#[test]
fn counted_files_are_drawn_alike_by_workers() {
    let (_directory, pattern) = directory(10);
    let graph = samples(Dataset::files_shuffled(&pattern, None).take(6))
        .graph()
        .unwrap();
    let plan = planned(&graph, 9);
    let mut found = BTreeSet::new();
    for index in 0..3 {
        let divided = graph.sharded(ShardBy::Files, share(3, index)).unwrap();
        found.extend(numbers(&divided, &plan, index).unwrap());
    }
    assert_eq!(found.len(), 18, "expected six files of three samples");
}

#[test]
fn an_ordered_plan_has_an_unshuffled_listing() {
    let (_directory, pattern) = directory(9);
    let shuffled = Dataset::files_shuffled(&pattern, Some(1)).graph().unwrap();
    let plain = Dataset::files(&pattern).graph().unwrap();
    let order = FileOrder {
        iteration: 1,
        epoch: 2,
    };
    let found = plan_splits(&shuffled, &functions(), &Storage::default())
        .unwrap()
        .shuffled(&shuffled, order);
    let listed = plan_splits(&plain, &functions(), &Storage::default()).unwrap();
    assert_ne!(found, listed);
    assert_eq!(found.in_order(), listed);
    assert!(matches!(&listed.sources[0], SourcePlan::Listed { items } if items.len() == 9));
}
