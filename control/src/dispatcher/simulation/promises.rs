//! The promises that hold in every run.

use millstream_testkit::rounds;
use proptest::prelude::*;

use super::world::World;

proptest! {
    #![proptest_config(rounds(96))]

    /// Tests every run against the oracle (C5.6, C6.1 to C6.5, C10.1 to C10.5, C3.3, C1.5, C1.6).
    #[test]
    fn every_split_is_delivered_once_or_reported_lost(
        splits in 0_u64..40,
        repetitions in 1_u64..3,
        ops in prop::collection::vec((0_u8..33, any::<u64>()), 0..160),
    ) {
        let mut world = World::new(splits, repetitions);
        for (op, choice) in ops {
            world.step(op, choice);
        }
        world.drain();
        world.check_end();
    }

    /// Tests that workers may die, drain and vanish at any time without the loss of a split (C16.4).
    #[test]
    fn exact_jobs_never_lose_a_split(
        splits in 0_u64..40,
        ops in prop::collection::vec((0_u8..33, any::<u64>()), 0..160),
    ) {
        let mut world = World::exact(splits);
        for (op, choice) in ops {
            world.step(op, choice);
        }
        world.drain();
        world.check_end();
        prop_assert_eq!(world.lost(), 0);
    }

    /// Tests runs in which no process dies or is cut off, and workers drain before they leave (C5.6,
    /// C10.2).
    #[test]
    fn without_deaths_every_split_is_delivered_exactly_once(
        splits in 0_u64..60,
        ops in prop::collection::vec((8_u8..33, any::<u64>()), 0..120),
        workers in 1_usize..4,
    ) {
        let mut world = World::new(splits, 1);
        for _ in 0..workers {
            world.add_worker();
        }
        world.add_client();
        for (op, choice) in ops {
            world.step(op, choice);
        }
        world.drain();
        world.check_end();
        prop_assert_eq!(world.lost(), 0);
    }
}
