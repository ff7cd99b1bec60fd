//! Measures how long a worker or the dispatcher is out of reach, and decides when to notify the user.
//!
//! This file does not know links, tasks and the consequences of an outage.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use tokio::time::Instant;

/// The duration of an outage before the user is notified. Most outages end sooner, or the dispatcher gives
/// the worker up.
const TELL_AFTER: Duration = Duration::from_secs(10);

/// The interval between repeated notices about the same outage.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// The first pause before the reader repeats a subscription to a task that its worker did not know. Each
/// repetition doubles the pause. The dispatcher usually explains the task's absence within such a pause.
const ASK_AGAIN_MIN: Duration = Duration::from_millis(20);

/// Longest pause between two repetitions of a subscription. Readers of hundreds of workers must not burden an
/// overloaded host with them.
const ASK_AGAIN_MAX: Duration = Duration::from_secs(15);

/// The total time for which the dispatcher was out of reach. During such an outage the reader cannot know
/// whether workers live, and the cause may be this host.
#[derive(Debug, Default)]
pub(super) struct Outages {
    past: Duration,
    since: Option<Instant>,
}

impl Outages {
    pub(super) fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    pub(super) fn end(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.past += now.saturating_duration_since(since);
        }
    }

    /// Returns whether the dispatcher is out of reach now.
    pub(super) fn is_open(&self) -> bool {
        self.since.is_some()
    }

    /// Returns how long the dispatcher was out of reach in total, up to `now`.
    fn total(&self, now: Instant) -> Duration {
        let open = self.since.map(|since| now.saturating_duration_since(since));
        self.past + open.unwrap_or_default()
    }
}

/// An outage of one worker or task. Only time during which the dispatcher is in reach counts.
#[derive(Debug)]
pub(super) struct Trouble {
    since: Instant,
    outages: Duration,
    tell_at: Duration,
}

impl Trouble {
    pub(super) fn begin(now: Instant, outages: &Outages) -> Self {
        Self {
            since: now,
            outages: outages.total(now),
            tell_at: TELL_AFTER,
        }
    }

    /// Returns this outage with another time before the first notice.
    pub(super) fn told_after(self, tell_at: Duration) -> Self {
        Self { tell_at, ..self }
    }

    pub(super) fn lasted(&self, now: Instant, outages: &Outages) -> Duration {
        let missed = outages.total(now).saturating_sub(self.outages);
        now.saturating_duration_since(self.since).saturating_sub(missed)
    }

    /// Returns whether the user must be notified now, after the outage `lasted` this long.
    pub(super) fn is_to_tell(&mut self, lasted: Duration) -> bool {
        let is_due = lasted >= self.tell_at;
        if is_due {
            self.tell_at = lasted + TELL_EVERY;
        }
        is_due
    }
}

/// A task that its worker does not know (D3.1, D3.2).
#[derive(Debug)]
pub(super) struct Unknown {
    pub(super) trouble: Trouble,
    /// The reason in the latest answer of the worker.
    pub(super) reason: String,
    /// The time for repeating the subscription; `None` while the worker's answer is awaited.
    pub(super) ask_at: Option<Instant>,
    pause: Duration,
}

impl Unknown {
    pub(super) fn begin(now: Instant, outages: &Outages) -> Self {
        Self {
            trouble: Trouble::begin(now, outages),
            reason: String::new(),
            ask_at: None,
            pause: ASK_AGAIN_MIN,
        }
    }

    /// Notes that the worker answered again that it does not know the task.
    pub(super) fn note_answer(&mut self, reason: &str, now: Instant) {
        reason.clone_into(&mut self.reason);
        self.ask_at = Some(now + self.pause);
        self.pause = (2 * self.pause).min(ASK_AGAIN_MAX);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test may start at any time")]

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
