//! Measurement of one task's credits, which shows what holds the task up, and of the link's delivery
//! meanwhile.
//!
//! A link's speed is what it delivers while it is the one that is waited for, and only then. Neither quinn's
//! congestion window nor its bytes in flight tell that: with credits as the limiter a window is rarely full,
//! and a queue in the network looks like a distance. But the credits tell it. They are a fixed number of
//! places that go round producer, link and consumer, and they gather before the slowest of these: free ones
//! at the worker when the producer has nothing, packs sent and not acknowledged (D6.2), elements that wait at
//! the reader (D4.6). While most of them are on the link, the rate of acknowledgements is what the link can
//! carry. Round trips and late acknowledgements need no allowance. All of them are there as well when there
//! are too few for the distance; then an element takes hardly longer than a round trip, the shortest that the
//! link had. All this holds for packs that travel plain: compressed ones are so short that the compressors
//! and late acknowledgements look like the link.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A window is this long at least: some readers acknowledge every 5 ms.
const WINDOW: Duration = Duration::from_millis(50);

/// And so many packs were acknowledged in it, since counts at its ends are off by one.
const WINDOW_PACKS: u32 = 8;

/// The part of the credits that is on the link when it is the limit.
const LIMITING: f64 = 0.6;

/// An element is on the link for less than so many round trips where distance is the limit.
const DISTANT: f64 = 1.25;

/// The content of a grant, and its consequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Elements that the reader has received.
    pub(crate) received: u64,
    /// Elements of them that wait at the reader.
    pub(crate) waiting: u64,
    /// Credits that are not spent.
    pub(crate) unspent: u64,
    /// The link's smoothed round-trip time, if it has one.
    pub(crate) round_trip: Option<Duration>,
}

/// The figures of some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Window {
    /// Bytes of elements that arrived a second, whatever they came to on the link, or of those handed over if
    /// they are fewer: a reader's buffer that fills is no gain, nor is one that is used up.
    pub(super) rate: f64,
    /// Whether the link was what was waited for.
    pub(super) is_link_limited: bool,
}

/// One task on one link. All counts are of elements but for those named bytes.
#[derive(Debug)]
pub(super) struct Meter {
    /// Packs taken and not acknowledged, in order.
    packs: VecDeque<Flight>,
    taken: u64,
    on_link: u64,
    unspent: u64,
    waiting: u64,
    /// The task had nothing although there were credits.
    is_starved: bool,
    handed: u64,
    /// The first grant has come: behind it the counts are known, which begin anywhere where a link is
    /// resumed.
    is_begun: bool,
    round_trip_min: Option<Duration>,
    now: Instant,
    /// Windows begin when all before this is acknowledged: it travelled otherwise.
    settled_at: u64,
    /// That has not been acknowledged yet. The grant that does so opens the window, and counts for none:
    /// packs that overtook are acknowledged with it, all at once.
    is_settling: bool,
    window: Open,
}

#[derive(Debug)]
struct Flight {
    /// Elements up to its end.
    end: u64,
    elements: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Open {
    since: Instant,
    /// Elements handed over before it.
    handed_before: u64,
    packs: u32,
    elements: u64,
    bytes: u64,
    /// Credits times seconds spent on the link, and in all.
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

    /// Books a pack that ends behind the subscription's first `end` elements.
    pub(super) fn note_taken(&mut self, now: Instant, end: u64, elements: u64, bytes: u64) {
        self.pass_time(now);
        self.is_starved = false;
        self.unspent = self.unspent.saturating_sub(elements);
        self.on_link += elements;
        self.taken = end;
        self.packs.push_back(Flight { end, elements, bytes });
    }

    /// Books that the task has nothing ready.
    pub(super) fn note_starved(&mut self, now: Instant) {
        self.pass_time(now);
        self.is_starved = true;
    }

    /// Books a grant; the window that ends with it, if one does.
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
        // What waits may have come ahead of order.
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

    /// Has the next window begin when everything sent so far is acknowledged.
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

    /// Credits that are not spent wait for the producer if it has nothing, else for the link.
    fn pass_time(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.now).as_secs_f64();
        self.now = self.now.max(now);
        let on_link = self.on_link + if self.is_starved { 0 } else { self.unspent };
        let anywhere = self.on_link + self.unspent + self.waiting;
        self.window.on_link += on_link as f64 * seconds;
        self.window.anywhere += anywhere as f64 * seconds;
    }
}
