//! Simulates a producer, compression threads, a link and a consumer under virtual time. The tests compare
//! AUTO with always and with never compressing.
//!
//! All packs are alike, and a fixed number of packs is outstanding. The reader acknowledges after each
//! hand-over, and every 5 ms.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use millstream_testkit::rounds;
use proptest::prelude::*;

use super::{Auto, Plan, Sample, Standing};

/// Maximum number of packs under compression at a time, as in a session.
const COMPRESSING_MAX: usize = 8;

/// The number of packs that the producer prefetches.
const AHEAD: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Habit {
    Never,
    Always,
    Auto,
}

/// The parameters of a simulation. Rates are in bytes per second.
#[derive(Debug, Clone)]
struct World {
    producer: f64,
    /// The rates of the link, each with the time in seconds from which on it holds.
    link: Vec<(f64, f64)>,
    round_trip: f64,
    consumer: f64,
    ratio: f64,
    /// The compression rate of one thread.
    compressing: f64,
    restoring: f64,
    threads: usize,
    pack_bytes: f64,
    outstanding: u64,
}

impl Default for World {
    fn default() -> Self {
        Self {
            producer: 1e12,
            link: vec![(0.0, 125e6)],
            round_trip: 0.0002,
            consumer: 1e12,
            ratio: 4.0,
            compressing: 600e6,
            restoring: 2e9,
            threads: 1,
            pack_bytes: 262_144.0,
            outstanding: 8,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Produced,
    Compressed(u64),
    Sampled,
    Sent(u64),
    Arrived(u64),
    HandedOver,
    Tick,
    /// A grant: its limit, the received elements, and the waiting elements.
    Grant(u64, u64, u64),
}

struct Run<'a> {
    world: &'a World,
    habit: Habit,
    start: Instant,
    /// The events by time, in picoseconds, which makes them sortable.
    events: BinaryHeap<Reverse<(u64, Event)>>,
    now: f64,
    auto: Auto,
    ready: u64,
    is_producing: bool,
    limit: u64,
    taken: u64,
    acknowledged: u64,
    to_compress: VecDeque<u64>,
    at_work: usize,
    to_send: VecDeque<u64>,
    is_sending: bool,
    is_compressed: Vec<bool>,
    /// The packs that arrived out of order.
    early: BTreeSet<u64>,
    received: u64,
    told: u64,
    handed: u64,
    is_consuming: bool,
}

impl<'a> Run<'a> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the simulation counts from an arbitrary instant"
    )]
    fn new(world: &'a World, habit: Habit) -> Self {
        let start = Instant::now();
        let mut run = Self {
            world,
            habit,
            start,
            events: BinaryHeap::new(),
            now: 0.0,
            auto: Auto::new(world.threads, start),
            ready: 0,
            is_producing: false,
            limit: 0,
            taken: 0,
            acknowledged: 0,
            to_compress: VecDeque::new(),
            at_work: 0,
            to_send: VecDeque::new(),
            is_sending: false,
            is_compressed: Vec::new(),
            early: BTreeSet::new(),
            received: 0,
            told: 0,
            handed: 0,
            is_consuming: false,
        };
        run.after(0.0, Event::Grant(world.outstanding, 0, 0));
        run.after(0.005, Event::Tick);
        run
    }

    fn after(&mut self, seconds: f64, event: Event) {
        self.events
            .push(Reverse((((self.now + seconds) * 1e12) as u64, event)));
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_secs_f64(self.now)
    }

    /// Returns the number of packs handed over between two times, in seconds.
    fn handed_between(mut self, from: f64, to: f64) -> u64 {
        let mut before = 0;
        while let Some(Reverse((at, event))) = self.events.pop() {
            self.now = at as f64 / 1e12;
            if self.now < from {
                before = self.handed;
            }
            if self.now > to {
                break;
            }
            self.handle(event);
            self.go_on();
        }
        self.handed - before
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Produced => (self.is_producing, self.ready) = (false, self.ready + 1),
            Event::Compressed(pack) => {
                self.at_work -= 1;
                self.auto.note_compressed(self.sample());
                self.to_send.push_back(pack);
            }
            Event::Sampled => self.auto.note_sample(self.instant(), Some(self.sample())),
            Event::Sent(pack) => {
                self.is_sending = false;
                self.after(self.world.round_trip / 2.0, Event::Arrived(pack));
            }
            Event::Arrived(pack) => {
                self.early.insert(pack);
                while self.early.remove(&self.received) {
                    self.received += 1;
                }
            }
            Event::HandedOver => {
                (self.is_consuming, self.handed) = (false, self.handed + 1);
                self.tell();
            }
            Event::Tick => {
                if self.told < self.received {
                    self.tell();
                }
                self.after(0.005, Event::Tick);
            }
            Event::Grant(limit, received, waiting) => {
                (self.limit, self.acknowledged) = (limit, received);
                let standing = Standing {
                    received,
                    waiting,
                    unspent: limit - self.taken,
                    round_trip: Some(Duration::from_secs_f64(self.world.round_trip)),
                };
                self.auto.note_grant(self.instant(), standing);
            }
        }
    }

    fn tell(&mut self) {
        self.told = self.received;
        let limit = self.handed + self.world.outstanding;
        // The element that is being consumed has left the reader's queue, except while it is decompressed.
        let grant = Event::Grant(limit, self.received, self.received - self.handed);
        self.after(self.world.round_trip / 2.0, grant);
    }

    /// Starts every activity that can start now.
    fn go_on(&mut self) {
        if !self.is_producing && self.ready < AHEAD {
            self.is_producing = true;
            self.after(self.world.pack_bytes / self.world.producer, Event::Produced);
        }
        while self.taken < self.limit && self.at_work + self.to_compress.len() < COMPRESSING_MAX {
            if self.ready == 0 {
                self.auto.note_starved(self.instant());
                break;
            }
            self.take();
        }
        while self.at_work < self.world.threads
            && let Some(pack) = self.to_compress.pop_front()
        {
            self.at_work += 1;
            self.after(
                self.world.pack_bytes / self.world.compressing,
                Event::Compressed(pack),
            );
        }
        if !self.is_sending
            && let Some(pack) = self.to_send.pop_front()
        {
            self.is_sending = true;
            let rates = self.world.link.iter().rev();
            let rate = rates.clone().find(|(from, _)| *from <= self.now);
            let rate = rate.map_or(1.0, |(_, rate)| *rate);
            self.after(self.link_bytes(pack) / rate, Event::Sent(pack));
        }
        if !self.is_consuming && self.handed < self.received {
            self.is_consuming = true;
            let restoring = if self.is_compressed[self.handed as usize] {
                self.world.pack_bytes / self.world.restoring
            } else {
                0.0
            };
            self.after(
                restoring + self.world.pack_bytes / self.world.consumer,
                Event::HandedOver,
            );
        }
    }

    fn take(&mut self) {
        let (pack, bytes) = (self.taken, self.world.pack_bytes as u64);
        (self.taken, self.ready) = (pack + 1, self.ready - 1);
        let plan = match self.habit {
            Habit::Never => Plan::Plain,
            Habit::Always => Plan::Compressed,
            Habit::Auto => self.auto.plan(self.instant(), self.taken, 1, bytes),
        };
        self.is_compressed.push(plan == Plan::Compressed);
        match plan {
            Plan::Compressed => self.to_compress.push_back(pack),
            Plan::Sampled => {
                self.after(self.world.pack_bytes / self.world.compressing, Event::Sampled);
                self.to_send.push_back(pack);
            }
            Plan::Plain => self.to_send.push_back(pack),
        }
    }

    fn link_bytes(&self, pack: u64) -> f64 {
        if self.is_compressed[pack as usize] {
            self.world.pack_bytes / self.world.ratio
        } else {
            self.world.pack_bytes
        }
    }

    fn sample(&self) -> Sample {
        Sample {
            plain_bytes: self.world.pack_bytes as u64,
            compressed_bytes: (self.world.pack_bytes / self.world.ratio) as u64,
            took: Duration::from_secs_f64(self.world.pack_bytes / self.world.compressing),
        }
    }
}

/// Returns AUTO's throughput between two times, as a fraction of the better of always and never compressing.
fn compared(world: &World, from: f64, to: f64) -> f64 {
    let handed = |habit| Run::new(world, habit).handed_between(from, to) as f64;
    let better = handed(Habit::Never).max(handed(Habit::Always));
    handed(Habit::Auto) / better
}

/// Returns the fraction of packs that AUTO compresses between two times, in seconds.
fn compressed_share(world: &World, from: f64, to: f64) -> f64 {
    let mut run = Run::new(world, Habit::Auto);
    let mut first = 0;
    while let Some(Reverse((at, event))) = run.events.pop() {
        run.now = at as f64 / 1e12;
        if run.now < from {
            first = run.is_compressed.len();
        }
        if run.now > to {
            break;
        }
        run.handle(event);
        run.go_on();
    }
    let seen = &run.is_compressed[first..];
    seen.iter().filter(|is| **is).count() as f64 / seen.len() as f64
}

#[test]
fn a_slow_link_carries_packs_compressed() {
    assert!(compressed_share(&World::default(), 2.0, 10.0) > 0.97);
}

#[test]
fn nothing_is_compressed_for_a_fast_link() {
    let (producer, consumer, base) = (40e6, 40e6, World::default());
    for world in [
        World {
            producer,
            ..base.clone()
        },
        World {
            consumer,
            ..base.clone()
        },
        World {
            consumer,
            outstanding: 2,
            ..base.clone()
        },
        // Few credits are outstanding over a long distance.
        World {
            link: vec![(0.0, 1.25e9)],
            round_trip: 0.1,
            outstanding: 2,
            ..base
        },
    ] {
        assert_eq!(compressed_share(&world, 0.0, 20.0), 0.0, "{world:?}");
    }
}

#[test]
fn earlier_packs_do_not_count_for_a_trial() {
    // The outstanding packs fill more than two windows.
    let world = World {
        outstanding: 64,
        ..World::default()
    };
    assert!(compressed_share(&world, 2.0, 10.0) > 0.97);
}

/// Plain packs overtake packs that are still being compressed. One grant acknowledges both kinds, all at
/// once.
#[test]
fn overtaking_packs_do_not_count_for_a_probe() {
    let world = World {
        producer: 2.8e9,
        link: vec![(0.0, 104e6)],
        round_trip: 66e-6,
        consumer: 612e6,
        ratio: 7.3,
        compressing: 65e6,
        restoring: 260e6,
        threads: 2,
        pack_bytes: 306e3,
        outstanding: 8,
    };
    let part = compared(&world, 5.0, 20.0);
    assert!(part > 0.95, "{part}");
}

#[test]
fn a_useless_trial_is_not_repeated_soon() {
    let world = World {
        restoring: 100e6,
        ..World::default()
    };
    let share = compressed_share(&world, 0.0, 120.0);
    assert!(share > 0.0 && share < 0.01, "{share}");
}

#[test]
fn nothing_is_compressed_that_does_not_shrink() {
    let world = World {
        ratio: 1.0,
        ..World::default()
    };
    assert_eq!(compressed_share(&world, 0.0, 20.0), 0.0);
}

#[test]
fn a_link_that_changes_is_followed() {
    let world = World {
        link: vec![(0.0, 2e9), (10.0, 30e6), (30.0, 2e9), (50.0, 30e6)],
        ..World::default()
    };
    for (from, to) in [(2.0, 10.0), (13.0, 30.0), (40.0, 50.0), (53.0, 70.0)] {
        let part = compared(&world, from, to);
        assert!(part > 0.93, "{from} to {to} s: {part}");
    }
}

#[test]
fn a_consumer_that_becomes_the_limit_ends_compressing() {
    let world = World {
        restoring: 70e6,
        consumer: 100e6,
        ratio: 10.0,
        link: vec![(0.0, 30e6), (10.0, 1e9)],
        ..World::default()
    };
    assert!(compressed_share(&world, 5.0, 10.0) > 0.8);
    assert!(compressed_share(&world, 20.0, 60.0) < 0.05);
}

#[test]
fn auto_is_mostly_as_fast_as_the_better() {
    let mut parts = Vec::new();
    for link in [1.25e6, 12.5e6, 125e6, 1.25e9, 12.5e9] {
        for ratio in [1.0, 1.5, 3.0, 10.0] {
            for compressing in [100e6, 600e6, 3e9] {
                let world = World {
                    link: vec![(0.0, link)],
                    ratio,
                    compressing,
                    restoring: 4.0 * compressing,
                    pack_bytes: 262_144f64.max(link / 2000.0),
                    ..World::default()
                };
                let long = (1000.0 * world.pack_bytes / link).max(12.0);
                parts.push(compared(&world, long / 4.0, long));
            }
        }
    }
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    assert!(
        mean > 0.98 && parts.iter().all(|part| *part > 0.93),
        "{mean}: {parts:.2?}"
    );
}

proptest! {
    #![proptest_config(rounds(16))]

    #[test]
    fn auto_is_about_as_fast_as_the_better(
        link in 6.1..10.1f64,
        ratio in 1.0..10.0f64,
        compressing in 7.5..9.7f64,
        producer in 7.0..10.5f64,
        consumer in 7.0..10.5f64,
        round_trip in -4.5..-2.0f64,
        threads in 1usize..3,
    ) {
        let [link, compressing, producer, consumer, round_trip] =
            [link, compressing, producer, consumer, round_trip].map(|exponent| 10f64.powf(exponent));
        let fastest = producer.min(consumer).min(link * ratio);
        // At least twice the packs of one round trip are outstanding, like for a reader with automatic
        // sizing.
        let pack_bytes = 262_144f64.max(fastest / 2000.0).max(fastest * round_trip / 4.0);
        let world = World {
            producer,
            link: vec![(0.0, link)],
            round_trip,
            consumer,
            ratio,
            compressing,
            restoring: 4.0 * compressing,
            threads,
            pack_bytes,
            outstanding: 8,
        };
        let long = (1600.0 * pack_bytes / link.min(producer).min(consumer)).max(20.0);
        let part = compared(&world, long / 4.0, long);
        // The fraction is lowest where compression hardly pays off and is not tried. The fraction is also low
        // where compression is the bottleneck, at half of its possible gain; 0.88 was measured.
        prop_assert!(part > 0.85, "{part}");
    }
}
