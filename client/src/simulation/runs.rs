//! The tests: many seeds, the same seed twice, faults that happen, and the defects that must be found.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::bugs::{Bug, TABLE};
use super::faults::ALL;
use super::oracle::Tally;
use super::world::{Outcome, run};

/// Seeds of every run of the tests.
const SEEDS: u64 = 2000;
/// Seeds within which a defect is found.
const DEFECT_SEEDS: u64 = 400;

/// Says what a broken promise says; the seed goes with it.
fn attempt(seed: u64, bug: Option<Bug>) -> Result<Outcome, String> {
    catch_unwind(AssertUnwindSafe(|| run(seed, bug, false))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_else(|| "a panic without words".to_owned())
    })
}

/// Runs seeds on all cores, each in a thread of its own and by itself.
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

/// C1.5, C1.6, C1.8, C3.3, C3.4, C4.1, C4.3, C5.1 to C5.6, C6.1 to C6.6; C7.1 to C7.4, C8.3, D3.1, D3.4,
/// D4.2, D5.2, D6.1 to D6.4, as far as users see them. `MILLSTREAM_SIMULATION_FIRST` and
/// `MILLSTREAM_SIMULATION_SEEDS` choose other seeds.
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
         --nocapture tells of one:\n{}",
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
        // What did not happen proves nothing.
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

/// Each defect of the table is found within so many seeds, by a promise that it breaks.
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
    assert!(missed.is_empty(), "nothing finds {missed:?}");
}

/// One run in words, of the seed in `MILLSTREAM_SIMULATION_SEED`.
#[test]
#[ignore = "for looking at one run"]
fn one_seed_in_words() {
    let seed = number("MILLSTREAM_SIMULATION_SEED").unwrap_or(0);
    println!("{:?}", run(seed, None, true));
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
