//! Properties of the decisions for random services.

use std::time::Duration;

use millstream_testkit::{Chance, rounds};
use proptest::prelude::*;

use super::service::{Model, World};
use crate::scaling::config::ScalingConfig;
use crate::scaling::observation::Observation;
use crate::scaling::policy::ScalingPolicy;
use crate::scaling::wanted::Reason;

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
        let mut policy = ScalingPolicy::new(config, Duration::ZERO);
        let mut before = None;
        for second in 1..2000 {
            let workers = chance.within(0..60);
            let share = |chance: &mut Chance| chance.within(0..1001) as f64 / 1000.0;
            let seen = Observation {
                readers: chance.within(0..3),
                datasets: [chance.within(0..2)].into(),
                workers,
                is_starting: chance.percent(10),
                producing: chance.within(0..workers + 1),
                waiting: chance.percent(80).then(|| share(&mut chance)),
                load: chance.percent(80).then(|| share(&mut chance) * workers as f64),
                rate: chance.within(0..1000) as f64,
                demand: chance.within(0..1000) as f64,
                step: Duration::from_secs(chance.within(0..100)),
                lag: Duration::from_secs(chance.within(0..20)),
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
