//! Decides whether the other process still runs. Each end sends a heartbeat every second. A peer that is
//! silent for too long is stopped or blocked, even if its socket is open (D10.8).
//!
//! The module is pure: the caller passes in the time. The transport of heartbeats is unknown to it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::{Duration, Instant};

/// The time between two heartbeats of an end. The time is long enough that a host with many links spends
/// almost nothing on heartbeats.
pub(super) const BEAT_EVERY: Duration = Duration::from_secs(1);

/// The longest silence of a peer: ten heartbeats, the same time as for a silent QUIC connection.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Pulse {
    beat_at: Instant,
    heard_at: Instant,
    asked_at: Instant,
}

/// The action that the caller should take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// No action is due before this time.
    At(Instant),
    /// A heartbeat is due.
    Beat,
    /// The peer was silent for too long.
    Silence,
}

impl Pulse {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            beat_at: now + BEAT_EVERY,
            heard_at: now,
            asked_at: now,
        }
    }

    /// Records that a message of the peer arrived.
    pub(super) fn handle_heard(&mut self, now: Instant) {
        self.heard_at = now;
    }

    /// Returns the action that is due now. Each heartbeat is due once.
    pub(super) fn poll(&mut self, now: Instant) -> Due {
        // A process that slept itself cannot know how long the peer was silent, so the silence is measured
        // from now on.
        if now.saturating_duration_since(self.asked_at) > SILENCE_MAX / 2 {
            self.heard_at = now;
        }
        self.asked_at = now;
        if now.saturating_duration_since(self.heard_at) > SILENCE_MAX {
            return Due::Silence;
        }
        if now < self.beat_at {
            return Due::At(self.beat_at);
        }
        self.beat_at = now + BEAT_EVERY;
        Due::Beat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "the tests count from an arbitrary instant"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    /// D10.8.
    #[test]
    fn a_beating_peer_is_never_silent() {
        let (start, mut beats) = (start(), 0);
        let mut pulse = Pulse::new(start);
        for tenth in 0..1000 {
            let now = start + BEAT_EVERY * tenth / 10;
            if tenth % 10 == 3 {
                pulse.handle_heard(now);
            }
            match pulse.poll(now) {
                Due::Beat => beats += 1,
                Due::At(due) => assert!(due > now && due <= now + BEAT_EVERY),
                Due::Silence => panic!("a peer with heartbeats counts as silent"),
            }
        }
        assert_eq!(beats, 99);
    }

    /// D10.8.
    #[test]
    fn a_sleeping_process_blames_no_peer() {
        let start = start();
        let mut pulse = Pulse::new(start);
        let mut now = start;
        while pulse.poll(now) != Due::Silence {
            now += BEAT_EVERY / 2;
            assert!(
                now < start + SILENCE_MAX * 2,
                "the silence of the peer is not detected"
            );
        }
        assert!(now > start + SILENCE_MAX);
        let mut pulse = Pulse::new(start);
        assert_eq!(pulse.poll(start + SILENCE_MAX * 100), Due::Beat);
    }
}
