//! Tests that readers in order get the rate of all workers together, although the workers buffer few
//! elements (C5.9).

use std::time::Duration;

use super::world::{OrderedReader, World};

/// The number of elements that all tasks together buffer, as a reader with default settings lets them.
const BUFFER: u64 = 128;
/// The number of elements of a split.
const PER_SPLIT: u64 = 4;
/// The time at which the trainer becomes fast, and workers begin to join.
const FAST_AT_S: u64 = 40;

/// Returns a world with one task, and with a slow trainer until [`FAST_AT_S`]. Workers join later, each at a
/// second and with a time for a split.
fn world(first_ms: u64, step_ms: u64, joins: &[(u64, u64)], until_s: u64) -> World {
    let mut world = World::of_job(1 << 20, &[first_ms], true);
    world.reader = Some(OrderedReader::new(PER_SPLIT, BUFFER, Duration::from_millis(250)));
    world.run(Duration::from_secs(FAST_AT_S));
    if let Some(reader) = &mut world.reader {
        reader.step = Duration::from_millis(step_ms);
    }
    for (at_s, split_ms) in joins {
        world.run(Duration::from_secs(*at_s));
        world.join(*split_ms);
    }
    world.run(Duration::from_secs(until_s));
    world
}

/// Returns the elements per second of the reader in an interval.
fn rate(world: &World, from_s: u64, until_s: u64) -> f64 {
    world
        .reader
        .as_ref()
        .expect("the world has a reader")
        .rate(from_s, until_s)
}

/// The workers that join after a load step, as the autoscaler starts them. Each makes 5 elements per second.
const JOINS: [(u64, u64); 5] = [(45, 800), (52, 800), (52, 800), (52, 800), (60, 800)];

#[test]
fn a_load_step_is_followed_in_order() {
    let world = world(800, 50, &JOINS, 240);
    for from_s in (70..240).step_by(10) {
        let rate = rate(&world, from_s, from_s + 10);
        assert!(
            rate >= 19.0,
            "{rate} from {from_s} s on, of 20 that the trainer takes"
        );
    }
}

#[test]
fn a_hungry_reader_in_order_uses_all_workers() {
    for (tasks, joins) in [(6, &JOINS[..]), (2, &JOINS[..1])] {
        let world = world(800, 10, joins, 300);
        let (rate, all) = (rate(&world, 100, 300), 5.0 * f64::from(tasks));
        assert!(rate >= 0.95 * all, "{rate} of {all}");
    }
}

#[test]
fn workers_of_different_speeds_serve_one_order() {
    let world = world(800, 10, &[(45, 200), (52, 200)], 400);
    let rate = rate(&world, 150, 400);
    assert!(rate >= 0.9 * 45.0, "{rate} of 45");
}

/// Tests that tasks hold enough splits for an outage, although they take turns and pause (C5.1).
#[test]
fn an_outage_delays_no_paused_order() {
    for joins in [&JOINS[..], &JOINS[..4]] {
        let mut world = world(800, 50, joins, 120);
        world.is_away = true;
        world.run(Duration::from_secs(130));
        world.is_away = false;
        world.run(Duration::from_secs(150));
        let rate = rate(&world, 120, 140);
        assert!(rate >= 19.0, "{rate} of 20 with {} workers", world.readings.len());
    }
}

/// Tests that tasks that wait for their turns ask a few times in a second (C5.9).
#[test]
fn tasks_that_wait_for_turns_seldom_ask() {
    let world = world(800, 50, &JOINS, 240);
    for reading in &world.readings {
        let requests = reading.requests;
        assert!(requests <= 240 * 8, "{requests} requests in at most 240 s");
    }
}
