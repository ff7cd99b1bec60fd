//! Workers out of reach, or without the tasks that the dispatcher says they have: how long, what the user hears, and when that ends
//! reading.
//!
//! Such a worker keeps no other from being read (D3.5). It is tried again for as long as its tasks are wanted; reading fails only when
//! nothing else is left and the time to give up has passed. Refuses to know links and elements.

use std::time::Duration;

use millstream_dataplane::proto::message::ToWorker;
use tokio::time::Instant;

use crate::driver::NotConnected;
use crate::entry::Entry;
use crate::error::ReadError;
use crate::intake::Intake;
use crate::notice::Notice;
use crate::state::State;

/// How long a trouble lasts before the user hears of it: most are over sooner, or the dispatcher gives the worker up.
const TELL_AFTER: Duration = Duration::from_secs(10);

/// How often the user hears of it again.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// First wait before a worker is asked again for a task that it did not know; doubled each time. About as long as the
/// dispatcher takes to say what became of it.
const ASK_AGAIN_MIN: Duration = Duration::from_millis(20);

/// Longest wait between two such questions. Readers of hundreds of workers must not spend an overloaded host's time on them.
const ASK_AGAIN_MAX: Duration = Duration::from_secs(15);

/// A worker that does not know its task lives, and has it soon or is given up by the dispatcher. It is waited for this many times longer.
const UNKNOWN_GIVE_UPS: u32 = 4;

/// Times at which the dispatcher was out of reach: then nobody said whether workers live, and the fault may be this host's.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    past: Duration,
    since: Option<Instant>,
}

impl Outages {
    fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    fn end(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.past += now.saturating_duration_since(since);
        }
    }

    /// Whether it is out of reach now.
    pub(crate) fn is_open(&self) -> bool {
        self.since.is_some()
    }

    /// How long it was out of reach by now.
    fn total(&self, now: Instant) -> Duration {
        let open = self.since.map(|since| now.saturating_duration_since(since));
        self.past + open.unwrap_or_default()
    }
}

/// A trouble with one worker or task. Only time counts in which the dispatcher is in reach.
#[derive(Debug)]
pub(crate) struct Trouble {
    since: Instant,
    outages: Duration,
    tell_at: Duration,
}

impl Trouble {
    pub(crate) fn begin(now: Instant, outages: &Outages) -> Self {
        Self {
            since: now,
            outages: outages.total(now),
            tell_at: TELL_AFTER,
        }
    }

    /// The same, of which the user hears after another time.
    pub(crate) fn told_after(self, tell_at: Duration) -> Self {
        Self { tell_at, ..self }
    }

    pub(crate) fn lasted(&self, now: Instant, outages: &Outages) -> Duration {
        let missed = outages.total(now).saturating_sub(self.outages);
        now.saturating_duration_since(self.since).saturating_sub(missed)
    }

    /// Whether the user is to hear of it, having lasted so long.
    pub(crate) fn is_to_tell(&mut self, lasted: Duration) -> bool {
        let is_due = lasted >= self.tell_at;
        if is_due {
            self.tell_at = lasted + TELL_EVERY;
        }
        is_due
    }
}

/// A task that its worker does not know (D3.1, D3.2).
#[derive(Debug)]
pub(crate) struct Unknown {
    trouble: Trouble,
    /// What the worker said last.
    reason: String,
    /// When it is asked again; `None`: it was, and has not answered.
    ask_at: Option<Instant>,
    pause: Duration,
}

impl Entry {
    /// The worker does not know the task.
    pub(crate) fn note_unknown(&mut self, reason: &str, now: Instant, outages: &Outages) {
        let unknown = self.unknown.get_or_insert_with(|| Unknown {
            trouble: Trouble::begin(now, outages),
            reason: String::new(),
            ask_at: None,
            pause: ASK_AGAIN_MIN,
        });
        reason.clone_into(&mut unknown.reason);
        unknown.ask_at = Some(now + unknown.pause);
        unknown.pause = (2 * unknown.pause).min(ASK_AGAIN_MAX);
    }
}

impl State {
    /// Why nothing further can come, if all that is still wanted is at workers that were given up.
    pub(crate) fn stuck(&self) -> Option<&ReadError> {
        if !self.has_given_up {
            return None;
        }
        let mut why = None;
        for entry in self.tasks.values().filter(|entry| entry.is_wanted()) {
            let outbox = self.links.get(&entry.worker);
            let given_up = entry.given_up.as_ref();
            let given_up = given_up.or_else(|| outbox.and_then(|outbox| outbox.given_up.as_ref()));
            match given_up {
                Some(error) => why = why.or(Some(error)),
                // In a coordinated read the others wait for its turn.
                None if self.schedule.is_some() => {}
                None => return None,
            }
        }
        why
    }

    /// A worker has answered for a task: whatever kept it is over.
    pub(crate) fn note_answer(&mut self, worker: &str) {
        if let Some(outbox) = self.links.get_mut(worker) {
            (outbox.trouble, outbox.given_up) = (None, None);
        }
    }
}

impl NotConnected {
    /// The error that it is after so long.
    fn error(&self, worker: &str, after: Duration) -> ReadError {
        let (worker, reason, after_s) = (worker.to_owned(), self.reason.clone(), after.as_secs());
        if self.is_full {
            ReadError::WorkerFull {
                worker,
                reason,
                after_s,
            }
        } else {
            ReadError::WorkerUnreachable {
                worker,
                reason,
                after_s,
            }
        }
    }
}

impl Intake {
    /// Notes whether the dispatcher is in reach.
    pub(crate) fn note_contact(&self, is_up: bool) {
        let now = Instant::now();
        let outages = &mut self.state.lock().outages;
        if is_up {
            outages.end(now);
        } else {
            outages.begin(now);
        }
    }

    /// Notes that a link to a worker stood for a while.
    pub(crate) fn note_stood(&self, worker: &str) {
        self.state.lock().note_answer(worker);
    }

    /// Notes an attempt to reach a worker that came to nothing. Out of reach for `give_up` it is waited for no longer than for
    /// others; if it ran a task that is known to have failed, that is the error.
    pub(crate) fn note_failed_attempt(&self, worker: &str, failed: &NotConnected, give_up: Duration) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let State { links, outages, .. } = &mut *state;
        let Some(outbox) = links.get_mut(worker) else {
            return;
        };
        let trouble = outbox.trouble.get_or_insert_with(|| Trouble::begin(now, outages));
        let lasted = trouble.lasted(now, outages);
        let is_to_tell = trouble.is_to_tell(lasted);
        if lasted > give_up {
            outbox.given_up = Some(failed.error(worker, lasted));
            state.has_given_up = true;
            let mut of_worker = state.tasks.values();
            let told = of_worker.find_map(|entry| {
                let is_of_worker = &*entry.worker == worker && entry.is_wanted();
                is_of_worker.then(|| entry.told_failure()).flatten()
            });
            state.failure = state.failure.take().or(told);
        }
        self.wake(&state);
        drop(state);
        if is_to_tell {
            self.notices().tell(&Notice::WorkerUnreachable {
                worker: worker.to_owned(),
                reason: failed.reason.clone(),
                since_s: lasted.as_secs(),
            });
        }
    }

    /// Asks again for tasks that their workers did not know. One that stays unknown for four times `give_up` is waited for no longer
    /// than for others (D3.1, D3.5).
    pub(crate) fn ask_again(&self, give_up: Duration) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let State {
            tasks,
            links,
            outages,
            has_given_up,
            ..
        } = &mut *state;
        let mut notices = Vec::new();
        for entry in tasks.values_mut().filter(|entry| entry.is_wanted()) {
            let Some(unknown) = &mut entry.unknown else {
                continue;
            };
            let lasted = unknown.trouble.lasted(now, outages);
            let (worker, task) = (entry.worker.to_string(), entry.source.task.0);
            if unknown.trouble.is_to_tell(lasted) {
                notices.push(Notice::TaskUnknown {
                    worker: worker.clone(),
                    task,
                    since_s: lasted.as_secs(),
                });
            }
            if lasted > give_up * UNKNOWN_GIVE_UPS {
                let reason = unknown.reason.clone();
                entry.given_up = Some(ReadError::Refused { worker, task, reason });
                *has_given_up = true;
            }
            let is_due = unknown.ask_at.is_some_and(|at| at <= now);
            if let Some(outbox) = links
                .get_mut(&entry.worker)
                .filter(|outbox| outbox.is_up && is_due)
            {
                unknown.ask_at = None;
                outbox.push(ToWorker::Subscribe(entry.subscribe()));
            }
        }
        self.wake(&state);
        drop(state);
        for notice in notices {
            self.notices().tell(&notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_counts_while_the_dispatcher_speaks() {
        let start = Instant::now();
        let mut outages = Outages::default();
        outages.begin(start);
        outages.end(start + 5 * SECOND);
        let trouble = Trouble::begin(start + 5 * SECOND, &outages);
        assert_eq!(trouble.lasted(start + 8 * SECOND, &outages), 3 * SECOND);
        outages.begin(start + 8 * SECOND);
        outages.begin(start + 9 * SECOND);
        assert_eq!(trouble.lasted(start + 70 * SECOND, &outages), 3 * SECOND);
        outages.end(start + 70 * SECOND);
        outages.end(start + 71 * SECOND);
        assert_eq!(trouble.lasted(start + 74 * SECOND, &outages), 7 * SECOND);
    }

    #[test]
    fn users_hear_late_and_then_seldom() {
        let mut trouble = Trouble::begin(Instant::now(), &Outages::default());
        let told = (0..100).filter(|second| trouble.is_to_tell(*second * SECOND));
        assert_eq!(told.collect::<Vec<u32>>(), [10, 40, 70]);
    }
}
