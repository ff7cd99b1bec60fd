//! The group of trainers that read an epoch together: their saved states, and how they resume.
//!
//! Owns the states. Does not know how a trainer receives elements.

use std::time::Duration;

use millstream_control::{ExactlyOnce, PoisonLimits, Request};
use millstream_link::Role;
use millstream_testkit::Chance;

use super::dataset::SimDataset;
use super::defects::SimDefect;
use super::ledger::Ledger;
use super::session::Purpose;
use super::trainer::SimTrainer;
use super::world::{Event, Pid, World};
use crate::exactly_once::place::Place;
use crate::exactly_once::sequence::Sequence;

/// The maximum number of trainers of a group.
const TRAINERS_MAX: u64 = 4;

/// The limits of a trainer's order. Elements are due within a window of splits, from the first unfinished
/// split on. The second number limits the later splits that are begun.
pub(super) type Order = (u64, usize);

/// The limits for one split after another.
pub(super) const FIXED: Order = (1, 0);

/// The trainers of an epoch, and their states.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) epoch: u64,
    /// The number of the group, which grows when all trainers resume.
    pub(super) generation: u64,
    /// The position at which the group began.
    base: Place,
    /// The process of each trainer.
    pub(super) members: Vec<Option<Pid>>,
    /// The saved state of each trainer: the bytes of its position, and the number of its elements.
    saved: Vec<(Vec<u8>, u64)>,
    /// The saved state of a group in step: the bytes of the computed position, and the number of steps.
    computed: Option<(Vec<u8>, u64)>,
    /// Whether the trainers take their steps together, so that one computed state stands for all of them.
    is_in_step: bool,
    /// The limits of the trainers' sequences.
    pub(super) order: Order,
    /// Whether all epochs of the world have ended.
    pub(super) has_ended: bool,
}

impl Group {
    pub(super) fn new(chance: &mut Chance, dataset: &SimDataset, order: Order) -> Group {
        let may_be_in_step = dataset.counts.is_some() && chance.percent(60);
        Group {
            order,
            epoch: 0,
            generation: 0,
            base: Place::default(),
            members: Vec::new(),
            saved: Vec::new(),
            computed: None,
            // A number of steps determines a position only in a fixed order.
            is_in_step: may_be_in_step && order == FIXED,
            has_ended: false,
        }
    }

    /// Returns the number of trainers.
    fn trainers(&self) -> u64 {
        self.members.len() as u64
    }

    /// Returns whether a trainer may take its next step. Trainers in step are at most one step apart.
    pub(super) fn may_step(&self, rank: u64, ledger: &Ledger) -> bool {
        !self.is_in_step || ledger.handed(rank) <= ledger.steps()
    }

    /// Replaces the trainers by new ones that begin at `place`.
    fn renew(&mut self, place: Place, trainers: u64) {
        self.generation += 1;
        self.members = (0..trainers).map(|_| None).collect();
        let first = |rank| {
            let sequence = Sequence::<()>::within(self.order, &place, rank, trainers);
            (sequence.place().to_bytes(), 0)
        };
        self.saved = (0..trainers).map(first).collect();
        self.computed = Some((place.to_bytes(), 0));
        self.base = place;
    }
}

impl World {
    /// Begins the group's epoch with new trainers.
    pub(super) fn begin_epoch(&mut self) {
        let trainers = self.chance.within(1..TRAINERS_MAX + 1);
        let mut place = Place::default();
        if self.has(SimDefect::EpochBeginsAtOldPlace) && self.group.epoch > 0 {
            place = self.group.base.clone();
        }
        self.group.renew(place, trainers);
        self.ledger.begin_epoch(&self.dataset, self.group.epoch, trainers);
        self.plan_faults();
        self.start_members();
    }

    fn start_members(&mut self) {
        for rank in 0..self.group.trainers() {
            let delay = self.chance.millis(0..400);
            self.later(delay, Event::Trained(self.group.generation, rank));
        }
    }

    /// Starts a trainer from its last saved state.
    pub(super) fn start_trainer(&mut self, generation: u64, rank: u64) {
        let member = rank as usize;
        if generation != self.group.generation || self.group.members[member].is_some() {
            return;
        }
        let (bytes, handed) = self.group.saved[member].clone();
        let place = Place::from_bytes(&bytes).expect("a saved position");
        self.ledger.rewind(rank, handed);
        let pid = self.fresh_pid();
        let session = self.open_session(pid, Role::Read);
        let step = self.group.trainers();
        let once = ExactlyOnce {
            files: None,
            quarantine: None,
            seed: self.seed,
            first: place.first_split(rank, step),
            step,
            // Processes die at random here, so a split may lose many workers and end none.
            poison: PoisonLimits {
                max_deaths: *PoisonLimits::DEATHS.end(),
                max_skips: 0,
            },
        };
        let place_in_group = (generation, rank, self.group.epoch);
        self.note(format_args!(
            "trainer {rank} of {step} is process {pid}, and begins at {place:?}"
        ));
        let sequence = Sequence::within(self.group.order, &place, rank, step);
        let trainer = SimTrainer::new(session, place_in_group, once, sequence);
        self.trainers.insert(pid, trainer);
        self.group.members[member] = Some(pid);
        self.tick(pid);
        self.attach_trainer(pid);
        self.later(Duration::ZERO, Event::Stepped(pid));
        let delay = self.chance.millis(1..800);
        self.later(delay, Event::Saved(pid));
    }

    /// Saves the state of a trainer.
    pub(super) fn save(&mut self, pid: Pid) {
        let Some(trainer) = self.trainers.get(&pid).filter(|trainer| !trainer.is_superseded) else {
            return;
        };
        let (rank, handed) = (trainer.rank, self.ledger.handed(trainer.rank));
        let mut sequence = trainer.sequence.clone();
        while self.defect == Some(SimDefect::PlaceCountsWaiting) && sequence.next().is_some() {}
        let mut place = sequence.place();
        match self.defect {
            Some(SimDefect::PlaceOneTooMany) => *place.had.entry(place.split).or_default() += 1,
            Some(SimDefect::PlaceWithoutHad) => place.had.clear(),
            Some(SimDefect::PlaceWithoutFinished) if self.group.order != FIXED => {
                place.had.retain(|_, count| *count != u64::MAX)
            }
            Some(SimDefect::PlaceOneSplitTooFar) if handed > 0 => {
                place.split += self.group.trainers();
                place.had = place.had.split_off(&place.split);
            }
            _ => {}
        }
        self.group.saved[rank as usize] = (place.to_bytes(), handed);
        if let Some(counts) = self.dataset.counts.filter(|_| self.group.is_in_step) {
            let trainers = match self.has(SimDefect::StepsOfOtherCount) {
                true => self.group.trainers() + 1,
                false => self.group.trainers(),
            };
            let steps = self.ledger.steps();
            let place = self.group.base.after(&counts, trainers, steps);
            self.group.computed = Some((place.to_bytes(), steps));
        }
        let delay = self.chance.millis(50..900);
        self.later(delay, Event::Saved(pid));
    }

    /// Restarts one trainer from its last saved state. The other trainers go on.
    pub(super) fn restart_trainer(&mut self, pid: Pid) {
        let Some(trainer) = self.trainers.get(&pid).filter(|trainer| !trainer.is_superseded) else {
            return;
        };
        let (generation, rank) = (trainer.generation, trainer.rank);
        self.tally.resumes += 1;
        self.dismiss(pid);
        self.group.members[rank as usize] = None;
        let delay = self.chance.millis(0..2000);
        self.later(delay, Event::Trained(generation, rank));
    }

    /// Stops all trainers, and lets another number of trainers continue from their saved states.
    pub(super) fn resume_group(&mut self) {
        let old = self.group.trainers();
        let trainers = self.chance.within(1..TRAINERS_MAX + 1);
        let (place, handed) = self.saved_together();
        self.note(format_args!(
            "{trainers} trainers instead of {old} resume at {place:?}"
        ));
        self.tally.resumes += 1;
        self.tally.resized += u64::from(trainers != old);
        let members: Vec<Pid> = self.group.members.iter().flatten().copied().collect();
        members.into_iter().for_each(|pid| self.dismiss(pid));
        self.ledger.resume(&handed, trainers);
        self.group.renew(place, trainers);
        self.start_members();
    }

    /// Returns the position from which all trainers resume, and the number of elements of each of them.
    fn saved_together(&mut self) -> (Place, Vec<u64>) {
        if let Some((bytes, steps)) = self.group.computed.clone().filter(|_| self.group.is_in_step) {
            let place = Place::from_bytes(&bytes).expect("a saved position");
            return (place, self.group.members.iter().map(|_| steps).collect());
        }
        let saved = self.group.saved.iter();
        let mut places: Vec<Place> = saved
            .map(|(bytes, _)| Place::from_bytes(bytes).expect("a saved position"))
            .collect();
        if self.has(SimDefect::JoinedInOtherOrder) {
            places.reverse();
        }
        let mut place = Place::joined(&places);
        match self.defect {
            Some(SimDefect::JoinedAtLatest) => {
                place.split = places.iter().map(|place| place.split).max().unwrap_or_default();
                place.had = place.had.split_off(&place.split);
            }
            Some(SimDefect::JoinedWithoutWhole) => place.had.retain(|_, count| *count != u64::MAX),
            _ => {}
        }
        (
            place,
            self.group.saved.iter().map(|(_, handed)| *handed).collect(),
        )
    }

    /// Stops a trainer in one of the ways in which processes stop: with a release, silently, or late.
    fn dismiss(&mut self, pid: Pid) {
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        trainer.is_superseded = true;
        let client = trainer.client;
        match self.chance.index(3) {
            0 => {
                if let Some(client) = client {
                    self.call(pid, Purpose::Other, Request::Release { client });
                }
                let delay = self.chance.millis(100..3000);
                self.later(delay, Event::Struck(super::faults::Fault::SupersededEnds(pid)));
            }
            1 => self.kill_trainer(pid),
            _ => {
                let delay = self.chance.millis(100..20_000);
                self.later(delay, Event::Struck(super::faults::Fault::SupersededEnds(pid)));
            }
        }
    }

    pub(super) fn kill_trainer(&mut self, pid: Pid) {
        if let Some(trainer) = self.trainers.remove(&pid) {
            self.sessions.remove(&trainer.session.id);
        }
    }

    /// Ends the epoch if all of its trainers have ended.
    pub(super) fn end_member(&mut self, pid: Pid) {
        let trainers = &self.trainers;
        let is_over = |member: &Option<Pid>| {
            let trainer = member.and_then(|pid| trainers.get(&pid));
            trainer.is_some_and(|trainer| trainer.has_ended)
        };
        self.note(format_args!("process {pid} has read its epoch to the end"));
        if !self.group.members.iter().all(is_over) {
            return;
        }
        self.ledger.check_epoch();
        self.tally.epochs += 1;
        self.tally.in_any_order += u64::from(self.group.order != FIXED);
        self.group.epoch += 1;
        if self.group.epoch == self.settings.epochs {
            self.group.has_ended = true;
            return;
        }
        let members: Vec<Pid> = self.group.members.iter().flatten().copied().collect();
        members.into_iter().for_each(|pid| self.dismiss(pid));
        self.begin_epoch();
    }
}
