//! `interleave` whose datasets are read ahead, each by a thread of its own: in the order in which one thread
//! would read them, or in the order in which their elements are ready.
//!
//! The threads also open datasets, in the order of the input and before their turn, so that none waits for
//! another's file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Select;

use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::expected::Expected;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::tune::{READERS_AT_FIRST, Readers};
use crate::graph::{AUTO, Cycle};

use crate::exec::body::{Body, Given, Opened};
use crate::exec::read_ahead::{GRACE, Polled, ReadAhead};
use crate::exec::turns::{Turn, Turns};

/// Elements of a dataset that are read ahead, unless a block has more.
const AHEAD: u64 = 16;
/// Elements for which each thread has room in the byte budget: where they are large, more threads would wait
/// for memory, and keep some for themselves.
const ROOM: usize = 8;
/// Threads as long as nobody knows how large elements are.
const THREADS_AT_FIRST: usize = 4;

pub(crate) struct ParallelInterleave {
    body: Arc<Body>,
    cycle: Cycle,
    ordered: bool,
    /// The number of datasets that are read ahead at once; the others are read when it is their turn.
    threads: usize,
    /// The choice of that number.
    chosen: Option<Chosen>,
    /// The number of threads that there could be at the last look.
    threads_before: usize,
    /// The expected bytes of the next elements of the datasets.
    expected: Expected,
    input: ReadAhead,
    input_end: Option<Result<(), ExecError>>,
    shared: Shared,
    /// The number of restarts: a body draws again in every pass.
    pass: u64,
    turns: Turns<Reader>,
    /// Datasets for which there is no slot yet, in the order of the input.
    waiting: VecDeque<Reader>,
}

/// The choice of how many datasets are read ahead.
struct Chosen {
    readers: Readers,
    /// The last look at it.
    looked: Instant,
    /// Whether the next element was waited for.
    was_waited: bool,
}

/// A dataset being read.
struct Reader {
    elements: ReadAhead,
    /// Whether a thread reads it.
    has_thread: bool,
}

impl ParallelInterleave {
    pub(crate) fn new(
        body: Body,
        cycle: Cycle,
        expected: Expected,
        input: Input,
        shared: &Shared,
    ) -> ParallelInterleave {
        // A cycle has at most 4096 slots, and one dataset has a head start.
        let most = cycle.length as usize + 1;
        let is_chosen = cycle.schedule.parallel == AUTO && shared.tuner.is_some();
        let chosen = is_chosen.then(|| Chosen {
            readers: Readers::new(most),
            looked: Instant::now(),
            was_waited: false,
        });
        let threads = match (&chosen, cycle.schedule.parallel) {
            (Some(chosen), _) => chosen.readers.now(),
            (None, AUTO) => READERS_AT_FIRST,
            (None, threads) => threads as usize,
        };
        if let Some(stage) = &shared.stage {
            stage.set_threads(threads.min(most));
        }
        ParallelInterleave {
            body: Arc::new(body),
            cycle,
            ordered: cycle.schedule.is_ordered(shared.deterministic),
            threads,
            chosen,
            threads_before: 0,
            expected,
            input: ReadAhead::new("interleave", 1, Expected::unknown(), input, shared.clone()),
            input_end: None,
            shared: shared.clone(),
            pass: 0,
            turns: Turns::new(cycle),
            waiting: VecDeque::new(),
        }
    }

    /// Returns whether one more dataset may be opened: the next one to come has a head start.
    fn wants_input(&self) -> bool {
        // A cycle has at most 4096 slots.
        let most = self.cycle.length as usize + 1;
        self.input_end.is_none() && self.turns.open_count() + self.waiting.len() < most
    }

    /// Threads that there may be now.
    fn threads(&self) -> usize {
        let budget = &self.shared.budget;
        if !self.expected.is_known() {
            return self.threads.min(THREADS_AT_FIRST);
        }
        let room = self.expected.bytes(budget).saturating_mul(ROOM).max(1);
        self.threads.min(budget.limit_bytes() / room).max(1)
    }

    /// Counts an element that is handed over, and has more or fewer datasets read ahead where it is time to
    /// look at that.
    fn took(&mut self) {
        let Some(chosen) = &mut self.chosen else { return };
        if !chosen.readers.took(std::mem::take(&mut chosen.was_waited)) {
            return;
        }
        let now = Instant::now();
        let interval = now.saturating_duration_since(chosen.looked).as_nanos();
        if !chosen.readers.look(u64::try_from(interval).unwrap_or(u64::MAX)) {
            return;
        }
        chosen.looked = now;
        let before = std::mem::replace(&mut self.threads, chosen.readers.now());
        if before != self.threads {
            tracing::trace!(
                before,
                threads = self.threads,
                "the datasets that an interleave reads ahead"
            );
            if let Some(stage) = &self.shared.stage {
                stage.set_threads(self.threads);
            }
        }
    }

    /// Returns how many datasets are read by threads.
    fn busy(&self) -> usize {
        let readers = self.turns.open().chain(&self.waiting);
        readers.filter(|reader| reader.has_thread).count()
    }

    /// Has threads read more of the open datasets where there may be more threads than before.
    fn add_threads(&mut self) -> Result<(), ExecError> {
        let threads = self.threads();
        let before = std::mem::replace(&mut self.threads_before, threads);
        if threads <= before {
            return Ok(());
        }
        let more = threads.saturating_sub(self.busy());
        let readers = self.turns.open_mut().chain(&mut self.waiting);
        for reader in readers.filter(|reader| !reader.has_thread).take(more) {
            reader.has_thread = true;
            reader.elements.begin()?;
        }
        Ok(())
    }

    /// Opens the datasets for which there are elements and room.
    fn top_up(&mut self) -> Result<(), ExecError> {
        self.add_threads()?;
        while self.wants_input() {
            match self.input.poll()? {
                Polled::Item((outer, _)) => {
                    let has_thread = self.busy() < self.threads();
                    let mut reader = self.reader(Stage::Unopened(outer), has_thread);
                    if has_thread {
                        reader.elements.begin()?;
                    }
                    self.waiting.push_back(reader);
                }
                Polled::Pending => break,
                Polled::Ended(end) => self.input_end = Some(end),
            }
        }
        Ok(())
    }

    /// A reader of the dataset at `stage`, with a thread of its own or without.
    fn reader(&self, stage: Stage, has_thread: bool) -> Reader {
        let dataset = BodyOf::new(&self.body, self.pass, stage);
        let size = self.cycle.block.max(AHEAD);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        Reader {
            elements: ReadAhead::new(
                "interleave",
                size,
                self.expected.clone(),
                Box::new(dataset),
                self.shared.clone(),
            ),
            has_thread,
        }
    }

    /// Takes the turn that it is as far as that goes without waiting.
    fn step(&mut self) -> Result<Step, ExecError> {
        let polled = match self.turns.now() {
            Turn::Open(reader) => reader.poll()?,
            Turn::Vacant => {
                return match (self.waiting.pop_front(), &self.input_end) {
                    (Some(reader), _) => {
                        self.turns.fill(Some(reader));
                        Ok(Step::On)
                    }
                    (None, Some(Ok(()))) => {
                        self.turns.fill(None);
                        Ok(Step::On)
                    }
                    (None, Some(Err(error))) => {
                        let error = error.clone();
                        if error.is_passable() {
                            self.input_end = None;
                        }
                        Err(error)
                    }
                    (None, None) => Ok(Step::Pending),
                };
            }
            Turn::Over => return Ok(Step::Over),
        };
        match polled {
            Polled::Item((item, _)) => {
                self.turns.took();
                Ok(Step::Item(item))
            }
            Polled::Pending => Ok(Step::Pending),
            Polled::Ended(end) => {
                end?;
                self.turns.close();
                Ok(Step::On)
            }
        }
    }

    /// Waits until the dataset whose turn it is has something, or, where the order does not matter, any
    /// dataset.
    fn wait(&mut self) -> Result<(), ExecError> {
        let wants_input = self.wants_input();
        if let Some(chosen) = &mut self.chosen {
            chosen.was_waited = true;
        }
        match self.turns.now() {
            Turn::Open(reader) => reader.elements.want(),
            Turn::Vacant | Turn::Over => self.input.want(),
        }
        let mut select = Select::new();
        select.recv(self.shared.cancel.signal());
        if wants_input && let Some(arrivals) = self.input.arrivals() {
            select.recv(arrivals);
        }
        if self.ordered {
            if let Turn::Open(reader) = self.turns.now()
                && let Some(arrivals) = reader.elements.arrivals()
            {
                select.recv(arrivals);
            }
            select.ready();
        } else {
            if let Some(reader) = self.turns.open().find(|reader| reader.has_thread) {
                reader.elements.want();
            }
            for reader in self.turns.open() {
                if let Some(arrivals) = reader.elements.arrivals() {
                    select.recv(arrivals);
                }
            }
            select.ready();
        }
        self.shared.cancel.check("interleave")
    }

    /// Ends all readers. They are told before the first is waited for, so that they end together.
    fn drop_readers(&mut self) {
        let mut readers: Vec<Reader> = self.turns.take().chain(self.waiting.drain(..)).collect();
        readers.iter_mut().for_each(|reader| reader.elements.stop());
        let deadline = Instant::now() + GRACE;
        readers
            .iter_mut()
            .for_each(|reader| reader.elements.end_by(deadline));
    }
}

/// The result of a turn.
enum Step {
    /// An element.
    Item(Item),
    /// No element, and another turn.
    On,
    /// Nothing is there yet.
    Pending,
    /// All have ended.
    Over,
}

impl Reader {
    /// Returns the ready element; without a thread, computes the next one.
    fn poll(&mut self) -> Result<Polled, ExecError> {
        if self.has_thread {
            self.elements.poll()
        } else {
            self.elements.pull()
        }
    }
}

impl Iterate for ParallelInterleave {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        // Slots passed over one after the other because nothing is there yet.
        let mut passed = 0;
        loop {
            self.shared.cancel.check("interleave")?;
            self.top_up()?;
            match self.step()? {
                Step::Item(item) => {
                    self.took();
                    return Ok(Some(item));
                }
                Step::Over => return Ok(None),
                Step::On => passed = 0,
                Step::Pending if self.ordered || passed > self.turns.len() => {
                    self.wait()?;
                    passed = 0;
                }
                Step::Pending => {
                    self.turns.pass_on();
                    passed += 1;
                }
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.drop_readers();
        self.turns.restart();
        self.input_end = None;
        self.pass = self.pass.wrapping_add(1);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("parallel_interleave")?;
        state.number(self.pass)?;
        self.turns
            .save(state, |reader, state| reader.elements.save(state))?;
        state.number(self.waiting.len() as u64)?;
        for reader in &mut self.waiting {
            reader.elements.save(state)?;
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("parallel_interleave")?;
        self.pass = state.number()?;
        let mut turns = Turns::new(self.cycle);
        let restored = |state: &mut StateReader<'_>| {
            let mut reader = self.reader(Stage::Ended, false);
            reader.elements.restore(state).map(|()| reader)
        };
        turns.restore(state, restored)?;
        let mut waiting = VecDeque::new();
        for _ in 0..state.number()? {
            waiting.push_back(restored(state)?);
        }
        (self.turns, self.waiting) = (turns, waiting);
        self.threads_before = 0;
        self.input.restore(state)
    }
}

impl Drop for ParallelInterleave {
    fn drop(&mut self) {
        self.drop_readers();
    }
}

/// The dataset of one element as an input of its own, opened by its first reader.
struct BodyOf {
    body: Arc<Body>,
    /// The pass of the interleave.
    pass: u64,
    stage: Stage,
}

enum Stage {
    Unopened(Item),
    Open(Opened),
    Ended,
}

impl BodyOf {
    fn new(body: &Arc<Body>, pass: u64, stage: Stage) -> BodyOf {
        BodyOf {
            body: Arc::clone(body),
            pass,
            stage,
        }
    }
}

impl Iterate for BodyOf {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if let Stage::Unopened(outer) = &self.stage {
            let given = Given::element(outer.clone());
            self.stage = Stage::Ended;
            self.stage = Stage::Open(self.body.open(given, self.pass)?);
        }
        let Stage::Open(opened) = &mut self.stage else {
            return Ok(None);
        };
        let item = self.body.next(opened)?;
        if item.is_none() {
            self.stage = Stage::Ended;
        }
        Ok(item)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        let message = "a dataset of one element is read once";
        Err(ExecError::new(ErrorKind::Internal, "interleave", message))
    }

    fn further(&self) -> Further {
        Further::Nothing
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.flag(matches!(self.stage, Stage::Unopened(_)))?;
        state.flag(matches!(self.stage, Stage::Open(_)))?;
        match &mut self.stage {
            Stage::Unopened(outer) => state.item(outer),
            Stage::Open(opened) => Body::save(opened, state),
            Stage::Ended => Ok(()),
        }
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        let (is_unopened, is_open) = (state.flag()?, state.flag()?);
        self.stage = if is_unopened {
            Stage::Unopened(state.item()?)
        } else if is_open {
            Stage::Open(self.body.restore(state, self.pass)?)
        } else {
            Stage::Ended
        };
        Ok(())
    }
}
