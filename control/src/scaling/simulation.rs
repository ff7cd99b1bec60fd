//! Tests of the policy with a simulated service, which knows the number of workers that it really needs.

use std::time::Duration;

use millstream_testkit::{Chance, rounds};
use proptest::prelude::*;

use super::config::ScalingConfig;
use super::observation::Observation;
use super::policy::Policy;
use super::wanted::Reason;

/// The seconds between the request for a worker and its first element.
const START_S: u64 = 5;

/// A simulated service: readers with a demand, workers with a pace, and a store with a limit.
#[derive(Clone, Debug)]
struct Model {
    readers: u64,
    /// The elements that each reader takes in a second without waiting.
    demand: f64,
    /// True if the readers take no elements.
    is_paused: bool,
    /// The elements that one worker produces in a second.
    pace: f64,
    /// Maximum elements that the store of the data yields in a second.
    store: f64,
    /// Maximum number of workers that the engine starts.
    supply: u64,
    /// The factor of the busy time that workers report. Workers with full buffers report too little.
    reported_load: f64,
    /// The largest relative error of a report.
    noise: f64,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            readers: 1,
            demand: 100.0,
            is_paused: false,
            pace: 50.0,
            store: f64::INFINITY,
            supply: u64::MAX,
            reported_load: 1.0,
            noise: 0.0,
        }
    }
}

impl Model {
    /// Returns the number of workers that serve all readers.
    fn needed(&self) -> u64 {
        (self.readers as f64 * self.demand / self.pace).ceil() as u64
    }

    /// Returns the share of time in which the readers wait with this number of workers.
    fn waiting(&self, workers: u64) -> f64 {
        let made = workers as f64 * self.pace;
        1.0 - (made / (self.readers as f64 * self.demand)).min(1.0)
    }

    fn observe(&self, workers: u64, producing: u64, chance: &mut Chance) -> Observation {
        let mut noisy =
            |value: f64| value * (1.0 + self.noise * (chance.within(0..2001) as f64 / 1000.0 - 1.0));
        let demand = self.readers as f64 * self.demand;
        let made = demand.min(producing as f64 * self.pace).min(self.store);
        let made = if self.is_paused { 0.0 } else { made };
        let is_reported = producing > 0 && self.readers > 0;
        let pace = self.pace.min(self.store / producing.max(1) as f64);
        Observation {
            readers: self.readers,
            workers,
            producing: if self.readers > 0 { producing } else { 0 },
            waiting: is_reported.then(|| {
                let waiting = noisy(1.0 - made / demand).clamp(0.0, 1.0);
                if self.is_paused { 0.0 } else { waiting }
            }),
            load: is_reported.then(|| noisy(made / pace * self.reported_load).min(producing as f64)),
            rate: noisy(made),
            demand: noisy(demand),
            estimate: is_reported.then(|| noisy(demand / pace).ceil() as u64),
        }
    }
}

/// A policy with a simulated service, and an engine that follows the policy.
struct World {
    model: Model,
    policy: Policy,
    now_s: u64,
    chance: Chance,
    /// The times at which the living workers were requested.
    workers: Vec<u64>,
    /// The wanted numbers of all seconds.
    history: Vec<u64>,
}

impl World {
    fn new(model: Model, workers: usize) -> World {
        World::seeded(model, workers, 0)
    }

    fn seeded(model: Model, workers: usize, seed: u64) -> World {
        let config = ScalingConfig {
            workers_max: 1000,
            ..ScalingConfig::default()
        };
        let mut world = World {
            model,
            policy: Policy::new(config, Duration::ZERO),
            now_s: START_S,
            chance: Chance::new(seed),
            workers: vec![0; workers],
            history: Vec::new(),
        };
        // The first number follows after the warm-up, however many workers there are.
        while world.policy.wanted().is_none() {
            world.observe();
        }
        world
    }

    fn observe(&mut self) {
        self.now_s += 1;
        let producing = self
            .workers
            .iter()
            .filter(|at| **at + START_S <= self.now_s)
            .count() as u64;
        let living = producing;
        let seen = self.model.observe(living, producing, &mut self.chance);
        let wanted = self.policy.step(Duration::from_secs(self.now_s), &seen);
        self.history.extend(wanted.map(|wanted| wanted.workers));
    }

    /// Lets time pass.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.observe();
            let target = self.wanted().min(self.model.supply) as usize;
            self.workers.resize(target, self.now_s);
        }
    }

    fn wanted(&self) -> u64 {
        self.policy.wanted().expect("the policy has warmed up").workers
    }

    fn reason(&self) -> &Reason {
        &self.policy.wanted().expect("the policy has warmed up").reason
    }

    /// Returns the number of changes of direction since this index of the history.
    fn reversals(&self, since: usize) -> usize {
        let steps: Vec<bool> = self.history[since..]
            .windows(2)
            .filter(|pair| pair[0] != pair[1])
            .map(|pair| pair[1] > pair[0])
            .collect();
        steps.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }
}

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
fn idle_workers_end_after_the_calm_time() {
    let mut world = World::new(Model::default(), 16);
    world.pass(50);
    assert_eq!(world.wanted(), 16);
    world.pass(400);
    assert!((2..=3).contains(&world.wanted()), "{:?}", world.history);
    assert_eq!(world.reversals(0), 0);
}

#[test]
fn slow_storage_stops_the_growth() {
    let model = Model {
        demand: 1000.0,
        store: 100.0,
        ..Model::default()
    };
    let mut world = World::new(model, 2);
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
    let model = Model {
        demand: 1000.0,
        store: 100.0,
        ..Model::default()
    };
    let mut world = World::new(model, 2);
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
    // Ten workers are needed, and they report a tenth of their load.
    let model = Model {
        demand: 500.0,
        reported_load: 0.1,
        ..Model::default()
    };
    let mut world = World::new(model, 10);
    world.pass(300);
    assert_eq!(world.wanted(), 10, "{:?}", world.history);
    assert_eq!(world.reversals(0), 1, "{:?}", world.history);
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
    let mut policy = Policy::new(ScalingConfig::default(), Duration::from_secs(100));
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

proptest! {
    #![proptest_config(rounds(64))]

    /// Compares the policy with the number of workers that a random service really needs. A failing case
    /// prints the seed.
    #[test]
    fn random_services_get_enough_workers(seed in any::<u64>()) {
        let mut chance = Chance::new(seed);
        let model = Model {
            readers: chance.within(1..9),
            demand: chance.within(50..500) as f64,
            pace: chance.within(20..200) as f64,
            noise: chance.within(0..10) as f64 / 100.0,
            ..Model::default()
        };
        let workers = chance.within(1..30) as usize;
        let mut world = World::seeded(model, workers, seed);
        world.pass(900);
        let needed = world.model.needed();
        let waiting = world.model.waiting(world.wanted());
        prop_assert!(waiting < 0.15, "seed {seed}: {} of {needed} workers", world.wanted());
        prop_assert!(world.wanted() <= 2 * needed + 1, "seed {seed}: {} of {needed} workers", world.wanted());
        prop_assert!(world.reversals(0) <= 1, "seed {seed}: {:?}", world.history);

        world.model.demand *= 5.0;
        let since = world.history.len();
        world.pass(600);
        let needed = world.model.needed();
        let waiting = world.model.waiting(world.wanted());
        prop_assert!(waiting < 0.15, "seed {seed}: {} of {needed} workers", world.wanted());
        prop_assert!(world.reversals(since) <= 1, "seed {seed}: {:?}", &world.history[since..]);
    }

    /// Checks the limits of every decision for any sequence of observations. A failing case prints the seed.
    #[test]
    fn decisions_stay_within_their_bounds(seed in any::<u64>()) {
        let mut chance = Chance::new(seed);
        let config = ScalingConfig {
            workers_min: chance.within(0..3),
            workers_max: chance.within(3..200),
            ..ScalingConfig::default()
        };
        let (least, most) = (config.workers_min, config.workers_max);
        let mut policy = Policy::new(config, Duration::ZERO);
        let mut before = None;
        for second in 1..2000 {
            let workers = chance.within(0..60);
            let share = |chance: &mut Chance| chance.within(0..1001) as f64 / 1000.0;
            let seen = Observation {
                readers: chance.within(0..3),
                workers,
                producing: chance.within(0..workers + 1),
                waiting: chance.percent(80).then(|| share(&mut chance)),
                load: chance.percent(80).then(|| share(&mut chance) * workers as f64),
                rate: chance.within(0..1000) as f64,
                demand: chance.within(0..1000) as f64,
                estimate: chance.percent(80).then(|| chance.draw() >> chance.within(0..64)),
            };
            let Some(wanted) = policy.step(Duration::from_secs(second), &seen).map(|wanted| wanted.workers) else {
                continue;
            };
            prop_assert!((least..=most).contains(&wanted), "seed {seed}: {wanted}");
            let grown = before.is_some_and(|before| wanted > before);
            let is_undone = matches!(policy.wanted().map(|wanted| &wanted.reason), Some(Reason::MissedWorkers));
            let limit = (4 * workers.max(1)).max(least);
            prop_assert!(!grown || is_undone || wanted <= limit, "seed {seed}: {wanted} of {workers}");
            before = Some(wanted);
        }
    }
}
