//! Tests with more and less work for the same readers.

use std::time::Duration;

use super::service::{Model, World};
use crate::scaling::config::ScalingConfig;
use crate::scaling::observation::Observation;
use crate::scaling::policy::ScalingPolicy;
use crate::scaling::wanted::Reason;

#[test]
fn a_fivefold_load_is_followed_within_30_s() {
    let mut world = World::new(Model::default(), 2);
    world.pass(30);
    assert_eq!(world.wanted(), 2, "{:?}", world.reason());
    world.model.demand *= 5.0;
    world.pass(30);
    assert!(world.wanted() >= world.model.needed(), "{:?}", world.history);
    world.pass(600);
    assert!(
        world.wanted() <= world.model.needed() * 5 / 4 + 1,
        "{:?}",
        world.history
    );
    assert!(world.reversals(0) <= 1, "{:?}", world.history);
}

/// Tests readers in order, which take the elements of new workers after those that earlier workers hold.
#[test]
fn a_load_step_in_order_keeps_its_workers() {
    let model = Model {
        demand: 50.0,
        lag_s: 15,
        ..Model::default()
    };
    let mut world = World::new(model, 1);
    world.pass(30);
    assert_eq!(world.wanted(), 1, "{:?}", world.reason());
    world.model.demand *= 5.0;
    world.pass(60);
    assert!(world.wanted() >= world.model.needed(), "{:?}", world.history);
    world.pass(60);
    assert_eq!(world.reversals(0), 0, "{:?}", world.history);
}

/// Tests a load step just after a step down. The earlier number of workers says nothing about the new load.
#[test]
fn a_load_step_is_no_reason_to_undo() {
    let mut world = World::new(Model::default(), 4);
    while world.wanted() >= 4 {
        world.pass(1);
    }
    let lowered = world.wanted();
    world.model.demand *= 5.0;
    while world.wanted() == lowered {
        world.pass(1);
    }
    assert!(
        matches!(world.reason(), Reason::ReadersWait(_)),
        "{:?}",
        world.reason()
    );
    assert!(world.wanted() > 4, "{:?}", world.history);
}

#[test]
fn four_more_readers_are_followed_within_30_s() {
    let mut world = World::new(Model::default(), 2);
    world.pass(30);
    world.model.readers = 5;
    world.pass(30);
    assert!(world.wanted() >= world.model.needed(), "{:?}", world.history);
}

#[test]
fn a_short_burst_starts_no_worker() {
    let mut world = World::new(Model::default(), 2);
    for _ in 0..20 {
        world.model.demand = 500.0;
        world.pass(1);
        world.model.demand = 100.0;
        world.pass(20);
    }
    assert!(
        world.history.iter().all(|wanted| *wanted == 2),
        "{:?}",
        world.history
    );
}

#[test]
fn waits_beside_idle_workers_start_few_workers() {
    let mut policy = ScalingPolicy::new(ScalingConfig::default(), Duration::ZERO);
    // Four workers would suffice, but the readers wait in order for one worker.
    let seen = Observation {
        readers: 1,
        datasets: [0].into(),
        workers: 8,
        producing: 8,
        waiting: Some(0.6),
        load: Some(1.6),
        rate: 8.0,
        demand: 20.0,
        estimate: Some(4),
        ..Observation::default()
    };
    let steps = (1..40).filter_map(|second| {
        let wanted = policy.step(Duration::from_secs(second), &seen);
        wanted.map(|wanted| wanted.workers)
    });
    let most = steps.max();
    assert_eq!(most, Some(10), "the smallest step");
}

#[test]
fn idle_workers_end_after_the_calm_time() {
    let mut world = World::new(Model::default(), 16);
    world.pass(50);
    assert_eq!(world.wanted(), 16);
    world.pass(400);
    assert!((2..=3).contains(&world.wanted()), "{:?}", world.history);
    assert_eq!(world.reversals(0), 0);
}

#[test]
fn lost_spot_workers_change_no_decision() {
    let model = Model {
        demand: 760.0,
        ..Model::default()
    };
    let mut world = World::new(model, 16);
    world.pass(30);
    let wanted = world.wanted();
    for _ in 0..20 {
        let left = world.workers.len() - world.chance.index(world.workers.len() / 2);
        world.workers.truncate(left);
        world.pass(30);
        assert_eq!(world.wanted(), wanted, "{:?}", world.history);
    }
}

#[test]
fn missing_supply_delays_no_step_down() {
    let model = Model {
        demand: 250.0,
        supply: 4,
        ..Model::default()
    };
    let mut world = World::new(model, 4);
    world.pass(10);
    assert!(world.wanted() > 4, "{:?}", world.history);
    world.model.demand = 50.0;
    world.pass(32 + 60 + 60 + 70);
    assert_eq!(world.wanted(), 2, "{:?}", world.history);
}

fn in_steps(demand: f64, step_s: f64) -> Model {
    Model {
        demand,
        step_s,
        ..Model::default()
    }
}

/// Checks that a service keeps its workers for readers of each length of steps.
fn keeps_workers(workers: usize, demand: f64) {
    for step_s in [2.0, 5.0, 10.0, 30.0] {
        let mut world = World::new(in_steps(demand, step_s), workers);
        world.pass(1200);
        let history = &world.history;
        let is_kept = history.iter().all(|wanted| *wanted == workers as u64);
        assert!(is_kept, "{step_s}: {history:?}");
    }
}

#[test]
fn long_steps_keep_the_needed_workers() {
    // The readers need 3.5 workers.
    keeps_workers(4, 175.0);
}

#[test]
fn short_waits_in_steps_start_no_worker() {
    // The readers wait for 6.5 % of their time.
    keeps_workers(2, 107.0);
}

#[test]
fn waits_in_long_steps_start_workers() {
    for step_s in [2.0, 5.0, 10.0, 30.0] {
        let mut world = World::new(in_steps(500.0, step_s), 2);
        world.pass(240);
        let needed = world.model.needed();
        assert!(
            (needed..=needed * 5 / 4 + 1).contains(&world.wanted()),
            "{step_s}: {:?}",
            world.history
        );
        world.pass(1200);
        assert!(world.reversals(0) <= 1, "{step_s}: {:?}", world.history);
    }
}

#[test]
fn trials_of_long_turns_are_judged_by_effect() {
    // Three turns of more than a minute are longer than the longest trial. The readers need 2.4 workers.
    let mut world = World::new(in_steps(120.0, 60.0), 2);
    world.pass(1800);
    assert_eq!(world.wanted(), 3, "{:?}", world.history);
    assert_eq!(world.reversals(0), 0, "{:?}", world.history);
}

#[test]
fn long_steps_on_slow_storage_stop_growing() {
    for step_s in [2.0, 5.0, 10.0, 30.0] {
        let model = Model {
            store: 100.0,
            ..in_steps(200.0, step_s)
        };
        let mut world = World::new(model, 2);
        world.pass(3600);
        let most = world.history.iter().copied().max().unwrap_or_default();
        assert!(most <= 8, "{step_s}: {:?}", world.history);
    }
}
