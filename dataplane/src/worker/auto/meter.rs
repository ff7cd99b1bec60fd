//! Measures where one task's credits are, which shows the bottleneck, and how much the link delivers
//! meanwhile.
//!
//! The speed of a link can be measured only while the link is the bottleneck. quinn's congestion window and
//! bytes in flight do not show the bottleneck. With credits as the limiter a window is rarely full, and a
//! queue in the network looks like a longer distance.
//!
//! The credits show the bottleneck. A fixed number of credits circulates between producer, link and consumer,
//! and the credits gather before the slowest of the three. If the producer is slow, free credits gather at
//! the worker. If the link is slow, packs are sent and not acknowledged (D6.2). If the consumer is slow,
//! elements wait at the reader (D4.6).
//!
//! While most credits are on the link, the rate of acknowledgements is the capacity of the link. Round trips
//! and late acknowledgements need no correction.
//!
//! If the credits are too few for the distance, all credits are on the link as well. In that case an element
//! takes hardly longer than the link's shortest round trip.
//!
//! The measurement is valid for plain packs only. Compressed packs are so short that compression and late
//! acknowledgements would look like the link.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Minimum duration of a window. Some readers acknowledge only every 5 ms.
const WINDOW: Duration = Duration::from_millis(50);

/// Minimum number of packs acknowledged in a window, because the counts at both ends of a window may be off
/// by one.
const WINDOW_PACKS: u32 = 8;

/// The fraction of credits on the link from which on the link counts as the bottleneck.
const LIMITING: f64 = 0.6;

/// The number of shortest round trips below which the time of an element on the link shows that distance is
/// the limit.
const DISTANT: f64 = 1.25;

/// The content of a client's grant, and the state of the subscription after the grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The number of elements that the reader has received.
    pub(crate) received: u64,
    /// The number of received elements that wait at the reader.
    pub(crate) waiting: u64,
    /// The number of credits that are not spent.
    pub(crate) unspent: u64,
    /// The link's smoothed round-trip time, if it has one.
    pub(crate) round_trip: Option<Duration>,
}

/// The measurements of one window of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Window {
    /// The throughput of the window in bytes of elements per second. Counts the elements that arrived, or
    /// those handed over if they are fewer: filling or draining the reader's buffer is not throughput.
    pub(super) rate: f64,
    /// True if the link was the bottleneck.
    pub(super) is_link_limited: bool,
}

/// The meter of one task on one link. All counts are in elements, unless named bytes.
#[derive(Debug)]
pub(super) struct Meter {
    /// The packs that were taken and not acknowledged, in order.
    packs: VecDeque<Flight>,
    taken: u64,
    on_link: u64,
    unspent: u64,
    waiting: u64,
    /// True if the task had no element although credits were available.
    is_starved: bool,
    handed: u64,
    /// True after the first grant. The counts are known only from the first grant on, because a resumed link
    /// begins at any element.
    is_begun: bool,
    round_trip_min: Option<Duration>,
    now: Instant,
    /// The element up to which packs were sent in another form. A window begins after their acknowledgement.
    settled_at: u64,
    /// True while packs that were sent in another form are not acknowledged. The grant that acknowledges the
    /// last of them opens the window. The packs of that grant do not count, because the grant also
    /// acknowledges packs that overtook, all at once.
    is_settling: bool,
    window: Open,
}

#[derive(Debug)]
struct Flight {
    /// The number of elements of the subscription up to the end of the pack.
    end: u64,
    elements: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Open {
    since: Instant,
    /// The number of elements handed over before the window began.
    handed_before: u64,
    packs: u32,
    elements: u64,
    bytes: u64,
    /// The credits on the link, and all credits, each multiplied by seconds.
    on_link: f64,
    anywhere: f64,
}

impl Open {
    fn new(since: Instant, handed_before: u64) -> Self {
        Self {
            since,
            handed_before,
            packs: 0,
            elements: 0,
            bytes: 0,
            on_link: 0.0,
            anywhere: 0.0,
        }
    }
}

impl Meter {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            packs: VecDeque::new(),
            taken: 0,
            on_link: 0,
            unspent: 0,
            waiting: 0,
            is_starved: false,
            handed: 0,
            is_begun: false,
            round_trip_min: None,
            now,
            settled_at: 0,
            is_settling: false,
            window: Open::new(now, 0),
        }
    }

    /// Records a pack that ends after the subscription's first `end` elements.
    pub(super) fn note_taken(&mut self, now: Instant, end: u64, elements: u64, bytes: u64) {
        self.pass_time(now);
        self.is_starved = false;
        self.unspent = self.unspent.saturating_sub(elements);
        self.on_link += elements;
        self.taken = end;
        self.packs.push_back(Flight { end, elements, bytes });
    }

    /// Records that the task has no element ready.
    pub(super) fn note_starved(&mut self, now: Instant) {
        self.pass_time(now);
        self.is_starved = true;
    }

    /// Records a grant. Returns the window that ends with the grant, if any.
    pub(super) fn note_grant(&mut self, now: Instant, standing: Standing) -> Option<Window> {
        self.pass_time(now);
        let acknowledged = standing.received;
        while let Some(pack) = self.packs.pop_front_if(|pack| pack.end <= acknowledged) {
            self.on_link = self.on_link.saturating_sub(pack.elements);
            self.window.packs += 1;
            self.window.elements += pack.elements;
            self.window.bytes += pack.bytes;
        }
        (self.unspent, self.waiting) = (standing.unspent, standing.waiting);
        // Elements that arrived out of order may be among the waiting elements, so the count must not
        // decrease.
        self.handed = self.handed.max(acknowledged.saturating_sub(standing.waiting));
        if let Some(round_trip) = standing.round_trip {
            let least = self
                .round_trip_min
                .map_or(round_trip, |least| least.min(round_trip));
            self.round_trip_min = Some(least);
        }
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        let was_settling = self.is_settling;
        self.is_settling = acknowledged < self.settled_at;
        if !is_begun || was_settling || self.is_settling {
            self.window = Open::new(now, self.handed);
            return None;
        }
        let elapsed = now.saturating_duration_since(self.window.since);
        if elapsed < WINDOW || self.window.packs < WINDOW_PACKS {
            return None;
        }
        let open = std::mem::replace(&mut self.window, Open::new(now, self.handed));
        Some(self.sum_up(&open, elapsed.as_secs_f64()))
    }

    /// Closes the window. The next window begins after everything sent so far is acknowledged.
    pub(super) fn settle(&mut self) {
        (self.settled_at, self.is_settling) = (self.taken, true);
        self.window = Open::new(self.now, self.handed);
    }

    fn sum_up(&self, open: &Open, seconds: f64) -> Window {
        let round_trip = self.round_trip_min.map_or(0.0, |least| least.as_secs_f64());
        let elements = open.elements.max(1) as f64;
        let on_link_each = open.on_link / elements;
        let handed = self.handed.saturating_sub(open.handed_before) as f64;
        Window {
            rate: open.bytes as f64 * (handed / elements).min(1.0) / seconds,
            is_link_limited: open.on_link >= LIMITING * open.anywhere && on_link_each >= DISTANT * round_trip,
        }
    }

    /// Adds the time since the last event to the window. Unspent credits count for the link, unless the
    /// producer has no element.
    fn pass_time(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.now).as_secs_f64();
        self.now = self.now.max(now);
        let on_link = self.on_link + if self.is_starved { 0 } else { self.unspent };
        let anywhere = self.on_link + self.unspent + self.waiting;
        self.window.on_link += on_link as f64 * seconds;
        self.window.anywhere += anywhere as f64 * seconds;
    }
}
