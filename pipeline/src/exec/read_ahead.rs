//! An input that a separate thread reads ahead of the caller, into a bounded buffer.
//!
//! The thread owns the input while it runs. Before a save, a restart or the end, the thread is told to stop.
//! The thread then hands back the input and the element that it holds. The next pull starts a thread again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, select};

use crate::exec::budget::{Budget, Charge};
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::expected::Expected;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input};
use crate::exec::state::{StateError, StateReader, StateWriter};

/// The time for which the end of a pipeline waits for the input, which may be inside a user's function. A
/// thread that takes longer is abandoned.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// Maximum number of elements read ahead, whatever number is requested. The channel allocates all places at
/// once, about 200 bytes each, and a thread that is thousands of elements ahead never blocks its consumer.
pub(crate) const AHEAD_MAX: usize = 4096;

/// An element in the buffer, and its charge in the budget.
pub(crate) type Held = (Item, Charge);

/// An input that is read ahead.
pub(crate) struct ReadAhead {
    op: &'static str,
    size: usize,
    shared: Shared,
    allowance: Allowance,
    /// The input, or `None` while the thread owns it.
    input: Option<Input>,
    running: Option<Running>,
    /// Elements that a stopped thread left behind.
    ready: VecDeque<Held>,
    /// The number of elements that were made and taken.
    taken: u64,
    /// The end of the input: success or a failure. The elements in `ready` precede the end.
    end: Option<Result<(), ExecError>>,
    /// The passes that may follow, as the input reported them last.
    further: Further,
}

/// The result of a poll, which does not block.
#[derive(Debug)]
pub(crate) enum Polled {
    /// The next element. The element's charge holds until the receiver has charged the element itself.
    Item(Held),
    /// No element is ready yet. [`ReadAhead::arrivals`] receives the next element.
    Pending,
    /// The input's end, or its failure. Every poll until a restart returns the same end, unless the failure
    /// is passable: then the elements after the failure follow.
    Ended(Result<(), ExecError>),
}

/// A running thread that reads ahead.
struct Running {
    items: Receiver<Held>,
    /// A sender whose drop makes the thread stop. `None` means that the thread was already stopped.
    stop: Option<Sender<()>>,
    back: Receiver<Handback>,
    thread: JoinHandle<()>,
}

/// The state that a stopping thread hands back.
struct Handback {
    input: Input,
    in_hand: Option<Held>,
    /// The end at which the thread stopped by itself.
    end: Option<Result<(), ExecError>>,
}

impl ReadAhead {
    /// Returns a reader that prefetches up to `size` elements of `input` for the operation `op`. `expected`
    /// estimates the size of an element. Reading begins with the first poll.
    pub(crate) fn new(
        op: &'static str,
        size: usize,
        expected: Expected,
        input: Input,
        shared: Shared,
    ) -> ReadAhead {
        let allowance = Allowance::new(shared.budget.clone(), expected);
        ReadAhead {
            op,
            size: size.clamp(1, AHEAD_MAX),
            shared,
            allowance,
            input: Some(input),
            running: None,
            ready: VecDeque::new(),
            taken: 0,
            end: None,
            further: Further::Open,
        }
    }

    /// Returns the next element if it is ready.
    ///
    /// # Errors
    /// [`ExecError`] if no thread can be started. A failure of the input is returned as an end.
    pub(crate) fn poll(&mut self) -> Result<Polled, ExecError> {
        loop {
            if let Some(held) = self.ready.pop_front() {
                self.took();
                return Ok(Polled::Item(held));
            }
            if let Some(end) = self.ended() {
                return Ok(Polled::Ended(end));
            }
            match self.running()?.items.try_recv() {
                Ok(held) => {
                    self.took();
                    return Ok(Polled::Item(held));
                }
                Err(TryRecvError::Empty) => return Ok(Polled::Pending),
                // The thread has stopped by itself. The handback states the end.
                Err(TryRecvError::Disconnected) => self.pause()?,
            }
        }
    }

    /// Requests the next element even if no memory is left, for a caller that must wait for the element.
    pub(crate) fn want(&self) {
        self.allowance.want(self.taken.wrapping_add(1));
    }

    /// Counts an element that was received from [`ReadAhead::arrivals`].
    pub(crate) fn took(&mut self) {
        self.taken = self.taken.wrapping_add(1);
    }

    /// Begins to read ahead before the first poll.
    ///
    /// # Errors
    /// [`ExecError`] if no thread can be started.
    pub(crate) fn begin(&mut self) -> Result<(), ExecError> {
        if self.end.is_none() {
            self.running()?;
        }
        Ok(())
    }

    /// Returns the next element. The caller's thread reads the element, or blocks until the prefetch thread
    /// has finished its current element. Does not return [`Polled::Pending`].
    ///
    /// # Errors
    /// [`ExecError`] if no thread can be started. A failure of the input is returned as an end.
    pub(crate) fn pull(&mut self) -> Result<Polled, ExecError> {
        self.pause()?;
        if let Some(held) = self.ready.pop_front() {
            self.took();
            return Ok(Polled::Item(held));
        }
        if self.end.is_none() {
            let end = match self.input()?.next() {
                Ok(Some(item)) => {
                    let charge = self.allowance.budget.charge(item.held_bytes());
                    return Ok(Polled::Item((item, charge)));
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            self.end = Some(end);
        }
        Ok(self.ended().map_or(Polled::Pending, Polled::Ended))
    }

    /// Returns the number of elements that are ready, and the maximum.
    pub(crate) fn ready(&self) -> (usize, usize) {
        let running = self.running.as_ref().map_or(0, |running| running.items.len());
        (self.ready.len() + running, self.size)
    }

    /// Sets the number of elements to read ahead. Blocks until the thread has finished its current element,
    /// so the caller should be waiting for that element anyway.
    pub(crate) fn resize(&mut self, size: usize) -> Result<(), ExecError> {
        self.pause()?;
        self.size = size.clamp(1, AHEAD_MAX);
        Ok(())
    }

    /// Tells the thread to stop, without waiting for its end.
    pub(crate) fn stop(&mut self) {
        if let Some(running) = &mut self.running {
            running.stop = None;
            self.allowance.budget.wake();
        }
    }

    /// Ends the thread, and waits for its end until `deadline`. After the deadline the thread is abandoned.
    pub(crate) fn end_by(&mut self, deadline: Instant) {
        let Some(Running {
            items,
            stop,
            back,
            thread,
        }) = self.running.take()
        else {
            return;
        };
        drop((stop, items));
        self.allowance.budget.wake();
        match back.recv_deadline(deadline) {
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                let _ = thread.join();
            }
            Err(RecvTimeoutError::Timeout) => {
                let op = self.op;
                tracing::warn!(op, "a prefetch thread is still inside its input and is abandoned");
            }
        }
    }

    /// Returns the channel of the elements that arrive after [`Polled::Pending`]. The channel disconnects at
    /// the input's end. A caller that receives an element must call [`ReadAhead::took`].
    pub(crate) fn arrivals(&self) -> Option<&Receiver<Held>> {
        self.running.as_ref().map(|running| &running.items)
    }

    /// Begins the next pass. Drops elements and a failure that no caller has taken.
    pub(crate) fn restart(&mut self) -> Result<(), ExecError> {
        self.pause()?;
        self.ready.clear();
        self.taken = self.allowance.made.load(Ordering::SeqCst);
        self.end = None;
        self.input()?.restart()
    }

    pub(crate) fn further(&self) -> Further {
        self.input.as_ref().map_or(self.further, |input| input.further())
    }

    pub(crate) fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        self.pause()?;
        state.flag(self.end.is_some())?;
        if let Some(end) = &self.end {
            state.flag(end.is_err())?;
            end.as_ref().err().map_or(Ok(()), |error| state.failure(error))?;
        }
        state.number(self.ready.len() as u64)?;
        self.ready.iter().try_for_each(|(item, _)| state.item(item))?;
        self.input()?.save(state)
    }

    pub(crate) fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        if state.flag()? {
            self.end = Some(if state.flag()? {
                Err(state.failure()?)
            } else {
                Ok(())
            });
        }
        for _ in 0..state.number()? {
            let item = state.item()?;
            let charge = self.shared.budget.charge(item.held_bytes());
            self.ready.push_back((item, charge));
            self.allowance.made.fetch_add(1, Ordering::SeqCst);
        }
        self.input()?.restore(state)
    }

    /// Returns the end of the input, if it has ended. A passable failure is returned only once.
    fn ended(&mut self) -> Option<Result<(), ExecError>> {
        let is_passable = |end: &mut Result<(), ExecError>| end.as_ref().is_err_and(ExecError::is_passable);
        self.end.take_if(is_passable).or_else(|| self.end.clone())
    }

    fn input(&mut self) -> Result<&mut Input, ExecError> {
        let op = self.op;
        self.input.as_mut().ok_or_else(|| lost(op))
    }

    fn running(&mut self) -> Result<&Running, ExecError> {
        let op = self.op;
        if self.running.is_none() {
            let input = self.input.take().ok_or_else(|| lost(op))?;
            self.running = Some(start(op, self.size, input, self.allowance.clone())?);
        }
        self.running.as_ref().ok_or_else(|| lost(op))
    }

    /// Stops the thread, and takes the input back.
    fn pause(&mut self) -> Result<(), ExecError> {
        let op = self.op;
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        let Running {
            items,
            stop,
            back,
            thread,
        } = running;
        drop(stop);
        self.allowance.budget.wake();
        let handback = select! {
            recv(back) -> handback => handback.map_err(|_| lost(op))?,
            recv(self.shared.cancel.signal()) -> _ => {
                // The pipeline is cancelled: the input may be stuck, and nobody pulls again.
                back.recv_timeout(GRACE).map_err(|_| ExecError::cancelled(op))?
            }
        };
        // The thread has handed back everything, and returns next.
        let _ = thread.join();
        self.ready.extend(items.try_iter());
        self.ready.extend(handback.in_hand);
        self.further = handback.input.further();
        self.input = Some(handback.input);
        self.end = handback.end;
        Ok(())
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.end_by(Instant::now() + GRACE);
    }
}

/// Limit on the elements that the thread may prefetch.
#[derive(Clone)]
struct Allowance {
    budget: Budget,
    expected: Expected,
    /// The number of elements made so far.
    made: Arc<AtomicU64>,
    /// The number of the element that a caller waits for, whatever memory is left. A number rather than a
    /// flag: if the wanted element has arrived meanwhile, no further element is wanted.
    wanted: Arc<AtomicU64>,
}

impl Allowance {
    fn new(budget: Budget, expected: Expected) -> Allowance {
        Allowance {
            budget,
            expected,
            made: Arc::default(),
            wanted: Arc::default(),
        }
    }

    /// Records that a caller waits for element `number`.
    fn want(&self, number: u64) {
        // The budget counts its waiters in the same total order, so either the waiter sees this number or it
        // is woken.
        if self.wanted.swap(number, Ordering::SeqCst) != number {
            self.budget.wake();
        }
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > self.made.load(Ordering::SeqCst)
    }

    /// Takes memory for the next element of a buffer that `has_some` elements. Blocks until memory is free or
    /// the element is wanted. Returns `None` once the thread is told to stop.
    fn next(&self, has_some: impl Fn() -> bool, is_stopped: impl Fn() -> bool) -> Option<Charge> {
        loop {
            // An element may take long. This check comes first, so that a caller that takes the input back
            // does not wait for an element that it did not request.
            if is_stopped() {
                return None;
            }
            let bytes = self.expected.bytes(&self.budget);
            if let Some(charge) = self.budget.try_take(bytes, has_some()) {
                return Some(charge);
            }
            if self.is_wanted() {
                return Some(self.budget.charge(bytes));
            }
            let may_go = || self.is_wanted() || is_stopped();
            self.budget.wait_unless(bytes, has_some(), may_go);
        }
    }

    /// Charges `item` with its actual size, as a buffered element.
    fn hold(&self, item: Item, mut charge: Charge) -> Held {
        let bytes = item.held_bytes();
        charge.set(bytes);
        self.expected.note(bytes);
        self.made.fetch_add(1, Ordering::SeqCst);
        (item, charge)
    }
}

fn start(
    op: &'static str,
    size: usize,
    mut input: Input,
    allowance: Allowance,
) -> Result<Running, ExecError> {
    let (fill, items) = bounded(size);
    let (stop, stopped) = bounded::<()>(0);
    let (hand, back) = bounded(1);
    let work = move || {
        let (in_hand, end) = fill_ahead(&mut input, &fill, &stopped, &allowance);
        // The receiver is dropped only if no caller needs the input any more.
        let _ = hand.send(Handback { input, in_hand, end });
    };
    let refused = |error: std::io::Error| {
        ExecError::new(
            ErrorKind::Resource,
            op,
            format!("cannot start the prefetch thread: {error}"),
        )
    };
    let thread = std::thread::Builder::new()
        .name(op.to_owned())
        .spawn(work)
        .map_err(refused)?;
    Ok(Running {
        items,
        stop: Some(stop),
        back,
        thread,
    })
}

/// Pulls elements until the input ends or the thread is told to stop. Returns the unsent element and the end.
fn fill_ahead(
    input: &mut Input,
    fill: &Sender<Held>,
    stopped: &Receiver<()>,
    allowance: &Allowance,
) -> (Option<Held>, Option<Result<(), ExecError>>) {
    let is_stopped = || stopped.try_recv() == Err(TryRecvError::Disconnected);
    loop {
        let Some(charge) = allowance.next(|| !fill.is_empty(), is_stopped) else {
            return (None, None);
        };
        let item = match input.next() {
            Ok(Some(item)) => item,
            Ok(None) => return (None, Some(Ok(()))),
            Err(error) => return (None, Some(Err(error))),
        };
        let held = allowance.hold(item, charge);
        select! {
            send(fill, held) -> sent => if let Err(unsent) = sent {
                return (Some(unsent.into_inner()), None);
            },
            recv(stopped) -> _ => return (Some(held), None),
        }
    }
}

fn lost(op: &str) -> ExecError {
    ExecError::new(
        ErrorKind::Internal,
        op,
        "the input is lost: the prefetch thread ended without handing it back",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::exec::cancel::Cancel;
    use crate::exec::iterate::Iterate;
    use crate::exec::pool::Pool;
    use crate::exec::skipped::Skipped;
    use crate::exec::statistics::Statistics;
    use crate::exec::token::Ledger;
    use crate::exec::value::{Tensor, Value};
    use crate::graph::{ErrorPolicy, ExternalState};

    /// An input that counts up without end.
    struct Numbers(u64);

    impl Iterate for Numbers {
        fn next(&mut self) -> Result<Option<Item>, ExecError> {
            self.0 += 1;
            let value = Value::from_buf([Tensor::i64(self.0 as i64)]);
            Ok(Some(Item::new(value, self.0 - 1)))
        }

        fn restart(&mut self) -> Result<(), ExecError> {
            self.0 = 0;
            Ok(())
        }

        fn further(&self) -> Further {
            Further::Open
        }

        fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
            state.number(self.0)
        }

        fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
            self.0 = state.number()?;
            Ok(())
        }
    }

    fn shared() -> Shared {
        Shared {
            task_id: 0,
            iteration: 0,
            epoch: 0,
            first_pass: 0,
            seed: None,
            split: None,
            quarantine: None,
            body: 0,
            deterministic: true,
            feed: None,
            ledger: Arc::new(Ledger::default()),
            storage: crate::storage::Storage::default(),
            pool: Arc::new(Pool::new(1).unwrap()),
            budget: Budget::default(),
            caches: None,
            cancel: Cancel::new(),
            skipped: Skipped::default(),
            statistics: Statistics::default(),
            on_error: ErrorPolicy::RAISE,
            node: 0,
            tuner: None,
            external_state: ExternalState::Fail,
            meter: None,
            stage: None,
        }
    }

    #[test]
    fn a_buffers_reservation_is_bounded() {
        let mut ahead = ReadAhead::new(
            "test",
            1 << 24,
            Expected::unknown(),
            Box::new(Numbers(0)),
            shared(),
        );
        ahead.poll().unwrap();
        assert_eq!(ahead.arrivals().unwrap().capacity(), Some(AHEAD_MAX));
    }

    #[test]
    fn a_thread_told_to_stop_pulls_nothing_more() {
        let (stop, stopped) = bounded::<()>(0);
        drop(stop);
        let (fill, items) = bounded(8);
        let mut input: Input = Box::new(Numbers(0));
        let allowance = Allowance::new(Budget::default(), Expected::unknown());
        let (in_hand, end) = fill_ahead(&mut input, &fill, &stopped, &allowance);
        assert!(in_hand.is_none() && end.is_none() && items.is_empty());
        assert_eq!(input.next().unwrap().unwrap().position, 0);
    }

    #[test]
    fn a_satisfied_wish_takes_no_further_element() {
        let shared = Shared {
            budget: Budget::new(1),
            ..shared()
        };
        let input = Box::new(Numbers(0));
        let mut ahead = ReadAhead::new("test", 8, Expected::unknown(), input, shared);
        ahead.begin().unwrap();
        let first = ahead.arrivals().unwrap().recv().unwrap();
        // The caller requests the element although it has already arrived.
        ahead.want();
        ahead.took();
        // The element in the buffer already exceeds the budget.
        assert!(!ahead.allowance.is_wanted());
        ahead.want();
        let second = ahead.arrivals().unwrap().recv().unwrap();
        assert_eq!((first.0.position, second.0.position), (0, 1));
    }
}
