//! Tests of elements that are kept in memory and in files. A pass is kept completely or not at all, and
//! damaged elements are never yielded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{
    ErrorKind, ExecContext, ExecError, Executor, PreparedMap, Value, save, saved_spec,
};
use millstream_pipeline::graph::{
    Cardinality, ConstantTensor, Dataset, Graph, Options, Packing, Params, Rewrites, ShardBy, Share,
};
use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::{context, functions, number, open, rendered, scalar};

const PACKINGS: [Packing; 3] = [Packing::None, Packing::Lz4, Packing::Gzip];

/// Returns a context whose map function `counted` forwards elements, and the counter of its calls.
fn counting() -> (ExecContext, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let functions = functions().with_map("counted", move |_, input| {
        let calls = Arc::clone(&counted);
        let call = move |value: Value| {
            calls.fetch_add(1, Ordering::Relaxed);
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    });
    let context = ExecContext {
        functions: Arc::new(functions),
        ..context()
    };
    (context, calls)
}

fn counted(count: i64) -> Dataset {
    Dataset::range(0, count, 1).map("counted", Params::none())
}

/// Returns the elements of `dataset`, and the number of calls of `counted` for them.
fn run(dataset: Dataset) -> (Vec<i64>, u64) {
    let (context, calls) = counting();
    let mut executor = Executor::open(&dataset.graph().unwrap(), context).unwrap();
    (numbers(&mut executor).unwrap(), calls.load(Ordering::Relaxed))
}

fn numbers(executor: &mut Executor) -> Result<Vec<i64>, ExecError> {
    let mut all = Vec::new();
    while let Some(item) = executor.next()? {
        all.push(number(&item));
    }
    Ok(all)
}

fn place() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept").display().to_string();
    (directory, path)
}

fn graph(dataset: Dataset) -> Graph {
    dataset.graph().unwrap()
}

/// Returns the files of elements in a directory and all its subdirectories.
fn shards(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(shards(&path));
        } else if path.extension().is_some_and(|extension| extension == "elements") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_cached_is_computed_once() {
    let twice: Vec<i64> = (0..5).chain(0..5).collect();
    assert_eq!(run(counted(5).cache().repeat(Some(2))), (twice, 5));
    let shuffled = run(counted(30).shuffle(30, None).cache().repeat(Some(2))).0;
    assert_eq!(
        shuffled[..30],
        shuffled[30..],
        "expected the same draws in both passes over the cache"
    );
}

#[test]
fn caches_are_the_same_under_rewrites() {
    let below = || {
        counted(9)
            .skip(0)
            .take(u64::MAX)
            .take(7)
            .take(5)
            .prefetch(1)
            .prefetch(3)
    };
    let above = |kept: Dataset| kept.skip(0).repeat(Some(2)).take(8).take(9);
    let expected: Vec<i64> = (0..5).chain(0..3).collect();
    let (_directory, cache) = place();
    let (_other, snapshot) = place();
    let kept = || {
        [
            below().cache(),
            below().cache_in(cache.as_str()),
            below().snapshot(snapshot.as_str(), Packing::None),
        ]
    };
    for (round, rewrites) in [Rewrites::OFF, Rewrites::default(), Rewrites::OFF]
        .into_iter()
        .enumerate()
    {
        let options = || Options {
            rewrites: Some(rewrites),
            ..Options::default()
        };
        for (place, kept) in kept().into_iter().enumerate() {
            let (found, calls) = run(above(kept).with_options(options()));
            assert_eq!(found, expected);
            // Files that one execution has written serve the executions after it.
            let is_there = place > 0 && round > 0;
            assert!(
                if is_there { calls == 0 } else { calls >= 5 },
                "unexpected number of calls: {calls}"
            );
        }
    }
}

#[test]
fn an_incomplete_pass_is_not_cached() {
    let (_directory, path) = place();
    for cached in [
        counted(5).cache(),
        counted(5).cache_in(path.as_str()),
        counted(5).snapshot(path.as_str(), Packing::None),
    ] {
        let (found, calls) = run(cached.take(3).repeat(Some(2)));
        assert_eq!((found, calls), (vec![0, 1, 2, 0, 1, 2], 6));
    }
    assert!(!Path::new(&path).join("manifest").exists());
}

#[test]
fn a_cache_beyond_its_bytes_is_an_error() {
    let graph = graph(Dataset::range(0, 100, 1).cache_within(1000));
    let error = numbers(&mut open(&graph)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resource);
    assert!(
        error.to_string().contains("exceed the limit of 1000 bytes"),
        "{error}"
    );
}

#[test]
fn a_cache_in_files_serves_later_executions() {
    let (_directory, path) = place();
    let all: Vec<i64> = (0..5).collect();
    assert_eq!(
        run(counted(5).cache_in(path.as_str()).repeat(Some(2))),
        (all.repeat(2), 5)
    );
    assert_eq!(run(counted(5).cache_in(path.as_str())), (all.clone(), 0));
    assert_eq!(
        run(counted(9).cache_in(path.as_str()).repeat(Some(2))),
        (all.repeat(2), 0)
    );
    let other = graph(Dataset::range(0, 4, 1).batch(2, true).cache_in(path.as_str()));
    let error = open(&other).next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Caller);
    assert!(
        error.to_string().contains(&path) && error.to_string().contains("remove the directory"),
        "{error}"
    );
    std::fs::remove_dir_all(&path).unwrap();
    assert_eq!(run(counted(9).cache_in(path.as_str())).0.len(), 9);
}

#[test]
fn a_cache_of_nothing_is_nothing() {
    let (_directory, path) = place();
    for _ in 0..2 {
        assert_eq!(
            run(counted(0).cache_in(path.as_str()).repeat(None)).0,
            Vec::<i64>::new()
        );
        assert_eq!(run(counted(0).cache().repeat(None)).0, Vec::<i64>::new());
    }
}

#[test]
fn one_execution_writes_under_a_lock() {
    let (_directory, path) = place();
    let cache = graph(Dataset::range(0, 5, 1).cache_in(path.as_str()));
    let mut first = open(&cache);
    first.next().unwrap().unwrap();
    let error = open(&cache).next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resource);
    assert!(
        error.to_string().contains("being written by another execution"),
        "{error}"
    );
    drop(first);
    assert_eq!(numbers(&mut open(&cache)).unwrap().len(), 5);
    let snapshot = graph(Dataset::range(0, 5, 1).snapshot(path.as_str(), Packing::None));
    let mut first = open(&snapshot);
    first.next().unwrap().unwrap();
    let second = numbers(&mut open(&snapshot)).unwrap();
    assert_eq!(
        second,
        [0, 1, 2, 3, 4],
        "expected all elements while another execution writes the snapshot"
    );
    assert_eq!(numbers(&mut first).unwrap(), [1, 2, 3, 4]);
}

#[test]
fn what_a_crash_left_is_written_again() {
    let (_directory, path) = place();
    let partial = PathBuf::from(format!("{path}.partial"));
    std::fs::create_dir_all(&partial).unwrap();
    std::fs::write(partial.join("shard-00000.elements"), b"half an ele").unwrap();
    std::fs::write(partial.join("shard-00007.elements"), b"of another time").unwrap();
    std::fs::write(partial.join("lock"), b"").unwrap();
    assert_eq!(run(counted(3).cache_in(path.as_str())).1, 3);
    assert_eq!(run(counted(3).cache_in(path.as_str())), (vec![0, 1, 2], 0));
    assert!(!partial.exists());
    assert_eq!(shards(Path::new(&path)).len(), 1);
}

#[test]
fn writing_continues_from_every_position() {
    let kinds: [fn(Dataset, &str) -> Dataset; 2] = [
        |dataset, path| dataset.cache_in(path),
        |dataset, path| dataset.snapshot(path, Packing::Lz4),
    ];
    for (kind, position) in (0..2).flat_map(|kind| (0..=21).map(move |position| (kind, position))) {
        let (_directory, path) = place();
        let dataset = || kinds[kind](Dataset::range(0, 10, 1), &path);
        let graph = graph(dataset().repeat(Some(2)));
        let expected: Vec<i64> = (0..10).chain(0..10).collect();
        let mut interrupted = open(&graph);
        let mut found = Vec::new();
        for _ in 0..position {
            found.extend(interrupted.next().unwrap().iter().map(number));
        }
        let state = interrupted.save().unwrap();
        // Elements that are written after the state was saved must not count.
        interrupted.next().unwrap();
        drop(interrupted);
        let mut resumed = open(&graph);
        resumed.restore(&state).unwrap();
        found.extend(numbers(&mut resumed).unwrap());
        assert_eq!(found, expected, "dataset {kind} saved at {position}");
        drop(resumed);
        let kept = numbers(&mut open(&Graph::clone(&dataset().graph().unwrap()))).unwrap();
        assert_eq!(kept, expected[..10], "dataset {kind} saved at {position}");
    }
}

#[test]
fn a_lost_cache_is_yielded_after_a_restore() {
    let (_directory, path) = place();
    let graph = graph(Dataset::range(0, 5, 1).cache_in(path.as_str()));
    let mut interrupted = open(&graph);
    interrupted.next().unwrap();
    let state = interrupted.save().unwrap();
    drop(interrupted);
    std::fs::remove_dir_all(format!("{path}.partial")).unwrap();
    let mut resumed = open(&graph);
    resumed.restore(&state).unwrap();
    assert_eq!(numbers(&mut resumed).unwrap(), [1, 2, 3, 4]);
    assert!(!Path::new(&path).exists());
    let mut reading = open(&graph);
    numbers(&mut reading).unwrap();
    let mut reading = open(&graph);
    reading.next().unwrap();
    let state = reading.save().unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let error = open(&graph).restore(&state).unwrap_err();
    assert!(error.to_string().contains(&path), "{error}");
}

#[test]
fn a_snapshot_is_of_one_definition() {
    let (_directory, path) = place();
    let snapshot = |count: i64| counted(count).snapshot(path.as_str(), Packing::Lz4);
    assert_eq!(run(snapshot(20)), ((0..20).collect(), 20));
    assert_eq!(
        run(snapshot(20).repeat(Some(2))),
        ((0..20).chain(0..20).collect(), 0)
    );
    assert_eq!(
        run(snapshot(21)).1,
        21,
        "expected a new snapshot for a changed dataset"
    );
    assert_eq!(run(snapshot(20)).1, 0, "expected the earlier snapshot to remain");
    // Declared signatures, as a dispatcher adds them, must not change the snapshot's fingerprint.
    let (context, calls) = counting();
    let resolved = graph(snapshot(20)).resolved(&*context.functions).unwrap();
    assert_eq!(
        numbers(&mut Executor::open(&resolved, context).unwrap())
            .unwrap()
            .len(),
        20
    );
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[test]
fn functions_shard_and_read_a_snapshot() {
    let (_directory, path) = place();
    let snapshot = || {
        counted(10).snapshot_with(
            path.as_str(),
            Packing::None,
            |element| element.map("modulo", Params::encode(&3i64).unwrap()),
            |shards| shards.flat_map(|shard| shard.elements(scalar())),
        )
    };
    assert_eq!(run(snapshot()), ((0..10).collect(), 10));
    assert_eq!(shards(Path::new(&path)).len(), 3);
    assert_eq!(run(snapshot()), (vec![0, 3, 6, 9, 1, 4, 7, 2, 5, 8], 0));
    let facts = graph(snapshot()).facts(&*counting().0.functions).unwrap();
    assert_eq!(facts.cardinality, Cardinality::Unknown);
    let (_directory, path) = place();
    let negative = Dataset::range(-3, 0, 1).snapshot_with(
        path,
        Packing::None,
        |element| element,
        |shards| shards.interleave(2, 1, |shard| shard.elements(scalar())),
    );
    let error = numbers(&mut open(&graph(negative))).unwrap_err();
    assert!(
        error.to_string().contains("is -3: shards are numbered from 0"),
        "{error}"
    );
    let wrong = Dataset::range(0, 3, 1).snapshot_with("x", Packing::None, |element| element, |shards| shards);
    let error = graph(wrong).facts(&functions()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected the reader to yield the written elements"),
        "{error}"
    );
}

#[test]
fn saved_elements_are_loaded_in_order() {
    let spec = ElementSpec::dict([
        ("n", TensorSpec::fixed(Dtype::I64, &[100])),
        ("s", TensorSpec::fixed(Dtype::String, &[100, 2])),
    ])
    .unwrap();
    let numbers: Vec<u8> = (0..100i64).flat_map(i64::to_le_bytes).collect();
    let words = (0..200).map(|word| "x".repeat(word % 7));
    let tensors = vec![ConstantTensor::fixed(numbers), ConstantTensor::items(words)];
    let dataset = Dataset::tensor_slices(spec, tensors);
    let elements = |graph: &Graph| {
        let mut executor = open(graph);
        let mut all = Vec::new();
        while let Some(item) = executor.next().unwrap() {
            all.push(rendered(&item.value));
        }
        all
    };
    let expected = elements(&graph(dataset.clone()));
    for packing in PACKINGS {
        let (_directory, path) = place();
        let saved = save(&graph(dataset.clone()), context(), Path::new(&path), packing).unwrap();
        assert_eq!(saved, 100);
        let spec = saved_spec(Path::new(&path)).unwrap().unwrap();
        let loaded = graph(Dataset::load(&path, spec));
        assert_eq!(elements(&loaded), expected);
        let mut shares: Vec<String> = Vec::new();
        for index in 0..3 {
            let share = Share {
                count: 3,
                index,
                seed: 1,
            };
            shares.extend(elements(&loaded.sharded(ShardBy::Files, share).unwrap()));
        }
        let mut sorted = expected.clone();
        sorted.sort();
        shares.sort();
        assert_eq!(shares, sorted);
        assert_eq!(loaded.facts(&functions()).unwrap().splittable, Ok(()));
        let again = save(&graph(dataset.clone()), context(), Path::new(&path), packing).unwrap_err();
        assert!(again.to_string().contains("exists already"), "{again}");
    }
}

#[test]
fn a_path_with_characters_of_patterns_is_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a[b]*?");
    save(&graph(Dataset::range(0, 20, 1)), context(), &path, Packing::None).unwrap();
    let loaded = Dataset::load(&path.display().to_string(), scalar());
    assert_eq!(run(loaded).0, (0..20).collect::<Vec<i64>>());
    let nothing = directory.path().join("nothing");
    save(
        &graph(Dataset::range(0, 0, 1)),
        context(),
        &nothing,
        Packing::None,
    )
    .unwrap();
    assert_eq!(saved_spec(&nothing).unwrap(), None);
    let error = saved_spec(&directory.path().join("absent")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
}

#[test]
fn a_dataset_that_fails_is_not_saved() {
    let (_directory, path) = place();
    let fails = graph(Dataset::range(1, 9, 1).map("fails", Params::encode(&5i64).unwrap()));
    let error = save(&fails, context(), Path::new(&path), Packing::None).unwrap_err();
    assert!(error.to_string().contains("a multiple"), "{error}");
    assert!(!Path::new(&path).exists());
    save(
        &graph(Dataset::range(1, 9, 1)),
        context(),
        Path::new(&path),
        Packing::None,
    )
    .unwrap();
}

#[test]
fn a_shard_that_is_gone_is_missed() {
    let (_directory, path) = place();
    run(counted(20).snapshot(path.as_str(), Packing::None));
    std::fs::remove_file(&shards(Path::new(&path))[3]).unwrap();
    let (context, _) = counting();
    let graph = graph(counted(20).snapshot(path.as_str(), Packing::None));
    let error = Executor::open(&graph, context).unwrap().next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(
        error.to_string().contains("shard-00003.elements is missing"),
        "{error}"
    );
}

#[test]
fn every_truncated_element_file_is_an_error() {
    for packing in PACKINGS {
        let (_directory, path) = place();
        save(
            &graph(Dataset::range(0, 20, 1)),
            context(),
            Path::new(&path),
            packing,
        )
        .unwrap();
        let shard = &shards(Path::new(&path))[0];
        let whole = std::fs::read(shard).unwrap();
        let one = graph(Dataset::files(shard.display().to_string()).elements(scalar()));
        assert_eq!(numbers(&mut open(&one)).unwrap(), [0, 8, 16]);
        for len in 0..whole.len() {
            std::fs::write(shard, &whole[..len]).unwrap();
            let error = numbers(&mut open(&one)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{len}: {error}");
            assert!(error.to_string().contains("shard-00000.elements"), "{error}");
        }
    }
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn damage_is_an_error_and_never_another_element(at: prop::sample::Index, bit in 0u8..8, packing in 0usize..3) {
        let (_directory, path) = place();
        save(&graph(Dataset::range(0, 40, 1)), context(), Path::new(&path), PACKINGS[packing]).unwrap();
        let shard = &shards(Path::new(&path))[0];
        let mut bytes = std::fs::read(shard).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        std::fs::write(shard, bytes).unwrap();
        let one = graph(Dataset::files(shard.display().to_string()).elements(scalar()));
        let error = numbers(&mut open(&one)).unwrap_err();
        prop_assert_eq!(error.kind(), ErrorKind::Data);
    }

    #[test]
    fn arbitrary_files_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let mut file = b"MSELEMNT".to_vec();
        file.extend(bytes);
        std::fs::write(&path, file).unwrap();
        let one = graph(Dataset::files(path.display().to_string()).elements(scalar()));
        prop_assert!(numbers(&mut open(&one)).is_err());
    }
}

#[test]
fn cached_files_belong_to_each_share() {
    let (_directory, path) = place();
    let kept = [
        Dataset::range(0, 9, 1).cache_in(path.as_str()),
        Dataset::range(0, 9, 1).snapshot(path.as_str(), Packing::None),
    ];
    for dataset in kept {
        let facts = graph(dataset).facts(&functions()).unwrap();
        assert!(facts.splittable.unwrap_err().contains("the elements of one task"));
    }
    let facts = graph(Dataset::range(0, 9, 1).cache())
        .facts(&functions())
        .unwrap();
    assert_eq!(
        (facts.splittable, facts.cardinality),
        (Ok(()), Cardinality::Finite(9))
    );
    assert!(facts.aligned.is_err());
    let directory = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(directory.path().join(name), "1\n2").unwrap();
    }
    let files = Dataset::files(format!("{}/*", directory.path().display()))
        .text_lines()
        .parse_int("");
    let whole = graph(files.cache_in(path.as_str()));
    for _ in 0..2 {
        let counts = [0, 1].map(|index| {
            let share = Share {
                count: 2,
                index,
                seed: 1,
            };
            let share = whole.sharded(ShardBy::Files, share).unwrap();
            numbers(&mut open(&share)).unwrap().len()
        });
        assert_eq!(counts, [4, 2]);
    }
    assert!(Path::new(&format!("{path}-0-of-2")).exists() && !Path::new(&path).exists());
}

#[test]
fn places_that_make_no_sense_are_refused() {
    let message = |dataset: Dataset| dataset.graph().unwrap_err().to_string();
    assert!(message(Dataset::range(0, 9, 1).cache_in("")).contains("path is empty"));
    assert!(message(Dataset::range(0, 9, 1).cache_within(0)).contains("has a limit of 0 bytes"));
    let inside = Dataset::range(0, 9, 1).flat_map(|number| number.cache_in("x"));
    assert!(message(inside).contains("is used in a function"));
    let directory = tempfile::tempdir().unwrap();
    let cache = graph(Dataset::range(0, 9, 1).cache_in(directory.path().display().to_string()));
    let error = open(&cache).next().unwrap_err();
    assert!(
        error.to_string().contains("expected a directory of elements"),
        "{error}"
    );
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let below = graph(Dataset::range(0, 9, 1).cache_in(file.join("x").display().to_string()));
    assert!(open(&below).next().is_err());
}
