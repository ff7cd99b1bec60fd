//! Compares the promises of the service with the events of a run: the holder of each split, and the elements
//! that users received.

use std::collections::{BTreeMap, BTreeSet};

use millstream_control::{IterationId, IterationStatus, LeaseRange, Phase, Policy, Run, Status, TaskId};

use super::center::leases;
use super::flow::Item;
use super::task::ITEMS_MAX;
use super::world::Job;
use crate::loss::LostSplits;

/// An iteration within one life of the dispatcher's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IterationKey {
    pub(super) boot: u64,
    pub(super) iteration: IterationId,
}

/// A repetition of a job within one life of the dispatcher's state: boot number, job and repetition.
pub(super) type Reading = (u64, usize, u64);

/// A set of splits, each as source, pass and index.
type Splits = BTreeSet<(u64, u64, u64)>;

/// The losses that a reader knew by the end of its read.
#[derive(Debug)]
struct Named {
    reading: Reading,
    lost: Splits,
    /// The number of splits that were lost when the iteration ended, as the dispatcher reported with the end.
    at_end: u64,
}

/// The task that holds a split.
#[derive(Clone, Copy, Debug)]
struct Holder {
    task: TaskId,
    lease: u64,
    attempt: u32,
}

/// The events of one iteration.
#[derive(Debug, Default)]
struct Seen {
    /// The tasks that delivered each item.
    items: BTreeMap<Item, Vec<u64>>,
    tasks: BTreeSet<u64>,
    /// Tasks whose worker and dispatcher both report that everything was delivered.
    settled: BTreeSet<u64>,
    worker_ended: bool,
    task_failed: bool,
}

/// Records the events of a run and checks the promises.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    holders: BTreeMap<(IterationKey, u32, u64, u64), Holder>,
    leases: BTreeSet<(IterationKey, u64)>,
    returned: BTreeSet<(TaskId, u64)>,
    of_task: BTreeMap<TaskId, (IterationKey, usize)>,
    iterations: BTreeMap<IterationKey, Seen>,
    /// The number of elements that readers may have taken with them when they ended, by iteration.
    taken_along: BTreeMap<Reading, u64>,
    /// The losses that finished readers reported.
    named_lost: Vec<Named>,
    /// The leases of splits that readers reported as waiting for their users.
    waited: BTreeSet<(TaskId, u64)>,
    policies: Vec<Policy>,
    /// True if a dispatcher died, perhaps between a commit and its answers.
    pub(super) answers_were_lost: bool,
    /// Counts of events, as information for people.
    pub(super) tally: Tally,
}

/// Counts of a run's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) delivered: u64,
    pub(super) leased: u64,
    pub(super) leased_again: u64,
    pub(super) lost: u64,
    pub(super) iterations: u64,
    pub(super) workers_ended: u64,
    pub(super) readers: u64,
    pub(super) readers_gone: u64,
    /// The number of splits that several readers held, counted once for each reader.
    pub(super) shared: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.delivered += other.delivered;
        self.leased += other.leased;
        self.leased_again += other.leased_again;
        self.lost += other.lost;
        self.iterations += other.iterations;
        self.workers_ended += other.workers_ended;
        self.readers += other.readers;
        self.readers_gone += other.readers_gone;
        self.shared += other.shared;
    }
}

impl Oracle {
    pub(super) fn new(jobs: &[Job]) -> Oracle {
        Oracle {
            policies: jobs.iter().map(|job| job.policy).collect(),
            ..Oracle::default()
        }
    }

    /// Notes that a worker began a task, perhaps again after a restart of the dispatcher.
    pub(super) fn task_began(&mut self, key: IterationKey, job: usize, _repetition: u64, task: TaskId) {
        self.of_task.insert(task, (key, job));
        self.iterations.entry(key).or_default().tasks.insert(task.0);
    }

    pub(super) fn worker_ended(&mut self, tasks_of: impl Iterator<Item = IterationKey>) {
        self.tally.workers_ended += 1;
        for key in tasks_of {
            self.iterations.entry(key).or_default().worker_ended = true;
        }
    }

    pub(super) fn failed(&mut self, key: IterationKey) {
        self.iterations.entry(key).or_default().task_failed = true;
    }

    pub(super) fn settled(&mut self, key: IterationKey, task: TaskId) {
        self.iterations.entry(key).or_default().settled.insert(task.0);
    }

    /// Notes that a reader ended and took at most `elements` elements with it.
    pub(super) fn reader_gone(&mut self, boot: u64, job: usize, repetition: u64, elements: u64) {
        self.tally.readers_gone += 1;
        let taken = self.taken_along.entry((boot, job, repetition)).or_default();
        *taken += elements * ITEMS_MAX;
    }

    /// Notes that a reader finished. The reader reported the losses `lost`; the dispatcher reported `at_end`
    /// losses with the end.
    pub(super) fn reader_done(&mut self, reading: Reading, lost: &[LostSplits], at_end: u64) {
        self.tally.readers += 1;
        let lost = lost.iter().flat_map(|range| {
            (range.first..range.first + range.count)
                .map(|index| (u64::from(range.source), range.repetition, index))
        });
        let lost = lost.collect();
        self.named_lost.push(Named {
            reading,
            lost,
            at_end,
        });
    }

    /// Notes the splits that a reader reported as waiting for its user.
    pub(super) fn waited(&mut self, task: TaskId, ranges: &[LeaseRange]) {
        self.waited.extend(leases(ranges).map(|lease| (task, lease)));
    }

    pub(super) fn returned(&mut self, task: TaskId, ranges: &[LeaseRange]) {
        self.returned.extend(leases(ranges).map(|lease| (task, lease)));
    }

    /// Checks that a split has only one living holder. A split is leased again only after its holder returned
    /// it or ended, and in the latter case under a later attempt (C5.5, C6.4).
    pub(super) fn leased(&mut self, task: TaskId, run: &Run, is_known: impl Fn(TaskId) -> bool) {
        let (key, _) = self.of_task[&task];
        for offset in 0..run.count {
            let (index, lease) = (run.first_index + offset, run.first_lease + offset);
            let place = (key, run.source, run.repetition, index);
            let holder = Holder {
                task,
                lease,
                attempt: run.attempt,
            };
            // A repeated answer repeats leases that were already checked.
            if !self.leases.insert((key, lease)) {
                continue;
            }
            self.tally.leased += 1;
            let Some(earlier) = self.holders.insert(place, holder) else {
                // A first lease may have a later attempt if the earlier answer died with the dispatcher that
                // had stored it.
                let is_first = run.attempt == 0 || self.answers_were_lost;
                assert!(is_first, "split {place:?} begins with attempt {}", run.attempt);
                continue;
            };
            self.tally.leased_again += 1;
            // A return counts only if the task still held the split.
            let is_returned = self.returned.contains(&(earlier.task, earlier.lease));
            // After the return, the split may have been leased by an answer that was lost when its dispatcher
            // died.
            if is_returned && (earlier.attempt == run.attempt || self.answers_were_lost) {
                continue;
            }
            assert!(
                !is_known(earlier.task),
                "split {place:?} has two holders: {earlier:?} and {holder:?}"
            );
            assert!(
                earlier.attempt < run.attempt,
                "split {place:?}: attempt {} after {}",
                run.attempt,
                earlier.attempt
            );
        }
    }

    /// Checks that a user receives no item twice under `dynamic`, and no item twice from one task under the
    /// other policies.
    pub(super) fn delivered(&mut self, boot: u64, iteration: u64, task: u64, item: Item) {
        self.tally.delivered += 1;
        let iteration = IterationId(iteration);
        let key = IterationKey { boot, iteration };
        let (_, job) = self.of_task[&TaskId(task)];
        let tasks = self
            .iterations
            .entry(key)
            .or_default()
            .items
            .entry(item)
            .or_default();
        let twice = match self.policies[job] {
            Policy::Dynamic => !tasks.is_empty(),
            Policy::Off | Policy::File | Policy::Data | Policy::FileOrData | Policy::Hint => {
                tasks.contains(&task)
            }
        };
        assert!(
            !twice,
            "{item:?} of {key:?} comes from task {task} and again from {tasks:?}"
        );
        tasks.push(task);
    }

    /// Checks, after the end of the run, that no items are missing except those that were reported as lost.
    pub(super) fn check_ends(
        &mut self,
        status: &Status,
        jobs: &[Job],
        is_due: impl Fn(&IterationStatus) -> bool,
    ) {
        for row in status.iterations.iter().filter(|row| is_due(row)) {
            let name = status.jobs.iter().find(|job| job.id == row.job);
            let name = name.map(|job| job.name.as_str());
            let job = name.and_then(|name| name.strip_prefix("job-")?.parse::<usize>().ok());
            let job = job.expect("jobs are numbered");
            self.tally.iterations += 1;
            self.tally.lost += row.splits_lost;
            // After a failure no reader reads the remaining elements, so that the iteration is collected.
            if jobs[job].dataset.fails.is_none() {
                assert_eq!(row.phase, Phase::Finished, "iteration {} never ends", row.id);
                assert_eq!(row.splits_leased, 0, "leases of iteration {} are left", row.id);
                assert_eq!(row.removals, 0, "removals of iteration {} are left", row.id);
            }
            if row.phase != Phase::Finished {
                continue;
            }
            self.check_end(status.boot.0, row, job, &jobs[job]);
        }
    }

    /// Checks that readers learned of all losses before the end, and of no losses that the record does not
    /// name. The record may name more splits that readers held, because the end does not wait for those
    /// (C5.8).
    fn check_named(&self, key: IterationKey, number: usize, row: &IterationStatus) {
        let pass = (key.boot, number, row.repetition);
        let lost: BTreeSet<_> = row
            .lost
            .iter()
            .flat_map(|range| {
                (range.first..range.first + range.count)
                    .map(|index| (u64::from(range.source), range.repetition, index))
            })
            .collect();
        let was_in_hand = |(source, repetition, index): &(u64, u64, u64)| {
            let source = u32::try_from(*source).expect("sources are few");
            let holder = self.holders.get(&(key, source, *repetition, *index));
            holder.is_some_and(|holder| self.waited.contains(&(holder.task, holder.lease)))
        };
        for named in self.named_lost.iter().filter(|named| named.reading == pass) {
            let is_complete = named.lost.len() as u64 >= named.at_end;
            let mut later = lost.difference(&named.lost);
            assert!(
                is_complete && named.lost.is_subset(&lost) && later.all(was_in_hand),
                "a reader of iteration {} was told of other losses: {named:?}, and the record names {lost:?}",
                row.id
            );
        }
    }

    fn check_end(&self, boot: u64, row: &IterationStatus, number: usize, job: &Job) {
        let key = IterationKey {
            boot,
            iteration: row.id,
        };
        let nothing = Seen::default();
        let seen = self.iterations.get(&key).unwrap_or(&nothing);
        let taken = self.taken_along.get(&(boot, number, row.repetition));
        let taken = taken.copied().unwrap_or(0);
        self.check_named(key, number, row);
        // C6.5: pipelines that end before their splits leave the remaining splits unread. C6.2: a reader that
        // left may have seen part of any split. So splits that a drained worker then returns count as lost
        // too.
        let has_reason = seen.worker_ended
            || seen.task_failed
            || self.taken_along.contains_key(&(boot, number, row.repetition));
        if !has_reason && job.dataset.is_read_to_the_end() {
            assert_eq!(row.splits_lost, 0, "nobody died, and {key:?} lost {:?}", row.lost);
        }
        let is_lost = |item: &Item| {
            row.lost.iter().any(|range| {
                let indices = range.first..range.first + range.count;
                (u64::from(range.source), range.repetition) == (item.source, item.pass)
                    && indices.contains(&item.index)
            })
        };
        let missing = |task: Option<u64>| {
            let of_task = move |tasks: &Vec<u64>| task.is_none_or(|task| tasks.contains(&task));
            let missed = job
                .dataset
                .everything()
                .filter(|item| !seen.items.get(item).is_some_and(of_task));
            missed.filter(|item| !is_lost(item)).collect::<Vec<_>>()
        };
        let taken = match job.policy {
            Policy::Dynamic => 0,
            Policy::Off | Policy::File | Policy::Data | Policy::FileOrData | Policy::Hint => taken,
        };
        let check = |missing: Vec<Item>, what: &str| {
            assert!(
                missing.len() as u64 <= taken,
                "{what} of {key:?} ({:?}): {} items are missing, at most {taken} went with readers: {missing:?}",
                job.policy,
                missing.len()
            );
        };
        match job.policy {
            // The readers of this iteration received an error.
            Policy::Dynamic if seen.task_failed => {}
            // C6.7: splits that ended with a reader count as lost too.
            Policy::Dynamic if job.dataset.is_read_to_the_end() => {
                let splits = job.dataset.sources.iter().sum::<u64>() * job.dataset.passes();
                assert_eq!(row.splits_done + row.splits_lost, splits, "the books of {key:?}");
                check(missing(None), "the iteration");
            }
            Policy::Dynamic => {}
            Policy::Off => {
                for task in &seen.settled {
                    check(missing(Some(*task)), "a task");
                }
            }
            Policy::File | Policy::Data | Policy::FileOrData | Policy::Hint if !seen.task_failed => {
                check(missing(None), "the shares");
            }
            Policy::File | Policy::Data | Policy::FileOrData | Policy::Hint => {}
        }
    }
}
