//! The tests of the simulation: many seeds, equal runs for equal seeds, faults that must occur, and defects
//! that must be found.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::bugs::{Bug, TABLE};
use super::faults::ALL;
use super::oracle::Tally;
use super::world::{Outcome, run};

/// The number of seeds that the tests run.
const SEEDS: u64 = 2000;
/// The number of seeds within which each defect must be found.
const DEFECT_SEEDS: u64 = 400;

/// Runs a seed. Returns the panic message if a promise is broken.
fn attempt(seed: u64, bug: Option<Bug>) -> Result<Outcome, String> {
    catch_unwind(AssertUnwindSafe(|| run(seed, bug, false))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

/// Runs the seeds on all cores. Each seed runs independently on one thread.
fn attempt_all(seeds: Range<u64>) -> Vec<(u64, Result<Outcome, String>)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, outcomes) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = attempt(seed, None);
                    outcomes.lock().push((seed, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner();
    outcomes.sort_unstable_by_key(|(seed, _)| *seed);
    outcomes
}

/// Checks C1.5, C1.6, C1.8, C3.3, C3.4, C4.1, C4.3, C5.1 to C5.6 and C6.1 to C6.6. Also checks C7.1 to C7.4,
/// C8.3, D3.1, D3.4, D4.2, D5.2 and D6.1 to D6.4. The checks cover the effects that users can observe.
/// `MILLSTREAM_SIMULATION_FIRST` and `MILLSTREAM_SIMULATION_SEEDS` choose other seeds.
#[test]
fn whatever_goes_wrong_every_promise_is_kept() {
    let first = number("MILLSTREAM_SIMULATION_FIRST").unwrap_or(0);
    let count = number("MILLSTREAM_SIMULATION_SEEDS").unwrap_or(SEEDS);
    let outcomes = attempt_all(first..first + count);
    let failed = outcomes.iter().filter_map(|(seed, outcome)| {
        let broken = outcome.as_ref().err()?;
        Some(format!("seed {seed}: {:.2000}", broken))
    });
    let failed: Vec<String> = failed.collect();
    assert!(
        failed.is_empty(),
        "promises are broken; MILLSTREAM_SIMULATION_SEED=N cargo test -p millstream-client one_seed_in_words -- --ignored \
         --nocapture prints the log of one seed:\n{}",
        failed.join("\n")
    );
    let (mut tally, mut faults) = (Tally::default(), [0; ALL.len()]);
    for outcome in outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().ok()) {
        tally.add(&outcome.tally);
        for (sum, count) in faults.iter_mut().zip(outcome.faults) {
            *sum += count;
        }
    }
    println!(
        "{count} seeds: {tally:?}, {:?}",
        ALL.iter().zip(faults).collect::<Vec<_>>()
    );
    if count >= SEEDS {
        // A fault that did not occur was not tested.
        assert!(faults.iter().all(|count| *count >= count / 10), "{faults:?}");
        assert!(tally.leased_again >= count && tally.lost >= count, "{tally:?}");
        assert!(tally.shared >= count / 100, "{tally:?}");
        assert!(
            tally.workers_ended >= count && tally.readers_gone >= count / 2,
            "{tally:?}"
        );
    }
}

#[test]
fn runs_are_equal_for_equal_seeds_only() {
    let mut logs = Vec::new();
    for seed in 0..30 {
        let once = attempt(seed, None).map(|outcome| outcome.log);
        let again = attempt(seed, None).map(|outcome| outcome.log);
        assert_eq!(once, again, "seed {seed}");
        logs.push(once);
    }
    logs.sort_unstable();
    logs.dedup();
    assert_eq!(logs.len(), 30);
}

/// Each defect of the table must break one of its promises within the first `DEFECT_SEEDS` seeds.
#[test]
fn every_defect_on_purpose_is_found() {
    let next = AtomicU64::new(0);
    let missed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(row) = TABLE.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let mut said = (0..DEFECT_SEEDS)
                        .filter_map(|seed| Some((seed, attempt(seed, Some(row.bug)).err()?)));
                    let is_meant = |text: &str| row.found_by.iter().any(|promise| text.contains(promise));
                    match said.find(|(_, text)| is_meant(text)) {
                        Some((seed, text)) => println!("{:?}: seed {seed}: {:.200}", row.bug, text),
                        None => missed.lock().push(row.bug),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner();
    assert!(missed.is_empty(), "no promise reveals {missed:?}");
}

/// Prints the log of one run, for the seed in `MILLSTREAM_SIMULATION_SEED`.
#[test]
#[ignore = "prints the log of one run"]
fn one_seed_in_words() {
    let seed = number("MILLSTREAM_SIMULATION_SEED").unwrap_or(0);
    println!("{:?}", run(seed, None, true));
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
