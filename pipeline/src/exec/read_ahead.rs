//! An input that a thread of its own reads ahead of the caller, into a bounded buffer.
//!
//! While it runs, the thread owns the input. To save, to restart and to end, the thread is told to stop and
//! hands the input back, with the element it had in hand; the next pull starts it again.

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

/// How long an end waits for the input, which may be inside a user's function; then the thread is left to end
/// itself.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// Elements read ahead at most, however many are asked for: the channel allocates them all at once, some 200
/// bytes each, and a thread that is thousands of elements ahead waits for nobody.
pub(crate) const AHEAD_MAX: usize = 4096;

/// An element in the buffer, and what it is charged.
pub(crate) type Held = (Item, Charge);

/// An input being read ahead.
pub(crate) struct ReadAhead {
    op: &'static str,
    size: usize,
    shared: Shared,
    allowance: Allowance,
    /// Absent while the thread has it.
    input: Option<Input>,
    running: Option<Running>,
    /// Elements that a stopped thread left.
    ready: VecDeque<Held>,
    /// Elements that were made and taken.
    taken: u64,
    /// How the input ended; `ready` comes before it.
    end: Option<Result<(), ExecError>>,
    /// Further passes, as the input last reported them.
    further: Further,
}

/// Result of a poll that does not wait.
#[derive(Debug)]
pub(crate) enum Polled {
    /// The next element, charged until its taker has charged it.
    Item(Held),
    /// Nothing yet: [`ReadAhead::arrivals`] tells when to ask again.
    Pending,
    /// The input's end, or what it failed with. The answer is the same until a restart, unless the failure is
    /// passable: then what follows it comes next.
    Ended(Result<(), ExecError>),
}

/// A thread at work.
struct Running {
    items: Receiver<Held>,
    /// Disconnects to tell the thread to stop; absent once it was told.
    stop: Option<Sender<()>>,
    back: Receiver<Handback>,
    thread: JoinHandle<()>,
}

/// State that a stopping thread returns.
struct Handback {
    input: Input,
    in_hand: Option<Held>,
    /// Why it stopped by itself.
    end: Option<Result<(), ExecError>>,
}

impl ReadAhead {
    /// Reads up to `size` elements of `input` ahead, each of which is `expected` to hold so much, for the
    /// operation `op`. Nothing is read before the first poll.
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

    /// The next element if it is there.
    ///
    /// # Errors
    /// When no thread can be started; what the input fails with is an end.
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
                // The thread has stopped by itself: the handback tells why.
                Err(TryRecvError::Disconnected) => self.pause()?,
            }
        }
    }

    /// Has the next element made although there is no memory left for it: for who can do nothing but wait for
    /// it.
    pub(crate) fn want(&self) {
        self.allowance.want(self.taken.wrapping_add(1));
    }

    /// An element was received from [`ReadAhead::arrivals`].
    pub(crate) fn took(&mut self) {
        self.taken = self.taken.wrapping_add(1);
    }

    /// Begins to read ahead before anybody asks.
    ///
    /// # Errors
    /// As [`ReadAhead::poll`].
    pub(crate) fn begin(&mut self) -> Result<(), ExecError> {
        if self.end.is_none() {
            self.running()?;
        }
        Ok(())
    }

    /// The next element, which the caller reads, or waits for if a thread is at it. There is never nothing
    /// yet.
    ///
    /// # Errors
    /// As [`ReadAhead::poll`].
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

    /// Elements that lie ready, and how many may.
    pub(crate) fn ready(&self) -> (usize, usize) {
        let running = self.running.as_ref().map_or(0, |running| running.items.len());
        (self.ready.len() + running, self.size)
    }

    /// Reads so many elements ahead from now on. Waits for the one that its thread is at, so it is for who
    /// waits for it anyway.
    pub(crate) fn resize(&mut self, size: usize) -> Result<(), ExecError> {
        self.pause()?;
        self.size = size.clamp(1, AHEAD_MAX);
        Ok(())
    }

    /// Tells the thread to stop, without waiting for it.
    pub(crate) fn stop(&mut self) {
        if let Some(running) = &mut self.running {
            running.stop = None;
            self.allowance.budget.wake();
        }
    }

    /// Ends the thread, and waits for it until `deadline`: then it is left to end itself.
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
                tracing::warn!(
                    op,
                    "a thread that reads ahead is still inside its input and is left behind"
                );
            }
        }
    }

    /// Returns the channel of elements that arrive after [`Polled::Pending`]; it disconnects at the input's
    /// end. A caller that receives an element must call [`ReadAhead::took`].
    pub(crate) fn arrivals(&self) -> Option<&Receiver<Held>> {
        self.running.as_ref().map(|running| &running.items)
    }

    /// Begins the next pass. What nobody asked for does not matter any more, be it elements or a failure.
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

    /// How the input has ended. A failure that can be passed over is told once.
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

    /// Takes the input back from a thread that has stopped, or that is told to.
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
                // Cancelled: the input may be stuck, and nobody will pull again.
                back.recv_timeout(GRACE).map_err(|_| ExecError::cancelled(op))?
            }
        };
        // It has handed back everything: nothing is left but to return.
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
    /// Elements made so far.
    made: Arc<AtomicU64>,
    /// Up to which one somebody waits for them, whatever memory there is. A number, because a caller that
    /// wanted one that has arrived meanwhile does not want another.
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

    /// Somebody waits for the `number`th element.
    fn want(&self, number: u64) {
        // Ordered with the waiter's look by the budget, which counts its waiters in the same order.
        if self.wanted.swap(number, Ordering::SeqCst) != number {
            self.budget.wake();
        }
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > self.made.load(Ordering::SeqCst)
    }

    /// Memory for an element where the buffer `has_some`; `None` once the thread is told to stop.
    fn next(&self, has_some: impl Fn() -> bool, is_stopped: impl Fn() -> bool) -> Option<Charge> {
        loop {
            // An element may take long: a caller that wants the input back waits for none that it did not ask
            // for.
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

    /// `item` as it lies in the buffer.
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
        // The receiver is gone only when nobody wants it any more.
        let _ = hand.send(Handback { input, in_hand, end });
    };
    let refused = |error: std::io::Error| {
        ExecError::new(
            ErrorKind::Resource,
            op,
            format!("cannot start the thread that reads ahead: {error}"),
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

/// Pulls until the input ends or the thread is told to stop; returns the element in hand and the end.
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
        "its input is lost: its thread ended without handing it back",
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

    /// Counts up without end.
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
        assert!(matches!(ahead.poll().unwrap(), Polled::Pending));
        let first = ahead.arrivals().unwrap().recv().unwrap();
        // Wanted where it was still waited for.
        ahead.want();
        ahead.took();
        // What is there is beyond the budget already.
        assert!(!ahead.allowance.is_wanted());
        ahead.want();
        let second = ahead.arrivals().unwrap().recv().unwrap();
        assert_eq!((first.0.position, second.0.position), (0, 1));
    }
}
