//! Who gets the credits that are free: a fixed number of them over all tasks of an iteration.
//!
//! Pure arithmetic: it is shown where each task stands and answers with grants. Refuses to know links and elements.
//!
//! The rule: tasks that can use credits are filled evenly, those that wait longest first, so that with one credit it
//! goes round; a task that gave its credits back gets none until it says that something is ready.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_dataplane::TaskId;

/// What a credit of a task is worth whose elements vary in size, in bytes, until a larger one is met.
pub const CREDIT_BYTES_UNKNOWN: u64 = 4096;

/// How many elements may be outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaxOutstanding {
    /// As many as keep the network busy, by the rate and the round-trip time; two for each task at least.
    #[default]
    Auto,
    /// Exactly so many.
    Elements(u64),
}

/// Elements that `Auto` keeps outstanding at most.
pub const AUTO_ELEMENTS_MAX: u64 = 1 << 17;

/// Where one task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The task.
    pub task: TaskId,
    /// Credits granted whose elements have not arrived.
    pub outstanding: u64,
    /// Elements that arrived and were not handed over.
    pub waiting: u64,
    /// What a credit is worth, in bytes.
    pub element_bytes: u64,
    /// Whether a credit is of use: subscribed, not ended, not parked.
    pub is_eligible: bool,
    /// When it was granted something last, by count of grants; smaller is longer ago.
    pub granted_at: u64,
}

/// The bounds of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Elements outstanding: granted, in flight or not handed over, over all tasks.
    pub max_outstanding: MaxOutstanding,
    /// What `Auto` comes to, in bytes.
    pub auto_bytes: u64,
    /// Bytes reserved for them.
    pub max_outstanding_bytes: u64,
}

impl Bounds {
    /// The number of elements that may be outstanding now.
    pub fn elements(&self, tasks: &[Standing]) -> u64 {
        match self.max_outstanding {
            MaxOutstanding::Elements(elements) => elements,
            MaxOutstanding::Auto => {
                let largest = tasks.iter().map(worth).max().unwrap_or(CREDIT_BYTES_UNKNOWN);
                (self.auto_bytes / largest)
                    .min(AUTO_ELEMENTS_MAX)
                    .max(2 * tasks.len() as u64)
            }
        }
    }

    /// Whether an element of this size can ever be granted.
    pub fn can_hold(&self, element_bytes: u64) -> bool {
        element_bytes <= self.max_outstanding_bytes
    }
}

/// The grants to make now: no more than the bounds leave (D4.2), spread evenly.
pub fn distribute(bounds: &Bounds, tasks: &[Standing]) -> Vec<(TaskId, u64)> {
    let limit = bounds.elements(tasks);
    let in_use: u64 = tasks.iter().map(|task| task.outstanding + task.waiting).sum();
    let reserved: u64 = tasks
        .iter()
        .map(|task| (task.outstanding + task.waiting) * worth(task))
        .sum();
    let mut free = limit.saturating_sub(in_use);
    let mut free_bytes = bounds.max_outstanding_bytes.saturating_sub(reserved);
    let mut eligible: Vec<&Standing> = tasks.iter().filter(|task| task.is_eligible).collect();
    eligible.sort_by_key(|task| (task.outstanding, task.granted_at, task.task));
    let mut grants = Vec::with_capacity(eligible.len());
    // The level to which everybody is filled; whoever stands above it already keeps what it has.
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
        let granted = wanted.min(free).min(free_bytes / worth(task));
        free -= granted;
        free_bytes -= granted * worth(task);
        if granted > 0 {
            grants.push((task.task, granted));
        }
    }
    grants
}

fn worth(task: &Standing) -> u64 {
    task.element_bytes.max(1)
}

/// The highest level to which `free` credits fill all tasks, given in order of what they have.
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
            element_bytes: 1024,
            is_eligible,
            granted_at,
        }
    }

    fn bounds(elements: u64) -> Bounds {
        Bounds {
            max_outstanding: MaxOutstanding::Elements(elements),
            auto_bytes: 0,
            max_outstanding_bytes: u64::MAX,
        }
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
            max_outstanding_bytes: 10 * 1024,
        };
        assert_eq!(
            distribute(&limits, &[standing(0, 0, 0, true, 0)]),
            [(TaskId(0), 10)]
        );
    }

    proptest! {
        /// The oracle gives credits one at a time to the task that has the fewest.
        #[test]
        fn everything_free_is_granted_as_evenly_as_one_by_one(
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
