//! Tests of a dispatcher that dies while it stores a lease of an exactly-once job. It dies before or after
//! the store has the lease (C1.5, C1.6).

use millstream_link::Role;

use super::exactness::{job, lease, leased, splits_of};
use super::rig::Rig;
use crate::dispatcher::Reply;
use crate::exactly_once::ExactlyOnce;
use crate::id::{SessionId, TaskId};

/// Returns splits in their first attempt.
fn splits(range: std::ops::Range<u64>) -> Vec<(u64, u32)> {
    range.map(|split| (split, 0)).collect()
}

/// Returns a worker with its first lease, and the number of leased splits.
fn one_worker() -> (Rig, SessionId, TaskId, usize) {
    let mut rig = Rig::new();
    let job = job(&mut rig, ExactlyOnce::whole(7));
    let worker = rig.worker(1, "one:1");
    rig.client(job);
    let task = rig.tasks(worker)[0];
    let first = leased(&mut rig, worker, task);
    assert_eq!(first, splits(0..first.len() as u64));
    (rig, worker, task, first.len())
}

/// Panics unless the worker gets all splits from `next` on once.
fn check_rest(rig: &mut Rig, worker: SessionId, task: TaskId, next: u64) {
    let mut rest = Vec::new();
    loop {
        let more = leased(rig, worker, task);
        if more.is_empty() {
            break;
        }
        rest.extend(more);
    }
    assert_eq!(rest, splits(next..100));
}

fn answered(rig: &mut Rig, number: u64) -> Vec<(u64, u32)> {
    let answer = rig.reply(number);
    let Some(Ok(Reply::Splits { runs, .. })) = answer else {
        panic!("expected splits, found {answer:?}")
    };
    splits_of(&runs)
}

/// The answer was never sent, so the worker repeats its request.
#[test]
fn a_death_after_a_commit_keeps_the_lease() {
    let (mut rig, worker, task, first) = one_worker();
    let number = rig.send(worker, Role::Worker, lease(task, 0));
    let unsent = answered(&mut rig, number);
    rig.restart();
    rig.send_numbered(worker, Role::Worker, lease(task, 0), number, number);
    let repeated = answered(&mut rig, number);
    assert_eq!(repeated, unsent);
    let next = (first + unsent.len()) as u64;
    assert_eq!(unsent, splits(first as u64..next));
    check_rest(&mut rig, worker, task, next);
}

/// The store has nothing of the lease, so the splits are leased with the repeated request.
#[test]
fn a_death_before_a_commit_leases_nothing() {
    let (mut rig, worker, task, first) = one_worker();
    let number = rig.die_before_commit(worker, Role::Worker, lease(task, 0));
    rig.send_numbered(worker, Role::Worker, lease(task, 0), number, number);
    let repeated = answered(&mut rig, number);
    let next = (first + repeated.len()) as u64;
    assert_eq!(repeated, splits(first as u64..next));
    check_rest(&mut rig, worker, task, next);
}
