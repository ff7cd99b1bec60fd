//! Distributes the free credits: a limited number of credits over all tasks of an iteration.
//!
//! Pure arithmetic: the caller passes the state of each task, and receives the grants. This file does not
//! know links and elements.
//!
//! Tasks that can use credits are filled to the same level. Among equal tasks, the task that has waited
//! longest comes first, so that a single credit rotates among all tasks. A task that gave its credits back
//! gets none until it reports that an element is ready.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_dataplane::TaskId;

/// The bytes that a credit is worth where elements vary in size, until a larger element occurs.
pub const CREDIT_BYTES_UNKNOWN: u64 = 4096;

/// The number of elements that may be outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaxOutstanding {
    /// Enough elements to keep the path busy, computed from the rate and the round-trip time. At least two
    /// elements for each task, or [`AUTO_ELEMENTS_LOCAL`] where nothing is copied.
    ///
    /// A reader that shares the job prefetches, beyond these minimums, at most the number of elements that it
    /// handed over within the last second.
    #[default]
    Auto,
    /// Exactly this number of elements.
    Elements(u64),
}

/// Maximum number of elements that `Auto` keeps outstanding.
pub const AUTO_ELEMENTS_MAX: u64 = 1 << 17;

/// Minimum number of elements that `Auto` keeps outstanding for a task whose elements arrive without a copy.
/// The minimum does not depend on the element size, so that the two sides need not wait for each other at
/// every element.
pub const AUTO_ELEMENTS_LOCAL: u64 = 4;

/// The state of one task, as input of the distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The number of the task.
    pub task: TaskId,
    /// The number of granted credits whose elements have not arrived.
    pub outstanding: u64,
    /// The number of elements that arrived but were not handed over.
    pub waiting: u64,
    /// The number of elements that were handed over but still count as outstanding, because the consumer
    /// keeps them until elements of other tasks arrive.
    pub kept: u64,
    /// The bytes that a credit of this task is worth.
    pub element_bytes: u64,
    /// True if the task's elements arrive without a copy, from a worker on this host.
    pub is_local: bool,
    /// True if the task has ended or was removed, so that no further element arrives.
    pub is_over: bool,
    /// True if the task can use a credit: it is subscribed, has not ended, and has not given its credits
    /// back.
    pub is_eligible: bool,
    /// The number of the grant in which the task last received credits. A smaller number is longer ago.
    pub granted_at: u64,
}

/// The limits of outstanding elements and bytes of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The limit of outstanding elements over all tasks: granted, in flight or not yet handed over.
    pub max_outstanding: MaxOutstanding,
    /// The number of bytes that `Auto` keeps outstanding.
    pub auto_bytes: u64,
    /// The number of elements handed over within the last second, if other readers share the job; `None` if
    /// this reader is alone. `Auto` keeps at most this number outstanding beyond its minimum, and so leaves
    /// the elements that it does not use to the other readers (D4.8).
    pub shared: Option<u64>,
    /// The limit of bytes reserved for outstanding elements.
    pub max_outstanding_bytes: u64,
}

/// Returns the minimum number of credits that `Auto` keeps outstanding for a task, whatever the size of its
/// elements.
fn least(task: &Standing) -> u64 {
    if task.is_local { AUTO_ELEMENTS_LOCAL } else { 2 }
}

impl Standing {
    /// Returns the number of elements that are granted, in flight, not handed over, or kept.
    fn held(&self) -> u64 {
        self.outstanding + self.waiting + self.kept
    }
}

impl Bounds {
    /// Returns the number of elements that may be outstanding now. `Auto` ignores tasks that can use no
    /// credit and hold no element, because the size of their elements may be unknown.
    pub fn elements(&self, tasks: &[Standing]) -> u64 {
        match self.max_outstanding {
            MaxOutstanding::Elements(elements) => elements,
            MaxOutstanding::Auto => {
                let at_work = || tasks.iter().filter(|task| task.is_eligible || task.held() > 0);
                let largest = at_work().map(worth).max().unwrap_or(CREDIT_BYTES_UNKNOWN);
                let least: u64 = at_work().map(least).sum();
                let most = (self.auto_bytes / largest).min(AUTO_ELEMENTS_MAX);
                let shared = self.shared.map_or(most, |handed| least.saturating_add(handed));
                most.min(shared).max(least)
            }
        }
    }

    /// Returns the number of elements and bytes that may still be granted.
    fn free(&self, tasks: &[Standing]) -> (u64, u64) {
        self.left(tasks, Standing::held)
    }

    /// Returns the elements and bytes that could still be granted if the consumer kept no elements.
    fn free_beside_kept(&self, tasks: &[Standing]) -> (u64, u64) {
        self.left(tasks, |task| task.outstanding + task.waiting)
    }

    fn left(&self, tasks: &[Standing], used: impl Fn(&Standing) -> u64) -> (u64, u64) {
        let in_use: u64 = tasks.iter().map(&used).sum();
        let reserved: u64 = tasks.iter().map(|task| used(task) * worth(task)).sum();
        let free = self.elements(tasks).saturating_sub(in_use);
        (free, self.max_outstanding_bytes.saturating_sub(reserved))
    }

    /// Returns whether an element of this size fits into the limit of bytes.
    pub fn can_hold(&self, element_bytes: u64) -> bool {
        element_bytes <= self.max_outstanding_bytes
    }
}

/// Returns the grants to make now: spread evenly, and within the bounds (D4.2). While the consumer keeps
/// elements, no task holds more than its even share.
///
/// A task that holds nothing then gets one credit even if kept elements exhaust the bounds, because the
/// consumer may be waiting for this task. Kept elements do not count for this credit; granted, in-flight and
/// waiting elements do.
pub fn distribute(bounds: &Bounds, tasks: &[Standing]) -> Vec<(TaskId, u64)> {
    let (mut free, mut free_bytes) = bounds.free(tasks);
    let is_keeping = tasks.iter().any(|task| task.kept > 0);
    let (mut beside, mut beside_bytes) = bounds.free_beside_kept(tasks);
    let sharers = tasks.iter().filter(|task| !task.is_over).count() as u64;
    let share = (bounds.elements(tasks) / sharers.max(1)).max(1);
    let most = |task: &Standing| {
        if is_keeping {
            share.saturating_sub(task.held())
        } else {
            u64::MAX
        }
    };
    let mut eligible: Vec<&Standing> = tasks
        .iter()
        .filter(|task| task.is_eligible && most(task) > 0)
        .collect();
    eligible.sort_by_key(|task| (task.outstanding, task.granted_at, task.task));
    let mut grants = Vec::with_capacity(eligible.len());
    // The level to which all tasks are filled. A task above the level keeps its credits.
    let level = level(&eligible, free);
    let mut spare = free.saturating_sub(
        eligible
            .iter()
            .map(|task| level.saturating_sub(task.outstanding))
            .sum(),
    );
    for task in eligible {
        let mut wanted = level.saturating_sub(task.outstanding);
        if spare > 0 && task.outstanding <= level {
            wanted += 1;
            spare -= 1;
        }
        let fits_beside = beside > 0 && beside_bytes >= worth(task);
        let least = u64::from(is_keeping && task.held() == 0 && fits_beside);
        let granted = wanted
            .min(most(task))
            .min(free)
            .min(free_bytes / worth(task))
            .max(least);
        free = free.saturating_sub(granted);
        free_bytes = free_bytes.saturating_sub(granted * worth(task));
        beside = beside.saturating_sub(granted);
        beside_bytes = beside_bytes.saturating_sub(granted * worth(task));
        if granted > 0 {
            grants.push((task.task, granted));
        }
    }
    grants
}

/// Returns the grants in a coordinated read, whose elements are handed over in turn. `tasks` must ascend by
/// number. `window` lists, in the order of turns, how many of the allowed turns each task has.
///
/// The reader requests only the elements that it hands over next. A task without a ready element keeps its
/// place (D7.6), because the reader could not hand over another task's elements first.
///
/// The task with the next turn gets a credit if it has none, even beyond the bounds. The other tasks wait for
/// this task, and their credits may exceed bounds that have shrunk since.
pub fn distribute_in_turn(
    bounds: &Bounds,
    tasks: &[Standing],
    window: &[(TaskId, u64)],
) -> Vec<(TaskId, u64)> {
    let (mut free, mut free_bytes) = bounds.free(tasks);
    let mut grants = Vec::new();
    for (index, (task, turns)) in window.iter().enumerate() {
        let place = tasks.binary_search_by_key(task, |standing| standing.task);
        let standing = place.ok().and_then(|place| tasks.get(place));
        let Some(standing) = standing.filter(|standing| standing.is_eligible) else {
            continue;
        };
        let held = standing.outstanding + standing.waiting;
        let wanted = turns.saturating_sub(held).min(free);
        let least = u64::from(index == 0 && held == 0).min(*turns);
        let granted = wanted.min(free_bytes / worth(standing)).max(least);
        free = free.saturating_sub(granted);
        free_bytes = free_bytes.saturating_sub(granted * worth(standing));
        if granted > 0 {
            grants.push((*task, granted));
        }
    }
    grants
}

fn worth(task: &Standing) -> u64 {
    task.element_bytes.max(1)
}

/// Returns the highest level to which `free` credits fill all tasks. The tasks must be sorted by their
/// outstanding credits.
fn level(eligible: &[&Standing], free: u64) -> u64 {
    let mut sum = free;
    let mut level = 0;
    for (index, task) in eligible.iter().enumerate() {
        if index > 0 && task.outstanding >= level {
            break;
        }
        sum += task.outstanding;
        level = sum / (index as u64 + 1);
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn standing(task: u64, outstanding: u64, waiting: u64, is_eligible: bool, granted_at: u64) -> Standing {
        Standing {
            task: TaskId(task),
            outstanding,
            waiting,
            kept: 0,
            is_local: false,
            is_over: false,
            element_bytes: 1024,
            is_eligible,
            granted_at,
        }
    }

    fn bounds(elements: u64) -> Bounds {
        Bounds {
            max_outstanding: MaxOutstanding::Elements(elements),
            auto_bytes: 0,
            shared: None,
            max_outstanding_bytes: u64::MAX,
        }
    }

    #[test]
    fn copyless_elements_stay_outstanding_whatever_their_size() {
        let mut tasks = [standing(0, 0, 0, true, 0), standing(1, 0, 0, true, 0)];
        for task in &mut tasks {
            task.element_bytes = 64 << 20;
        }
        let auto = Bounds {
            max_outstanding: MaxOutstanding::Auto,
            auto_bytes: 2 << 20,
            shared: None,
            max_outstanding_bytes: u64::MAX,
        };
        assert_eq!(auto.elements(&tasks), 4);
        tasks[1].is_local = true;
        assert_eq!(auto.elements(&tasks), 2 + AUTO_ELEMENTS_LOCAL);
        // The limit of bytes applies to local tasks too.
        let bounded = Bounds {
            max_outstanding_bytes: 256 << 20,
            ..auto
        };
        assert_eq!(
            distribute(&bounded, &tasks)
                .iter()
                .map(|grant| grant.1)
                .sum::<u64>(),
            4
        );
    }

    fn auto(shared: Option<u64>) -> Bounds {
        Bounds {
            max_outstanding: MaxOutstanding::Auto,
            auto_bytes: 2 << 20,
            shared,
            max_outstanding_bytes: u64::MAX,
        }
    }

    #[test]
    fn tasks_without_elements_do_not_shrink_auto() {
        let gone = Standing {
            element_bytes: CREDIT_BYTES_UNKNOWN,
            ..standing(0, 0, 0, false, 0)
        };
        assert_eq!(auto(None).elements(&[standing(1, 0, 0, true, 0), gone]), 2048);
    }

    /// D4.8
    #[test]
    fn auto_follows_what_a_sharing_reader_hands_over() {
        let tasks = [standing(0, 0, 0, true, 0), standing(1, 0, 0, true, 0)];
        let elements = |handed| auto(Some(handed)).elements(&tasks);
        assert_eq!([0, 1, 100, 1 << 20].map(elements), [4, 5, 104, 2048]);
    }

    #[test]
    fn seven_credits_over_three_tasks_are_all_granted() {
        let tasks: Vec<_> = (0..3).map(|task| standing(task, 0, 0, true, 0)).collect();
        let mut granted: Vec<_> = distribute(&bounds(7), &tasks)
            .iter()
            .map(|grant| grant.1)
            .collect();
        granted.sort_unstable();
        assert_eq!(granted, [2, 2, 3]);
    }

    #[test]
    fn one_credit_goes_round() {
        let tasks = [
            standing(0, 0, 0, true, 5),
            standing(1, 0, 0, true, 3),
            standing(2, 0, 0, true, 4),
        ];
        assert_eq!(distribute(&bounds(1), &tasks), [(TaskId(1), 1)]);
    }

    #[test]
    fn a_parked_task_gets_nothing() {
        let tasks = [standing(0, 0, 0, false, 0), standing(1, 0, 0, true, 9)];
        assert_eq!(distribute(&bounds(4), &tasks), [(TaskId(1), 4)]);
    }

    #[test]
    fn bytes_bound_what_elements_would_allow() {
        let limits = Bounds {
            max_outstanding: MaxOutstanding::Elements(100),
            auto_bytes: 0,
            shared: None,
            max_outstanding_bytes: 10 * 1024,
        };
        assert_eq!(
            distribute(&limits, &[standing(0, 0, 0, true, 0)]),
            [(TaskId(0), 10)]
        );
    }

    #[test]
    fn tasks_ahead_leave_the_others_their_share() {
        let ahead = |kept| Standing {
            kept,
            ..standing(0, 0, 0, true, 0)
        };
        let late = standing(1, 1, 0, true, 9);
        assert_eq!(
            distribute(&bounds(8), &[ahead(1), late]),
            [(TaskId(0), 3), (TaskId(1), 2)]
        );
        assert_eq!(distribute(&bounds(8), &[ahead(4), late]), [(TaskId(1), 3)]);
        // Each task without credits gets one credit, as far as the bounds allow if kept elements do not
        // count.
        let none = |task| standing(task, 0, 0, true, 9);
        assert_eq!(distribute(&bounds(2), &[ahead(3), none(1)]), [(TaskId(1), 1)]);
        assert_eq!(
            distribute(&bounds(2), &[ahead(3), none(1), none(2), none(3)]).len(),
            2
        );
        let under_way = Standing {
            kept: 1,
            ..standing(0, 2, 0, true, 0)
        };
        assert_eq!(distribute(&bounds(2), &[under_way, none(1)]), []);
    }

    /// D7.6: a task without a ready element keeps its place; otherwise the tasks after it would take the only
    /// credit.
    #[test]
    fn credits_in_turn_never_pass_a_parked_task() {
        let tasks = [standing(1, 0, 0, false, 0), standing(2, 0, 0, true, 0)];
        let of = |shares: [u64; 2]| [(TaskId(1), shares[0]), (TaskId(2), shares[1])];
        assert_eq!(distribute_in_turn(&bounds(1), &tasks, &of([1, 0])), []);
        assert_eq!(
            distribute_in_turn(&bounds(3), &tasks, &of([2, 1])),
            [(TaskId(2), 1)]
        );
    }

    #[test]
    fn the_next_turn_has_credit_whatever_bytes_remain() {
        let full = Bounds {
            max_outstanding_bytes: 4096,
            ..bounds(10)
        };
        let tasks = [standing(1, 0, 0, true, 0), standing(2, 2, 2, true, 0)];
        let window = [(TaskId(1), 5), (TaskId(2), 5)];
        assert_eq!(distribute_in_turn(&full, &tasks, &window), [(TaskId(1), 1)]);
        let window = [(TaskId(2), 5), (TaskId(1), 5)];
        assert_eq!(distribute_in_turn(&full, &tasks, &window), []);
    }

    /// D7.6: `Auto` may have shrunk since the other tasks received their credits.
    #[test]
    fn the_next_turn_has_credit_however_many_remain() {
        let tasks = [standing(1, 0, 0, true, 0), standing(2, 10, 10, true, 0)];
        let window = [(TaskId(1), 3), (TaskId(2), 2)];
        assert_eq!(distribute_in_turn(&bounds(5), &tasks, &window), [(TaskId(1), 1)]);
        let window = [(TaskId(2), 3), (TaskId(1), 2)];
        assert_eq!(distribute_in_turn(&bounds(5), &tasks, &window), []);
    }

    proptest! {
        /// D4.2, D7.6: the outstanding elements stay within the bound, except for the next turn. No task gets
        /// more credits than it has turns in the window.
        #[test]
        fn turns_are_granted_to_the_windows_end(
            limit in 0u64..60,
            state in proptest::collection::vec((0u64..10, 0u64..10, any::<bool>(), 0u64..20), 0..8),
        ) {
            let tasks: Vec<_> = state.iter().enumerate()
                .map(|(task, &(outstanding, waiting, eligible, _))| standing(task as u64, outstanding, waiting, eligible, 0))
                .collect();
            let window: Vec<_> = state.iter().enumerate().map(|(task, of)| (TaskId(task as u64), of.3)).collect();
            let grants = distribute_in_turn(&bounds(limit), &tasks, &window);
            let mut free = limit.saturating_sub(tasks.iter().map(|task| task.outstanding + task.waiting).sum());
            for (index, (task, turns)) in window.into_iter().enumerate() {
                let of = &tasks[task.0 as usize];
                let held = of.outstanding + of.waiting;
                let wanted = if of.is_eligible { turns.saturating_sub(held) } else { 0 };
                let next = u64::from(index == 0 && held == 0).min(wanted);
                let granted = grants.iter().find(|grant| grant.0 == task).map_or(0, |grant| grant.1);
                prop_assert_eq!(granted, wanted.min(free).max(next));
                free = free.saturating_sub(granted);
            }
        }

        /// The oracle grants credits one at a time to the task with the fewest credits.
        #[test]
        fn free_credits_are_granted_evenly(
            limit in 0u64..200,
            state in proptest::collection::vec((0u64..40, 0u64..20, any::<bool>()), 0..8),
        ) {
            let tasks: Vec<_> = state.iter().enumerate()
                .map(|(index, &(outstanding, waiting, eligible))| standing(index as u64, outstanding, waiting, eligible, index as u64))
                .collect();
            let mut model: Vec<u64> = tasks.iter().map(|task| task.outstanding).collect();
            let in_use: u64 = tasks.iter().map(|task| task.outstanding + task.waiting).sum();
            for _ in in_use..limit {
                let fewest = tasks.iter().enumerate().filter(|(_, task)| task.is_eligible).min_by_key(|(index, _)| model[*index]);
                if let Some((index, _)) = fewest { model[index] += 1; }
            }
            let mut granted: Vec<u64> = tasks.iter().map(|task| task.outstanding).collect();
            for (task, credits) in distribute(&bounds(limit), &tasks) { granted[task.0 as usize] += credits; }
            let sorted = |mut counts: Vec<u64>| { counts.sort_unstable(); counts };
            prop_assert_eq!(sorted(granted), sorted(model));
        }
    }
}
