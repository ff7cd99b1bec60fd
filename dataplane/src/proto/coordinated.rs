//! Simulates the consumers of one task of a coordinated read. Each consumer has a network of its own that
//! delays and reorders messages and breaks links. An element that one consumer may hand over must have
//! reached all consumers.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::release::Release;
use super::simulation::{Step, World, steps};

struct Consumers {
    worlds: Vec<World>,
    release: Release,
}

impl Consumers {
    fn new(count: u32, bound: u64) -> Self {
        let release = Release::new(NonZeroU32::new(count).unwrap());
        let worlds = (0..count).map(|_| World::coordinated(bound));
        Self {
            worlds: worlds.collect(),
            release,
        }
    }

    fn step(&mut self, consumer: usize, step: &Step) {
        match step {
            // One producer fills all queues. The exact number of groups that it adds at a time does not
            // matter here.
            Step::Produce(..) => self.worlds.iter_mut().for_each(|world| world.step(step)),
            Step::End | Step::EndSplit => {}
            Step::Grant
            | Step::Acknowledge
            | Step::Send(_)
            | Step::Deliver(_)
            | Step::DeliverGrant
            | Step::Wait
            | Step::Cut
            | Step::Read => self.worlds[consumer].step(step),
        }
        self.release();
        self.check();
    }

    /// Releases acknowledged groups, like the buffer and the sessions of a worker.
    fn release(&mut self) {
        for (consumer, world) in (0..).zip(&self.worlds) {
            self.release.acknowledge(consumer, world.worker.acknowledged());
        }
        for world in &mut self.worlds {
            world.worker.handle_released(self.release.groups());
        }
    }

    fn check(&self) {
        let here = self.worlds.iter().map(|world| world.client.contiguous());
        let everywhere = here.min().unwrap_or_default();
        for (consumer, world) in self.worlds.iter().enumerate() {
            let released = world.client.released();
            assert!(
                released <= everywhere,
                "consumer {consumer} may hand over {released} groups, but only {everywhere} have reached all consumers"
            );
        }
    }

    /// Exchanges all messages and packs without faults, for a fixed number of rounds.
    fn run_out(&mut self) {
        for _ in 0..1000 {
            for world in &mut self.worlds {
                world.exchange();
            }
            self.release();
            self.check();
        }
    }
}

proptest! {
    /// D7.3, D7.4: in the end every produced group is released, even if no consumer reads on.
    #[test]
    fn what_one_consumer_may_hand_over_all_have(
        count in 1u32..5,
        bound in 1u64..20,
        steps in (proptest::collection::vec(any::<prop::sample::Index>(), 300), steps()),
    ) {
        let mut consumers = Consumers::new(count, bound);
        for (consumer, step) in steps.0.iter().zip(&steps.1) {
            consumers.step(consumer.index(count as usize), step);
        }
        consumers.run_out();
        let produced = consumers.worlds[0].produced.len() as u64;
        for world in &consumers.worlds {
            prop_assert_eq!(world.client.released(), produced);
        }
    }
}
