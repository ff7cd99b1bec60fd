//! The execution of `interleave` with read-ahead. A thread per dataset reads elements ahead. The
//! elements are yielded in the order of the one-thread execution, or in the order in which they become
//! ready.
//!
//! The threads also open the datasets, in the order of the input and before their turn. So a slow file
//! does not delay the opening of another file.

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

/// The number of elements that are read ahead per dataset. A longer block raises this number to the
/// block's length.
const AHEAD: u64 = 16;
/// The number of elements per thread that must fit into the byte budget. Large elements therefore limit
/// the number of threads, because more threads would only wait for memory.
const ROOM: usize = 8;
/// The maximum number of threads until the size of an element is known.
const THREADS_AT_FIRST: usize = 4;

pub(crate) struct ParallelInterleave {
    body: Arc<Body>,
    cycle: Cycle,
    ordered: bool,
    /// The number of datasets that are read ahead at the same time. Other datasets are read at their
    /// turn.
    threads: usize,
    /// The tuner that chooses `threads`. `None` if the number of datasets is fixed.
    chosen: Option<Chosen>,
    /// The number of threads that was permitted when threads were last added.
    threads_before: usize,
    /// The expected bytes of the next elements of the datasets.
    expected: Expected,
    input: ReadAhead,
    input_end: Option<Result<(), ExecError>>,
    shared: Shared,
    /// The number of restarts of the operation so far. Random draws in the function's body depend on
    /// the number of restarts.
    pass: u64,
    turns: Turns<Reader>,
    /// Open datasets that wait for a free slot, in the order of the input.
    waiting: VecDeque<Reader>,
}

/// The tuner of the number of datasets that are read ahead.
struct Chosen {
    readers: Readers,
    /// The time when the tuner last adjusted the number.
    looked: Instant,
    /// Whether the caller waited for the next element.
    was_waited: bool,
}

/// A dataset that is being read.
struct Reader {
    elements: ReadAhead,
    /// Whether a thread reads the dataset ahead.
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
        // A cycle has at most 4096 slots. One further dataset opens before its slot is free.
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

    /// Returns whether one more dataset may be opened. One dataset more than the cycle has slots may be
    /// open.
    fn wants_input(&self) -> bool {
        // A cycle has at most 4096 slots, so the length fits.
        let most = self.cycle.length as usize + 1;
        self.input_end.is_none() && self.turns.open_count() + self.waiting.len() < most
    }

    /// Returns the number of threads that may run now.
    fn threads(&self) -> usize {
        let budget = &self.shared.budget;
        if !self.expected.is_known() {
            return self.threads.min(THREADS_AT_FIRST);
        }
        let room = self.expected.bytes(budget).saturating_mul(ROOM).max(1);
        self.threads.min(budget.limit_bytes() / room).max(1)
    }

    /// Counts an element that was yielded. At regular intervals, also adjusts the number of datasets
    /// that are read ahead.
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
                "changed the number of datasets that an interleave reads ahead"
            );
            if let Some(stage) = &self.shared.stage {
                stage.set_threads(self.threads);
            }
        }
    }

    /// Returns the number of datasets that threads read.
    fn busy(&self) -> usize {
        let readers = self.turns.open().chain(&self.waiting);
        readers.filter(|reader| reader.has_thread).count()
    }

    /// Starts threads for more of the open datasets, if the permitted number of threads has grown.
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

    /// Opens further datasets while the input has ready elements and the cycle has room.
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

    /// Returns a reader of the dataset in state `stage`. `has_thread` states whether a thread reads the
    /// dataset.
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

    /// Advances the dataset whose turn it is as far as possible without waiting.
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

    /// Waits until the dataset whose turn it is has an element or ends. If the order of the elements is
    /// free, waits until any dataset has an element.
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

    /// Stops all readers. Signals every reader before waiting for the first, so that the readers stop
    /// concurrently.
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
    /// The dataset yielded an element.
    Item(Item),
    /// The turn yielded no element, and another turn follows at once.
    On,
    /// The dataset has no element ready yet.
    Pending,
    /// All datasets and the input have ended.
    Over,
}

impl Reader {
    /// Returns an element that is ready. If the dataset has no thread, computes the next element.
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
        // The number of consecutive slots that were skipped because their datasets had no element
        // ready.
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

/// The dataset of one element, as an input of its own. The first read opens the dataset.
struct BodyOf {
    body: Arc<Body>,
    /// The pass of the `interleave`.
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
        let message = "the dataset of one element cannot be restarted";
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
