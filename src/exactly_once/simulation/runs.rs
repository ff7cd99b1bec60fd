//! The tests of the simulation: many epochs, equal runs for equal seeds, and defects that must be found.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::defects::{DEFECTS, SimDefect};
use super::faults::draw_deaths;
use super::group::FIXED;
use super::world::{Tally, draw_order, run};

/// The number of epochs that the test reads, unless `MILLSTREAM_EPOCHS` sets another number.
const EPOCHS: u64 = 300;
/// The number of epochs within which each defect must be found.
const DEFECT_EPOCHS: u64 = 1000;

/// The seeds of worlds that broke a promise.
///
/// - 2354: a worker drained while a job had no trainer, and kept the job's splits for as long as it had other
///   tasks.
const PAST_FAILURES: [u64; 1] = [2354];

/// Runs the world of a seed. Returns the panic message if a promise is broken.
fn attempt(seed: u64, defect: Option<SimDefect>) -> Result<Tally, String> {
    catch_unwind(AssertUnwindSafe(|| run(seed, defect, false))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

/// Runs worlds on all cores until `epochs` epochs have ended or a promise is broken. Returns the sum of all
/// tallies, and the broken promises.
fn attempt_all(first: u64, epochs: u64) -> (Tally, Vec<String>) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, is_over) = (AtomicU64::new(first), AtomicBool::new(false));
    let found = Mutex::new((Tally::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let outcome = attempt(seed, None);
                    let mut found = found.lock();
                    match outcome {
                        Ok(tally) => found.0.add(&tally),
                        Err(text) => found.1.push(format!("seed {seed}: {text:.3000}")),
                    }
                    let is_enough = found.0.epochs >= epochs || !found.1.is_empty();
                    is_over.store(is_enough, Ordering::Relaxed);
                }
            });
        }
    });
    found.into_inner()
}

/// Checks C16.1 to C16.6, with any number of workers, trainers and faults, and several faults at a time.
/// `MILLSTREAM_EPOCHS` sets the number of epochs, and `MILLSTREAM_SIMULATION_FIRST` the first seed.
#[test]
fn every_epoch_is_delivered_exactly_once() {
    let epochs = number("MILLSTREAM_EPOCHS").unwrap_or(EPOCHS);
    let first = number("MILLSTREAM_SIMULATION_FIRST").unwrap_or(0);
    let (tally, broken) = attempt_all(first, epochs);
    assert!(
        broken.is_empty(),
        "promises are broken; MILLSTREAM_SIMULATION_SEED=N cargo test -p millstream --lib one_world_in_words -- \
         --ignored --nocapture prints the events of one seed:\n{}",
        broken.join("\n")
    );
    println!("{tally:?}");
    if epochs >= EPOCHS {
        // A fault that did not occur was not tested.
        assert!(
            tally.removals >= epochs / 10 && tally.repeated >= epochs / 4,
            "{tally:?}"
        );
        assert!(
            tally.restarts >= epochs / 10 && tally.resumes >= epochs / 10,
            "{tally:?}"
        );
        assert!(
            tally.resized >= epochs / 20 && tally.ledger.rewound >= epochs / 10,
            "{tally:?}"
        );
        assert!(
            tally.in_any_order >= epochs / 10 && tally.ledger.ahead >= epochs,
            "{tally:?}"
        );
        assert!(
            tally.given_up >= epochs / 100 && tally.fenced >= epochs / 100,
            "{tally:?}"
        );
    }
}

/// Repeats the worlds in which longer runs found defects that are mended now.
#[test]
fn worlds_of_past_failures_end() {
    for seed in PAST_FAILURES {
        assert_eq!(draw_order(seed), FIXED, "the world was found with a fixed order");
        assert_eq!(draw_deaths(seed), 0, "the world was found without these deaths");
        if let Err(text) = attempt(seed, None) {
            panic!("{text:.3000}");
        }
    }
}

#[test]
fn worlds_are_equal_for_equal_seeds_only() {
    let mut tallies = Vec::new();
    for seed in 0..20 {
        let tally = attempt(seed, None).expect("a kept promise");
        assert_eq!(Ok(&tally), attempt(seed, None).as_ref(), "seed {seed}");
        tallies.push(tally.trace);
    }
    tallies.sort_unstable();
    tallies.dedup();
    assert_eq!(tallies.len(), 20);
}

/// Each defect must break a promise within the first `DEFECT_EPOCHS` epochs.
#[test]
fn every_planted_defect_is_found() {
    let next = AtomicU64::new(0);
    let missed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(defect) = DEFECTS.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    match first_broken(*defect) {
                        Some((epochs, text)) => println!("{defect:?}: after {epochs} epochs: {text:.150}"),
                        None => missed.lock().push(*defect),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner();
    assert!(missed.is_empty(), "no promise reveals {missed:?}");
}

/// Returns the number of epochs before a defect broke a promise, and the promise.
fn first_broken(defect: SimDefect) -> Option<(u64, String)> {
    let mut epochs = 0;
    let mut seed = 0;
    while epochs < DEFECT_EPOCHS {
        match attempt(seed, Some(defect)) {
            Ok(tally) => epochs += tally.epochs,
            Err(text) => return Some((epochs, text)),
        }
        seed += 1;
    }
    None
}

/// Prints the events of one world, for the seed in `MILLSTREAM_SIMULATION_SEED`.
#[test]
#[ignore = "prints the events of one world"]
fn one_world_in_words() {
    let seed = number("MILLSTREAM_SIMULATION_SEED").unwrap_or(0);
    println!("{:?}", run(seed, None, true));
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
