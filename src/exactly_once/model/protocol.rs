//! The protocol of the model: tasks, dispatcher and reader as one machine with faults.
//!
//! Decides which steps a state permits, and what each step changes. Does not know which runs are checked.

use millstream_pipeline::exec::SplitPart;
use stateright::{Model, Property};

use super::epoch::{ModelEpoch, Name};
use crate::exactly_once::place::Place;
use crate::exactly_once::sequence::{Numbered, Sequence, SequenceError};

/// The maximum number of splits that a task holds and has not sent to the end.
pub(super) const LEASES_MAX: usize = 2;
/// The number of workers.
pub(super) const WORKERS: u8 = 2;

/// The limits of a model, and the defect that was planted in it.
#[derive(Debug, Clone)]
pub(super) struct ExactModel {
    pub(super) epochs: Vec<ModelEpoch>,
    /// The maximum number of tasks that are removed because their worker died or was suspected.
    pub(super) removals: u8,
    /// The maximum number of restarts of the trainer.
    pub(super) restarts: u8,
    /// Whether the trainer receives an element as soon as it is due. This leaves out states.
    pub(super) is_trainer_fast: bool,
    pub(super) defect: Option<Defect>,
}

/// A mistake that the checker must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// The dispatcher frees no split that the reader has seen in part.
    SeenPartNotFreed,
    /// The acknowledgement names a split that was seen in part as complete.
    PartNamedComplete,
    /// The dispatcher ends the iteration although a split is free.
    EndBeforeFreeSplit,
    /// The next attempt of a split begins at its second element.
    AttemptBeginsLate,
    /// The dispatcher leases done splits again, and the reader hands out repeated elements.
    RepeatedHandedOut,
    /// The reader hands out elements of a removed task without counting them.
    RemovedTaskUncounted,
    /// The saved position counts one element too many.
    PlaceOneTooMany,
    /// The saved position counts elements that arrived and were not handed out.
    PlaceCountsWaiting,
}

/// A split that a task holds and has not sent to the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ModelLease {
    pub(super) split: u64,
    /// The position of the next element that arrives.
    pub(super) next: u64,
}

/// The answer that a task still expects from the dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ModelPhase {
    /// The task requests splits.
    Leasing,
    /// The dispatcher has told the task that no split is left.
    Exhausted,
}

/// The state of a removal (C6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ModelRemoval {
    /// The task was not removed.
    None,
    /// The dispatcher has removed the task, and the reader does not know.
    Unknown,
    /// The reader drops further elements of the task, and its acknowledgement is on its way.
    Acknowledging,
    /// The dispatcher did not wait for the acknowledgement, and the reader does not know of the removal.
    TimedOut,
}

/// A task that reads splits. Tasks have no numbers, so that states that differ only in numbers are one state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ModelTask {
    pub(super) leases: Vec<ModelLease>,
    /// The held splits of which the reader has seen every element, in order.
    pub(super) complete: Vec<u64>,
    /// The latest split that the task got.
    pub(super) last: Option<u64>,
    /// Whether the task gets free splits only (C6.9).
    pub(super) is_round: bool,
    pub(super) phase: ModelPhase,
    pub(super) removal: ModelRemoval,
}

/// The state of the dispatcher, the tasks and the trainer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ModelState {
    /// The number of the epoch in the model.
    pub(super) epoch: usize,
    /// The first split that was never leased.
    pub(super) fresh: u64,
    /// The free splits, and the done ones, in order.
    pub(super) free: Vec<u64>,
    pub(super) done: Vec<u64>,
    pub(super) tasks: Vec<ModelTask>,
    pub(super) removals: u8,
    pub(super) restarts: u8,
    /// The elements of removed tasks that the reader's links received, and that it has not read yet.
    pub(super) received: Vec<Vec<Name>>,
    pub(super) sequence: Sequence<Name>,
    /// The elements that the surviving lineage of the trainer received.
    pub(super) handed: Vec<Name>,
    pub(super) has_ended: bool,
    pub(super) error: Option<SequenceError>,
}

/// A step of the model. Numbers are positions in [`ModelState::tasks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelStep {
    /// The dispatcher starts a task for free splits that no running task may read (C6.5, C6.9).
    StartRound,
    /// The dispatcher answers a request for a split.
    Lease(usize),
    /// The next element of a task arrives.
    Arrive(usize),
    /// The dispatcher settles a task whose end the reader reported.
    Settle(usize),
    /// The dispatcher removes a task whose worker died or was suspected.
    Remove(usize),
    /// The reader learns of a removal. Its links have received some further elements, which it still reads.
    LearnRemoval(usize, usize),
    /// The reader reads the next received element of a removed task. The number is a position in
    /// [`ModelState::received`].
    Read(usize),
    /// The acknowledgement of a removal arrives.
    Acknowledge(usize),
    /// The dispatcher no longer waits for an acknowledgement.
    TimeOut(usize),
    /// The trainer receives the element that is due.
    HandOut,
    /// The trainer saves its state and stops, and another one continues from the state.
    Restart,
    /// The reader learns that the iteration is finished.
    Finish,
}

impl ModelTask {
    pub(super) fn holds(&self, split: u64) -> bool {
        let is_held = matches!(
            self.removal,
            ModelRemoval::None | ModelRemoval::Unknown | ModelRemoval::Acknowledging
        );
        is_held && (self.complete.contains(&split) || self.leases.iter().any(|lease| lease.split == split))
    }

    /// Returns whether the task may still get this split. A task never gets an earlier split (C5.9).
    pub(super) fn may_get(&self, split: u64) -> bool {
        self.is_leasing() && self.last.is_none_or(|last| last < split)
    }

    pub(super) fn is_leasing(&self) -> bool {
        self.phase == ModelPhase::Leasing && self.removal == ModelRemoval::None
    }

    /// Returns whether elements of the task may still arrive.
    pub(super) fn is_sending(&self) -> bool {
        let is_heard = self.removal != ModelRemoval::Acknowledging;
        is_heard && !self.leases.is_empty()
    }

    /// Returns whether the reader has everything that the task had to send.
    pub(super) fn is_over(&self) -> bool {
        self.phase == ModelPhase::Exhausted && self.leases.is_empty()
    }

    /// Sends the next element. A split without elements sends one filler.
    pub(super) fn send(&mut self, epoch: &ModelEpoch) -> Option<Name> {
        let lease = self.leases.first_mut()?;
        let name = (lease.split, lease.next);
        lease.next += 1;
        if lease.next >= epoch.counts[lease.split as usize] {
            self.complete.push(name.0);
            self.leases.remove(0);
        }
        Some(name)
    }
}

impl ModelState {
    /// Starts a task of each worker.
    pub(super) fn start_all(&mut self) {
        (0..WORKERS).for_each(|_| self.start(false));
    }

    pub(super) fn start(&mut self, is_round: bool) {
        self.tasks.push(ModelTask {
            leases: Vec::new(),
            complete: Vec::new(),
            last: None,
            is_round,
            phase: ModelPhase::Leasing,
            removal: ModelRemoval::None,
        });
    }

    /// Returns whether a free split exists that every running task has passed.
    pub(super) fn needs_round(&self) -> bool {
        let is_passed = |split: &u64| !self.tasks.iter().any(|task| task.may_get(*split));
        self.free.iter().any(is_passed)
    }

    /// Leases a split to a task, the free splits first (C5.3).
    pub(super) fn lease(&mut self, model: &ExactModel, index: usize) {
        let epoch = &model.epochs[self.epoch];
        let task = &mut self.tasks[index];
        let free = self.free.iter().position(|split| task.may_get(*split));
        let (split, next) = if let Some(at) = free {
            let split = self.free.remove(at);
            let is_late = model.defect == Some(Defect::AttemptBeginsLate) && epoch.counts[split as usize] > 1;
            (split, u64::from(is_late))
        } else if self.fresh < epoch.end() && !task.is_round {
            self.fresh += epoch.step;
            (self.fresh - epoch.step, 0)
        } else {
            task.phase = ModelPhase::Exhausted;
            return;
        };
        task.last = Some(split);
        task.leases.push(ModelLease { split, next });
    }

    /// Lets the reader learn of a removal. The acknowledgement covers `received` further elements.
    pub(super) fn learn_removal(&mut self, model: &ExactModel, index: usize, received: usize) {
        let task = &mut self.tasks[index];
        let names: Vec<Name> = (0..received)
            .map_while(|_| task.send(&model.epochs[self.epoch]))
            .collect();
        if task.removal == ModelRemoval::TimedOut {
            self.tasks.remove(index);
        } else {
            task.removal = ModelRemoval::Acknowledging;
        }
        if !names.is_empty() {
            self.received.push(names);
        }
    }

    /// Reads the next element of a removed task that the reader's links received.
    pub(super) fn read(&mut self, model: &ExactModel, index: usize) {
        let name = self.received[index].remove(0);
        self.received.retain(|names| !names.is_empty());
        if model.defect == Some(Defect::RemovedTaskUncounted) {
            self.handed.push(name);
        } else {
            self.accept(model, name);
        }
    }

    /// Lets the next element of a task arrive at the reader.
    pub(super) fn arrive(&mut self, model: &ExactModel, index: usize) {
        let task = &mut self.tasks[index];
        if let Some(name) = task.send(&model.epochs[self.epoch]) {
            self.accept(model, name);
        }
    }

    pub(super) fn accept(&mut self, model: &ExactModel, name: Name) {
        let (split, position) = name;
        let count = model.epochs[self.epoch].counts[split as usize];
        let part = match position + 1 {
            _ if count == 0 => SplitPart::Empty,
            end if end == count => SplitPart::Last,
            _ => SplitPart::Inner,
        };
        let is_repeated_used = model.defect == Some(Defect::RepeatedHandedOut) && count > 0;
        match self.sequence.accept(Numbered {
            split,
            position,
            part,
            element: name,
        }) {
            Ok(false) if is_repeated_used => self.handed.push(name),
            Ok(_) => {}
            Err(error) => self.error = Some(error),
        }
    }

    /// Marks the complete splits of a task as done.
    pub(super) fn finish_complete(&mut self, index: usize) {
        self.done.append(&mut self.tasks[index].complete);
        self.done.sort_unstable();
        self.done.dedup();
    }

    /// Frees the splits of a removed task that are not done (C16.4).
    pub(super) fn free_splits(&mut self, defect: Option<Defect>, task: ModelTask) {
        let is_freed = |lease: &&ModelLease| defect != Some(Defect::SeenPartNotFreed) || lease.next == 0;
        self.free
            .extend(task.leases.iter().filter(is_freed).map(|lease| lease.split));
        self.free.extend(task.complete);
        self.free.sort_unstable();
    }

    /// Frees the splits of a removed task without an acknowledgement (C6.3). The reader may still read it.
    pub(super) fn time_out(&mut self, defect: Option<Defect>, index: usize) {
        let task = self.tasks[index].clone();
        if task.removal == ModelRemoval::Acknowledging {
            self.tasks.remove(index);
        } else {
            self.tasks[index].removal = ModelRemoval::TimedOut;
        }
        self.free_splits(defect, task);
    }

    /// Sorts the splits of a removed task by the reader's acknowledgement (C6.4).
    pub(super) fn acknowledge(&mut self, defect: Option<Defect>, index: usize) {
        if defect == Some(Defect::PartNamedComplete) {
            let task = &mut self.tasks[index];
            let parts = task.leases.extract_if(.., |lease| lease.next > 0);
            task.complete.extend(parts.map(|lease| lease.split));
        }
        if defect != Some(Defect::RepeatedHandedOut) {
            self.finish_complete(index);
        }
        let task = self.tasks.remove(index);
        self.free_splits(defect, task);
    }

    /// Returns the bytes of the trainer's saved state.
    pub(super) fn saved(&self, defect: Option<Defect>) -> Vec<u8> {
        let mut sequence = self.sequence.clone();
        while defect == Some(Defect::PlaceCountsWaiting) && sequence.next().is_some() {}
        let mut place = sequence.place();
        if defect == Some(Defect::PlaceOneTooMany) {
            *place.had.entry(place.split).or_default() += 1;
        }
        place.to_bytes()
    }

    /// Opens a new job at the saved state. The tasks and the reader of the old job are gone.
    pub(super) fn restart(&mut self, model: &ExactModel) {
        let bytes = self.saved(model.defect);
        let place = Place::from_bytes(&bytes).expect("a saved place");
        (self.fresh, self.sequence) = model.epochs[self.epoch].open(&place);
        self.free.clear();
        self.done.clear();
        self.tasks.clear();
        self.received.clear();
        self.start_all();
        self.restarts += 1;
        self.has_ended = false;
    }

    /// Returns whether the iteration is finished (C3.4), and the reader has read and handed out its elements.
    pub(super) fn is_finished(&self, model: &ExactModel) -> bool {
        let is_free_ignored = model.defect == Some(Defect::EndBeforeFreeSplit);
        self.fresh >= model.epochs[self.epoch].end()
            && self.tasks.is_empty()
            && self.received.is_empty()
            && !self.sequence.has_next()
            && (self.free.is_empty() || is_free_ignored)
    }

    /// Returns whether the trainer has received everything.
    pub(super) fn is_complete(&self, model: &ExactModel) -> bool {
        self.has_ended && self.handed == model.epochs[self.epoch].plan()
    }

    /// Returns whether a split is fresh, free, held or done.
    pub(super) fn has_split(&self, split: u64) -> bool {
        let is_held = || self.tasks.iter().any(|task| task.holds(split));
        split >= self.fresh || self.free.contains(&split) || self.done.contains(&split) || is_held()
    }
}

impl ExactModel {
    pub(super) fn task_steps(&self, state: &ModelState, index: usize, steps: &mut Vec<ModelStep>) {
        let task = &state.tasks[index];
        let has_room = task.leases.len() < LEASES_MAX;
        let is_silent = matches!(task.removal, ModelRemoval::Unknown | ModelRemoval::Acknowledging);
        let is_unaware = matches!(task.removal, ModelRemoval::Unknown | ModelRemoval::TimedOut);
        let is_held = task.removal == ModelRemoval::None;
        let possible = [
            (task.is_leasing() && has_room, ModelStep::Lease(index)),
            (task.is_sending(), ModelStep::Arrive(index)),
            (is_held && task.is_over(), ModelStep::Settle(index)),
            (
                is_held && state.removals < self.removals,
                ModelStep::Remove(index),
            ),
            (
                task.removal == ModelRemoval::Acknowledging,
                ModelStep::Acknowledge(index),
            ),
            (is_silent, ModelStep::TimeOut(index)),
        ];
        steps.extend(
            possible
                .into_iter()
                .filter(|(is_possible, _)| *is_possible)
                .map(|(_, step)| step),
        );
        if is_unaware {
            let epoch = &self.epochs[state.epoch];
            let left = |lease: &ModelLease| epoch.counts[lease.split as usize].max(1) - lease.next;
            let left: u64 = task.leases.iter().map(left).sum();
            steps.extend((0..=left as usize).map(|received| ModelStep::LearnRemoval(index, received)));
        }
    }

    pub(super) fn is_terminal(&self, state: &ModelState) -> bool {
        let mut steps = Vec::new();
        self.actions(state, &mut steps);
        // A trainer that stops once more is no progress.
        steps.iter().all(|step| *step == ModelStep::Restart)
    }
}

impl Model for ExactModel {
    type State = ModelState;
    type Action = ModelStep;

    fn init_states(&self) -> Vec<ModelState> {
        let first_state = |(number, epoch): (usize, &ModelEpoch)| {
            let (fresh, sequence) = epoch.open(&epoch.begin);
            let mut state = ModelState {
                epoch: number,
                fresh,
                free: Vec::new(),
                done: Vec::new(),
                tasks: Vec::new(),
                removals: 0,
                restarts: 0,
                received: Vec::new(),
                sequence,
                handed: Vec::new(),
                has_ended: false,
                error: None,
            };
            state.start_all();
            state
        };
        self.epochs.iter().enumerate().map(first_state).collect()
    }

    fn actions(&self, state: &ModelState, steps: &mut Vec<ModelStep>) {
        if state.error.is_some() {
            return;
        }
        let can_restart = state.restarts < self.restarts;
        let possible = [
            (state.sequence.has_next(), ModelStep::HandOut),
            (can_restart, ModelStep::Restart),
        ];
        steps.extend(
            possible
                .into_iter()
                .filter(|(is_possible, _)| *is_possible)
                .map(|(_, step)| step),
        );
        if state.has_ended {
            return;
        }
        let possible = [
            (state.needs_round(), ModelStep::StartRound),
            (state.is_finished(self), ModelStep::Finish),
        ];
        steps.extend(
            possible
                .into_iter()
                .filter(|(is_possible, _)| *is_possible)
                .map(|(_, step)| step),
        );
        steps.extend((0..state.received.len()).map(ModelStep::Read));
        for index in 0..state.tasks.len() {
            self.task_steps(state, index, steps);
        }
    }

    fn next_state(&self, state: &ModelState, step: ModelStep) -> Option<ModelState> {
        let mut next = state.clone();
        match step {
            ModelStep::StartRound => next.start(true),
            ModelStep::Lease(index) => next.lease(self, index),
            ModelStep::Arrive(index) => next.arrive(self, index),
            ModelStep::Settle(index) => {
                next.finish_complete(index);
                next.tasks.remove(index);
            }
            ModelStep::Remove(index) => {
                next.removals += 1;
                next.tasks[index].removal = ModelRemoval::Unknown;
                next.start(false);
            }
            ModelStep::LearnRemoval(index, received) => next.learn_removal(self, index, received),
            ModelStep::Read(index) => next.read(self, index),
            ModelStep::Acknowledge(index) => next.acknowledge(self.defect, index),
            ModelStep::TimeOut(index) => next.time_out(self.defect, index),
            ModelStep::HandOut => next.handed.extend(next.sequence.next()),
            ModelStep::Restart => next.restart(self),
            ModelStep::Finish => {
                next.has_ended = true;
                next.error = next.sequence.end().err();
            }
        }
        while self.is_trainer_fast
            && let Some(name) = next.sequence.next()
        {
            next.handed.push(name);
        }
        next.tasks.sort_unstable();
        next.received.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<ExactModel>> {
        vec![
            Property::always(IN_ORDER, |model: &ExactModel, state: &ModelState| {
                model.epochs[state.epoch].plan().starts_with(&state.handed)
            }),
            Property::always(NO_ERROR, |_, state: &ModelState| state.error.is_none()),
            Property::always(NO_LOSS, |model: &ExactModel, state: &ModelState| {
                let epoch = &model.epochs[state.epoch];
                let own = (epoch.first..epoch.end()).step_by(epoch.step as usize);
                own.filter(|split| *split >= state.sequence.due())
                    .all(|split| state.has_split(split))
            }),
            Property::always(COMPLETE, |model: &ExactModel, state: &ModelState| {
                state.is_complete(model) || !model.is_terminal(state)
            }),
            Property::sometimes(REPEATED, |_, state: &ModelState| state.sequence.repeated() > 1),
            Property::sometimes(RESUMED, |model: &ExactModel, state: &ModelState| {
                state.is_complete(model) && state.restarts > 0 && state.sequence.repeated() > 0
            }),
        ]
    }
}

/// The trainer received exactly the first elements of the plan, in order.
pub(super) const IN_ORDER: &str = "the handed-out elements are a prefix of the plan";
/// The reader found no gap, no foreign split, and no end before an element.
pub(super) const NO_ERROR: &str = "the reader meets no error";
/// Each split that the trainer still needs is fresh, free, held by a task, or done.
pub(super) const NO_LOSS: &str = "no split is lost";
/// A run that cannot go on has handed out every element.
pub(super) const COMPLETE: &str = "each run ends with every element handed out";
/// The model reaches what it is for: elements arrive again.
pub(super) const REPEATED: &str = "elements arrive again";
/// The model reaches what it is for: a resumed trainer receives everything although a task was removed.
pub(super) const RESUMED: &str = "a resumed trainer receives everything after a removal";
