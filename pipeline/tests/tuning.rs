//! Tests of tuning by measurement, and of options for threads and memory.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use millstream_pipeline::exec::{
    ErrorKind, ExecContext, Executor, Functions, PreparedMap, StateError, Value,
};
use millstream_pipeline::graph::{
    AUTO, Autotune, Dataset, ExternalState, Options, Params, ServiceReader, SpecField, Threading,
};

use crate::support::{Model, context, drain, functions, open, pool, scalar};

fn options(options: Options) -> impl Fn(Dataset) -> Dataset {
    move |dataset| dataset.with_options(options)
}

fn autotuned(autotune: Autotune) -> Options {
    Options {
        autotune: Some(autotune),
        ..Options::default()
    }
}

#[test]
fn tuning_does_not_change_elements() {
    let add = |amount: i64| Params::encode(&amount).unwrap();
    let dataset = Dataset::range(0, 2000, 1)
        .map("add", add(1))
        .parallel(AUTO)
        .prefetch(u64::from(AUTO))
        .map("add", add(2))
        .parallel(AUTO)
        .unordered()
        .map("add", add(3))
        .prefetch(u64::from(AUTO));
    let expected: Vec<Model> = (6..2006).map(Model::Scalar).collect();
    for enabled in [true, false] {
        let tuned = options(autotuned(Autotune {
            enabled: Some(enabled),
            threads: Some(2),
            ram_bytes: Some(1 << 20),
        }))(dataset.clone());
        let mut found = drain(&mut open(&tuned.graph().unwrap()));
        found.sort();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_tuned_buffer_is_saved_and_goes_on() {
    let dataset = Dataset::range(0, 200, 1)
        .prefetch(u64::from(AUTO))
        .graph()
        .unwrap();
    let mut executor = open(&dataset);
    for _ in 0..77 {
        executor.next().unwrap().unwrap();
    }
    let state = executor.save().unwrap();
    let mut restored = open(&dataset);
    restored.restore(&state).unwrap();
    assert_eq!(
        drain(&mut restored),
        (77..200).map(Model::Scalar).collect::<Vec<_>>()
    );
}

/// Returns the map function `tells`, which records the thread that calls it.
fn telling(threads: &Arc<Mutex<BTreeSet<String>>>) -> Functions {
    let threads = Arc::clone(threads);
    functions().with_map("tells", move |_, input| {
        let threads = Arc::clone(&threads);
        let call = move |value: Value| {
            let thread = std::thread::current();
            let name = format!("{:?} {}", thread.id(), thread.name().unwrap_or_default());
            threads.lock().unwrap().insert(name);
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    })
}

#[test]
fn a_dataset_uses_its_own_threads_only() {
    let threads = Arc::default();
    let dataset = Dataset::range(0, 500, 1)
        .map("tells", Params::none())
        .parallel(AUTO);
    let own = options(Options {
        threading: Some(Threading {
            private_threads: Some(1),
            max_intra_op: Some(1),
        }),
        ..Options::default()
    })(dataset);
    let shared = pool();
    let context = ExecContext::new(1, Arc::new(telling(&threads)), Arc::clone(&shared));
    let mut executor = Executor::open(&own.graph().unwrap(), context).unwrap();
    assert_eq!(drain(&mut executor).len(), 500);
    drop(executor);
    assert_eq!(
        Arc::strong_count(&shared),
        1,
        "expected no other owner of the process's pool"
    );
    assert_eq!(threads.lock().unwrap().len(), 1, "{threads:?}");
}

#[test]
fn a_dataset_can_only_lower_its_memory() {
    let shuffled = |bytes: u64| {
        let asked = autotuned(Autotune {
            ram_bytes: Some(bytes),
            ..Autotune::default()
        });
        let dataset = options(asked)(Dataset::range(0, 100, 1).take(100).shuffle(100, None));
        let context = ExecContext {
            budget: millstream_pipeline::exec::Budget::new(1 << 20),
            ..context()
        };
        Executor::open(&dataset.graph().unwrap(), context).unwrap().next()
    };
    assert_eq!(shuffled(600).unwrap_err().kind(), ErrorKind::Resource);
    assert!(shuffled(1 << 40).is_ok());
}

#[test]
fn absurd_settings_are_refused() {
    let refused = |asked: Options| {
        let error = options(asked)(Dataset::range(0, 1, 1)).graph().unwrap_err();
        error.to_string()
    };
    let threading = |private_threads| Options {
        threading: Some(Threading {
            private_threads: Some(private_threads),
            max_intra_op: None,
        }),
        ..Options::default()
    };
    assert!(refused(threading(5000)).contains("private pool of 5000 threads, the limit is 4096"));
    let starved = Autotune {
        threads: Some(0),
        ..Autotune::default()
    };
    assert!(refused(autotuned(starved)).contains("with 0 threads"));
    let starved = Autotune {
        ram_bytes: Some(0),
        ..Autotune::default()
    };
    assert!(refused(autotuned(starved)).contains("with 0 bytes"));
}

#[test]
fn external_state_fails_a_save_by_default() {
    let saved = |policy: Option<ExternalState>| {
        let reader = ServiceReader {
            params: Params::none(),
            spec: SpecField(scalar()),
            count: None,
            infinite: false,
            resumable: false,
        };
        let asked = Options {
            external_state: policy,
            ..Options::default()
        };
        let dataset = options(asked)(Dataset::from_service(reader)).graph().unwrap();
        let functions = functions().with_service(|_, _| Ok(Box::new(|_| Err(unopened()))));
        let open =
            || Executor::open(&dataset, ExecContext::new(1, Arc::new(functions.clone()), pool())).unwrap();
        let state = open().save()?;
        open().restore(&state)
    };
    assert!(matches!(saved(None), Err(StateError::Unsupported { .. })));
    for policy in [ExternalState::Warn, ExternalState::Ignore] {
        assert!(saved(Some(policy)).is_ok());
    }
}

fn unopened() -> millstream_pipeline::exec::ExecError {
    millstream_pipeline::exec::ExecError::new(ErrorKind::Peer, "service", "it is not opened")
}
