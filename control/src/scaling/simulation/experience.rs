//! Tests of what failed steps teach the policy, and of the end of what they taught.

use super::service::{Model, World};
use crate::scaling::wanted::Reason;

/// Returns a service whose storage serves two workers, although the reader would need twenty.
fn limited_by_storage() -> Model {
    Model {
        demand: 1000.0,
        store: 100.0,
        ..Model::default()
    }
}

/// Returns a service that needs ten workers, which report a tenth of their load.
fn understated_load() -> Model {
    Model {
        demand: 500.0,
        reported_load: 0.1,
        ..Model::default()
    }
}

#[test]
fn slow_storage_stops_the_growth() {
    let mut world = World::new(limited_by_storage(), 2);
    world.pass(60);
    assert_eq!(world.wanted(), 2, "{:?}", world.history);
    assert!(
        matches!(world.reason(), Reason::NoHelp(_)),
        "{:?}",
        world.reason()
    );
    world.pass(3 * 3600);
    let attempts = world.reversals(0) / 2;
    assert!(attempts <= 6, "{attempts} attempts in three hours");
    assert!(world.history.iter().all(|wanted| *wanted <= 8));
}

#[test]
fn a_useless_step_is_tried_again_later() {
    let mut world = World::new(limited_by_storage(), 2);
    world.pass(60);
    assert_eq!(world.wanted(), 2);
    world.model.store = f64::INFINITY;
    world.pass(400);
    assert_eq!(world.wanted(), world.model.needed(), "{:?}", world.history);
}

#[test]
fn new_demand_outgrows_a_ceiling() {
    let model = Model {
        readers: 2,
        demand: 500.0,
        store: 100.0,
        ..Model::default()
    };
    let mut world = World::new(model, 2);
    world.pass(60);
    assert_eq!(world.wanted(), 2);
    (world.model.readers, world.model.store) = (3, f64::INFINITY);
    world.pass(90);
    let needed = world.model.needed();
    assert!(
        (needed..=needed * 5 / 4).contains(&world.wanted()),
        "{:?}",
        world.history
    );
}

#[test]
fn understated_load_causes_one_reversal() {
    let mut world = World::new(understated_load(), 10);
    world.pass(300);
    assert_eq!(world.wanted(), 10, "{:?}", world.history);
    assert_eq!(world.reversals(0), 1, "{:?}", world.history);
}

#[test]
fn a_full_cluster_stops_the_growth() {
    let model = Model {
        demand: 10_000.0,
        supply: 4,
        ..Model::default()
    };
    let mut world = World::new(model, 2);
    world.pass(3600);
    assert!(world.wanted() <= 4 * 4, "{:?}", world.history);
    assert_eq!(world.workers.len(), 4);
}

#[test]
fn workers_without_tasks_do_not_help() {
    // The dataset has too few splits for more than two workers.
    let model = Model {
        demand: 500.0,
        tasks_max: 2,
        ..Model::default()
    };
    let mut world = World::new(model, 2);
    world.pass(250);
    assert_eq!(world.wanted(), 2, "{:?}", world.history);
    assert!(
        matches!(world.reason(), Reason::NoHelp(_)),
        "{:?}",
        world.reason()
    );
}

#[test]
fn another_dataset_ends_all_experience() {
    let mut world = World::new(limited_by_storage(), 2);
    world.pass(60);
    assert!(
        matches!(world.reason(), Reason::NoHelp(_)),
        "{:?}",
        world.reason()
    );
    (world.model.dataset, world.model.store) = (1, f64::INFINITY);
    world.pass(90);
    assert!(world.wanted() >= world.model.needed(), "{:?}", world.history);
}

#[test]
fn pauses_and_evaluations_keep_experience() {
    let mut world = World::new(limited_by_storage(), 2);
    world.pass(60);
    assert!(
        matches!(world.reason(), Reason::NoHelp(_)),
        "{:?}",
        world.reason()
    );
    let learnt = world.history.len();
    for _ in 0..3 {
        // A checkpoint follows the epoch, and then an evaluation that two workers serve.
        world.model.readers = 0;
        world.pass(35);
        world.model = Model {
            dataset: 1,
            demand: 80.0,
            ..Model::default()
        };
        world.pass(15);
        world.model = limited_by_storage();
        world.pass(20);
    }
    assert!(
        world.history[learnt..].iter().all(|wanted| *wanted == 2),
        "{:?}",
        world.history
    );
}

#[test]
fn interrupted_readers_keep_one_worker() {
    let mut world = World::new(Model::default(), 4);
    world.pass(10);
    // A user interrupts the wait for the first element, and keeps the reader.
    (world.model.dataset, world.model.tasks_max) = (1, 0);
    world.pass(20);
    world.model.is_paused = true;
    world.pass(310);
    assert!(
        matches!(world.reason(), Reason::Paused(_)),
        "{:?}",
        world.reason()
    );
}

#[test]
fn experience_blocks_only_steps_below_it() {
    let mut world = World::new(understated_load(), 10);
    world.pass(150);
    assert_eq!(
        (world.wanted(), world.reversals(0)),
        (10, 1),
        "{:?}",
        world.history
    );
    world.model.demand = 700.0;
    world.pass(60);
    assert!(world.wanted() >= 14, "{:?}", world.history);
    world.model.demand = 100.0;
    world.pass(200);
    assert_eq!(world.wanted(), 10, "{:?}", world.history);
}
