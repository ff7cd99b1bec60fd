//! The number and the duration of the attempts to reach the dispatcher.
//!
//! Pure. This file owns the messages about waiting for the dispatcher.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use tokio::time::Instant;

/// The duration below which a wait is not reported.
const UNTOLD: Duration = Duration::from_secs(1);

/// The attempts since the connection was lost, or since the session began.
#[derive(Debug, Default)]
pub(super) struct Tries {
    since: Option<Instant>,
    attempts: u64,
}

impl Tries {
    /// Notes that an attempt begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
        self.attempts += 1;
    }

    /// Notes that an attempt succeeded.
    pub(super) fn succeed(&mut self) {
        *self = Tries::default();
    }

    /// Returns the time since the first of these attempts.
    pub(super) fn lasted(&self, now: Instant) -> Duration {
        let since = self.since.map(|since| now.saturating_duration_since(since));
        since.unwrap_or_default()
    }

    /// Returns the message for the end of a wait for `address`. `last` is the reason for which the last
    /// finished attempt failed.
    pub(super) fn ended(&self, now: Instant, address: &str, last: Option<&str>) -> String {
        let lasted = seconds(self.lasted(now));
        let Some(last) = last else {
            return format!(
                "the dispatcher at {address} could not be reached within {lasted}: the first attempt has had no answer yet. Check \
                 that a dispatcher runs there and that UDP can reach it"
            );
        };
        let noun = if self.attempts == 1 { "attempt" } else { "attempts" };
        format!(
            "the dispatcher at {address} could not be reached within {lasted}, in {} {noun}, the last of which failed: {last}",
            self.attempts
        )
    }

    /// Returns the message for a continuing wait for `address`. `None` during the first second, so that a
    /// program which is about to end prints no warning.
    pub(super) fn waiting(&self, now: Instant, address: &str, last: &str) -> Option<String> {
        let lasted = self.lasted(now);
        let lasted = (lasted >= UNTOLD).then(|| seconds(lasted))?;
        Some(format!(
            "waiting for the dispatcher at {address} for {lasted}: {last}"
        ))
    }
}

/// Formats a time: whole seconds from 2 s on, tenths of seconds below.
fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(2) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{:.0} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
    fn the_end_of_a_wait_has_its_duration() {
        let start = Instant::now();
        let mut tries = Tries::default();
        for attempt in 0..14 {
            tries.begin(start + Duration::from_secs(4 * attempt));
        }
        let now = start + Duration::from_secs(60);
        let said = tries.ended(now, "here:1", Some("no answer within 3000 ms"));
        let expected = "the dispatcher at here:1 could not be reached within 60 s, in 14 attempts, the last of which failed: no \
                        answer within 3000 ms";
        assert_eq!(said, expected);
        let said = tries.waiting(now, "here:1", "no answer");
        assert_eq!(
            said.as_deref(),
            Some("waiting for the dispatcher at here:1 for 60 s: no answer")
        );
        let said = tries.waiting(now - Duration::from_secs(60), "here:1", "it is busy");
        assert_eq!(said, None);
        tries.succeed();
        tries.begin(now);
        assert_eq!(tries.lasted(now), Duration::ZERO);
        let said = tries.ended(now + Duration::from_secs(1), "here:1", None);
        assert!(
            said.contains("within 1.0 s: the first attempt has had no answer yet"),
            "{said}"
        );
    }
}
