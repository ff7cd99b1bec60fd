//! Poison splits in the simulation: splits that end each worker that begins them (C16.7 to C16.9).

use std::collections::BTreeSet;

use millstream_testkit::rounds;
use proptest::prelude::*;

use super::moves::picked;
use super::world::World;
use crate::dispatcher::{Departure, Event, Run};
use crate::exactly_once::{ExactlyOnce, PoisonLimits};
use crate::id::{SessionId, TaskId};
use crate::split::SplitPace;

/// The steps of the simulation that end no worker and cut none off.
const HARMLESS_OPS: std::ops::Range<u8> = 3..33;

impl World {
    /// Returns a world with an exactly-once job, some of whose splits are poison.
    fn poisoned(splits: u64, poison: BTreeSet<u64>, max_skips: u32) -> World {
        let once = ExactlyOnce {
            poison: PoisonLimits {
                max_skips,
                ..PoisonLimits::default()
            },
            ..ExactlyOnce::whole(7)
        };
        let mut world = World::with(splits, 1, Some(once));
        world.poison = poison;
        world
    }

    /// Returns the pace of tasks with poison splits, at which a lease has several splits. A death then has
    /// several candidates.
    pub(super) fn poison_pace(&self) -> Option<SplitPace> {
        (!self.poison.is_empty()).then_some(SplitPace {
            per_1000_s: 1_000_000,
            unstarted: 0,
            can_wait: false,
        })
    }

    /// Ends a worker that would begin a poison split. Returns whether it did.
    pub(super) fn die_of_poison(&mut self, pick: usize) -> bool {
        let poison = &self.poison;
        let worker = picked(&mut self.workers, pick);
        let dying = worker.filter(|worker| worker.tasks.values().any(|task| task.begins_one_of(poison)));
        let session = dying.map(|worker| worker.session);
        session.inspect(|session| self.die(*session)).is_some()
    }

    fn die(&mut self, session: SessionId) {
        let worker = self.workers.iter_mut().find(|worker| worker.session == session);
        let Some(worker) = worker else {
            return;
        };
        worker.alive = false;
        worker.tasks.clear();
        self.deaths += 1;
        let departure = Departure::Reset;
        self.machine
            .handle(Event::Disconnected { session, departure }, self.now);
        self.settle();
    }

    /// Lets a task read a suspect at once, as a worker does with a split that it waited for, and request
    /// the next split.
    pub(super) fn read_suspect(&mut self, (session, task): (SessionId, TaskId), pick: usize, runs: &[Run]) {
        let from = PoisonLimits::default().suspect_deaths();
        if !runs.iter().any(|run| run.deaths >= from) {
            return;
        }
        let poison = self.poison.clone();
        match self.task(session, task) {
            Some(state) if state.begins_one_of(&poison) => return self.die(session),
            Some(state) => state.produce(),
            None => {}
        }
        self.lease(pick, 0);
    }
}

proptest! {
    #![proptest_config(rounds(96))]

    /// Tests that a job ends after a bounded number of deaths, and gives up poison splits only (C16.7,
    /// C16.8, C16.9).
    #[test]
    fn only_poison_splits_are_given_up(
        splits in 1_u64..30,
        poison in prop::collection::btree_set(0_u64..30, 0..4),
        max_skips in 0_u32..5,
        ops in prop::collection::vec((HARMLESS_OPS, any::<u64>()), 0..120),
    ) {
        let poison: BTreeSet<u64> = poison.into_iter().filter(|index| *index < splits).collect();
        let mut world = World::poisoned(splits, poison.clone(), max_skips);
        for (op, choice) in ops {
            world.step(op, choice);
        }
        world.drain();
        let status = world.machine.status().iterations[0].clone();
        let row = world.machine.state.tables.iterations.get(&status.id).unwrap();
        let skipped: BTreeSet<u64> = row.skipped.iter().map(|range| range.first).collect();
        let lost: BTreeSet<u64> = status.lost.iter().map(|range| range.first).collect();
        prop_assert!(skipped.is_subset(&poison), "skipped {:?}", skipped);
        prop_assert!(lost.is_subset(&poison), "lost {:?}", lost);
        prop_assert!(world.deaths <= 3 * poison.len(), "{} deaths", world.deaths);
        let fails = poison.len() > max_skips as usize;
        prop_assert_eq!((lost.len(), row.failures.len()), if fails { (1, 1) } else { (0, 0) });
        prop_assert_eq!(skipped.len(), poison.len().min(max_skips as usize));
        if !fails {
            world.check_end();
        }
    }
}
