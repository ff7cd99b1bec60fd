//! The promises that hold in every run.

use std::ops::Range;

use millstream_testkit::rounds;
use proptest::prelude::*;

use super::splits::Data;
use super::world::World;

/// Random steps of [`World::step`], each with the number that picks its process.
fn steps(kinds: Range<u8>) -> impl Strategy<Value = Vec<(u8, u16)>> {
    prop::collection::vec((kinds, any::<u16>()), 0..250)
}

/// Random steps in which consumers end. The kinds from 31 to 40 only matter for tasks with an end.
fn steps_with_ended_consumers() -> impl Strategy<Value = Vec<(u8, u16)>> {
    let kinds = prop_oneof![31 => 0_u8..31, 3 => 41_u8..44];
    prop::collection::vec((kinds, any::<u16>()), 0..250)
}

/// Returns a world that begins with some workers, after these steps.
fn played(count: u32, data: Data, workers: usize, steps: Vec<(u8, u16)>) -> World {
    let mut world = World::new(count, data);
    (0..workers).for_each(|_| world.add_worker());
    for (kind, pick) in steps {
        world.step(kind, usize::from(pick));
    }
    world
}

proptest! {
    #![proptest_config(rounds(128))]

    /// Tests every run (C9.3 to C9.6, C10.3, C1.5, C1.6).
    #[test]
    fn consumers_deliver_the_same_groups_and_continue(
        count in 1_u32..4,
        workers in 0_usize..3,
        steps in steps(0..31),
    ) {
        let mut world = played(count, Data::Endless, workers, steps);
        world.heal();
        prop_assert!(world.goes_on(), "the consumers wait for ever");
        world.check_order();
        prop_assert_eq!(world.removals(), 0, "every verdict is known");
        for consumer in &world.consumers {
            let last = consumer.handed.last().map(|(round, ..)| *round);
            prop_assert!(last.is_some());
        }
    }

    /// Tests that a finite dataset ends in the same step for all consumers, whatever happens to its workers
    /// (C9.5, C9.7).
    #[test]
    fn finite_data_ends_in_one_step(
        (count, groups) in (1_u32..4, 0_u64..12),
        workers in 0_usize..3,
        steps in steps(0..35),
    ) {
        let mut world = played(count, Data::Groups(groups), workers, steps);
        world.heal();
        prop_assert!(world.ends(), "the consumers wait for ever");
        world.check_end();
    }

    /// C6.4, C6.5, C9.5, C9.9, C10.2: the consumers hand over each split at most once. Every other split is
    /// lost with a report.
    #[test]
    fn no_split_is_missing_without_a_report(
        (count, splits) in (1_u32..4, 0_u64..30),
        workers in 0_usize..3,
        steps in steps(0..41),
    ) {
        let mut world = played(count, Data::Splits(splits), workers, steps);
        world.heal();
        prop_assert!(world.ends(), "the consumers wait for ever");
        world.check_end();
        world.check_splits(splits);
    }

    /// Tests that missing consumers are named, and that the remaining consumers stay in step (C9.8, C9.5).
    #[test]
    fn missing_consumers_are_named_to_the_others(
        count in 2_u32..4,
        steps in steps_with_ended_consumers(),
    ) {
        let mut world = played(count, Data::Endless, 0, steps);
        world.check_order();
        world.heal();
        world.wait_for_the_missing();
        let living = |alive| world.consumers.iter().filter(move |consumer| consumer.alive == alive);
        let gone: Vec<u32> = living(false).map(|consumer| consumer.index).collect();
        for consumer in living(true) {
            // A consumer that was told of missing consumers before the last one joined may still name it.
            let found = consumer.missing.as_ref();
            prop_assert!(gone.is_empty() || found.is_some_and(|missing| gone.iter().all(|index| missing.contains(index))));
        }
    }
}
