//! Tests that the records of an exactly-once job are as large as its tasks and held splits, and not as large
//! as its source.

use std::collections::VecDeque;

use millstream_link::Role;

use super::exactness::job;
use super::rig::{READER, Rig, SplitsWanted};
use crate::dispatcher::{Phase, Request};
use crate::exactly_once::ExactlyOnce;
use crate::id::TaskId;
use crate::planner::{SourcePlan, SplitPlan};
use crate::split::LeaseRange;

/// The number of leases that a task of the test holds.
const HELD_LEASES: usize = 4;

/// Reads a source of `splits` splits with `workers` workers. Returns the largest number of bytes of all
/// records.
fn peak_bytes(splits: u64, workers: u64) -> usize {
    let mut rig = Rig::new();
    rig.plan = Ok(SplitPlan {
        sources: vec![SourcePlan::Counted { splits }],
        seed: 0,
    });
    let job = job(&mut rig, ExactlyOnce::whole(7));
    let workers: Vec<_> = (1..=workers)
        .map(|worker| rig.worker(worker, &format!("worker:{worker}")))
        .collect();
    let client = rig.client(job);
    let mut held: Vec<(TaskId, VecDeque<LeaseRange>)> = workers
        .iter()
        .map(|worker| (rig.tasks(*worker)[0], VecDeque::new()))
        .collect();
    let (mut peak, mut open) = (0, workers.len());
    while open > 0 {
        open = 0;
        for (worker, (task, held)) in workers.iter().zip(&mut held) {
            let wanted = SplitsWanted {
                want: 16,
                is_idle: false,
                ..SplitsWanted::by(*task)
            };
            let runs = rig.lease_wanted(*worker, wanted).unwrap().runs;
            open += usize::from(!runs.is_empty());
            held.extend(runs.iter().map(|run| LeaseRange {
                first: run.first_lease,
                count: run.count,
            }));
            // The latest leases end first, so that the held splits have gaps.
            while held.len() > HELD_LEASES || (runs.is_empty() && !held.is_empty()) {
                let place = held.len() / 2;
                let leases = held.remove(place).into_iter().collect();
                let (client, task) = (client, *task);
                let done = Request::SplitsDone { client, task, leases };
                rig.ask(READER, Role::Read, done).unwrap();
            }
        }
        let records = rig.store.iter();
        peak = peak.max(
            records
                .map(|(key, record)| key.to_bytes().len() + record.to_bytes().len())
                .sum(),
        );
    }
    for (worker, (task, _)) in workers.iter().zip(held) {
        rig.finish(*worker, task);
    }
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!(
        (iteration.phase, iteration.splits_done),
        (Phase::Finished, splits)
    );
    peak
}

/// A split number takes up to eight bytes more in a large source.
#[test]
fn records_do_not_grow_with_the_source() {
    for workers in [1, 3, 8] {
        let [small, large] = [1 << 10, 1 << 16].map(|splits| peak_bytes(splits, workers));
        println!("{workers} workers: {small} bytes of records for 1 Ki splits, {large} for 64 Ki");
        let held = workers as usize * HELD_LEASES;
        assert!(
            large <= small + 16 * (held + 8),
            "{workers} workers: {small} and {large} bytes"
        );
    }
}
