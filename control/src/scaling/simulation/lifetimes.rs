//! Tests with readers and workers that come and go.

use std::time::Duration;

use super::service::{Model, World};
use crate::scaling::config::ScalingConfig;
use crate::scaling::observation::Observation;
use crate::scaling::policy::ScalingPolicy;
use crate::scaling::wanted::Reason;

#[test]
fn no_reader_means_no_worker() {
    let mut world = World::new(Model::default(), 2);
    world.model.readers = 0;
    world.pass(290);
    assert_eq!(world.wanted(), 2);
    world.pass(20);
    assert_eq!(world.wanted(), 0);
    world.model.readers = 1;
    world.pass(2);
    assert_eq!((world.wanted(), world.reason()), (1, &Reason::FirstReaders));
    world.pass(60);
    assert_eq!(world.wanted(), world.model.needed(), "{:?}", world.history);
}

#[test]
fn an_evaluation_keeps_the_workers() {
    let model = Model {
        demand: 760.0,
        ..Model::default()
    };
    let mut world = World::new(model, 16);
    world.pass(60);
    world.model.is_paused = true;
    world.pass(290);
    assert_eq!(world.wanted(), 16, "{:?}", world.history);
    world.model.is_paused = false;
    world.pass(60);
    assert_eq!(world.reversals(0), 0, "{:?}", world.history);
    world.model.is_paused = true;
    world.pass(310);
    assert_eq!(world.wanted(), 1, "{:?}", world.reason());
}

#[test]
fn a_restarted_dispatcher_waits_for_its_workers() {
    let mut policy = ScalingPolicy::new(ScalingConfig::default(), Duration::from_secs(100));
    let empty = Observation::default();
    assert_eq!(policy.step(Duration::from_secs(101), &empty), None);
    let present = Observation {
        workers: 7,
        ..Observation::default()
    };
    assert_eq!(policy.step(Duration::from_secs(110), &present), None);
    assert_eq!(policy.step(Duration::from_secs(129), &present), None);
    let wanted = policy
        .step(Duration::from_secs(130), &present)
        .map(|wanted| wanted.workers);
    assert_eq!(wanted, Some(7));
}

#[test]
fn short_epochs_get_enough_workers() {
    let model = Model {
        demand: 500.0,
        epochs: Some((5, 1)),
        ..Model::default()
    };
    let mut world = World::new(model, 2);
    world.pass(90);
    let needed = world.model.needed();
    assert!(
        (needed..=needed * 5 / 4 + 1).contains(&world.wanted()),
        "{:?}",
        world.history
    );
    world.model.demand = 50.0;
    world.pass(300);
    assert!(world.wanted() <= 2, "{:?}", world.history);
    assert_eq!(world.reversals(0), 1, "{:?}", world.history);
}

#[test]
fn new_readers_are_not_paused() {
    let model = Model {
        readers: 0,
        ..Model::default()
    };
    let config = ScalingConfig {
        workers_min: 3,
        ..ScalingConfig::default()
    };
    let mut world = World::new(model, 3);
    world.policy = ScalingPolicy::new(config, Duration::from_secs(world.now_s));
    world.pass_unwanted(700);
    // The first element takes ten minutes, and nobody has reported anything before.
    (world.model.readers, world.model.tasks_max) = (1, 0);
    for _ in 0..600 {
        world.observe();
        assert!(
            !matches!(world.reason(), Reason::Paused(_)),
            "{:?}",
            world.reason()
        );
    }
}

#[test]
fn coming_and_going_workers_delay_the_policy_briefly() {
    let mut policy = ScalingPolicy::new(ScalingConfig::default(), Duration::ZERO);
    let first = (1..1000).find(|second| {
        let seen = Observation {
            workers: 5 + second % 2,
            ..Observation::default()
        };
        policy.step(Duration::from_secs(*second), &seen).is_some()
    });
    assert_eq!(first, Some(60));
}

#[test]
fn an_empty_service_wants_no_number_at_first() {
    let mut policy = ScalingPolicy::new(ScalingConfig::default(), Duration::ZERO);
    let first = (1..1000)
        .find(|second| {
            let seen = Observation::default();
            policy.step(Duration::from_secs(*second), &seen).is_some()
        })
        .expect("a decision");
    assert_eq!(first, 300);
    assert_eq!(policy.wanted().map(|wanted| wanted.workers), Some(0));
}
