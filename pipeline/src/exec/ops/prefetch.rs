//! `prefetch`: a bounded buffer that a thread of its own fills ahead.
//!
//! While it runs, the thread owns the input. To save, to restart and to end, the thread is told to stop and
//! hands the input back, with the element it had in hand; the next pull starts it again.

use std::collections::VecDeque;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, select};

use crate::exec::budget::{Budget, Charge};
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};

/// How long an end waits for the input, which may be inside a user's function; then the thread is left to end
/// itself.
const GRACE: Duration = Duration::from_secs(1);
/// How often a thread that is held up by the byte budget looks again. Many buffers share the budget and any
/// of them may make room.
const BUDGET_POLL: Duration = Duration::from_millis(1);

type Held = (Item, Charge);

pub(crate) struct Prefetch {
    size: usize,
    shared: Shared,
    /// Absent while the thread has it.
    input: Option<Input>,
    running: Option<Running>,
    /// What a stopped thread left.
    ready: VecDeque<Held>,
    ended: bool,
    /// What [`Iterate::exhausted`] said when the input was last here.
    exhausted: bool,
}

/// A thread at work.
struct Running {
    items: Receiver<Held>,
    /// Disconnects to tell the thread to stop.
    stop: Sender<()>,
    back: Receiver<Handback>,
    thread: JoinHandle<()>,
}

/// What a thread hands back when it stops.
struct Handback {
    input: Input,
    in_hand: Option<Held>,
    /// Why it stopped by itself.
    end: Option<Result<(), ExecError>>,
}

impl Prefetch {
    pub(crate) fn new(buffer: u64, input: Input, shared: Shared) -> Prefetch {
        Prefetch {
            // A graph's buffers have at most 2^24 elements.
            size: buffer as usize,
            shared,
            input: Some(input),
            running: None,
            ready: VecDeque::new(),
            ended: false,
            exhausted: false,
        }
    }

    fn running(&mut self) -> Result<&Running, ExecError> {
        if self.running.is_none() {
            let input = self.input.take().ok_or_else(lost)?;
            self.running = Some(start(self.size, input, &self.shared)?);
        }
        self.running.as_ref().ok_or_else(lost)
    }

    /// Takes the input back from a thread that has stopped or is about to.
    fn take_back(&mut self, running: Running) -> Result<(), ExecError> {
        let Running {
            items,
            stop,
            back,
            thread,
        } = running;
        drop(stop);
        let handback = select! {
            recv(back) -> handback => handback.map_err(|_| lost())?,
            recv(self.shared.cancel.signal()) -> _ => {
                // Cancelled: the input may be stuck, and nobody will pull again.
                back.recv_timeout(GRACE).map_err(|_| ExecError::cancelled("prefetch"))?
            }
        };
        // It has handed back everything: nothing is left but to return.
        let _ = thread.join();
        self.ready.extend(items.try_iter());
        self.ready.extend(handback.in_hand);
        self.exhausted = handback.input.exhausted();
        self.input = Some(handback.input);
        match handback.end {
            Some(Ok(())) => self.ended = true,
            Some(Err(error)) => return Err(error),
            None => {}
        }
        Ok(())
    }

    fn pause(&mut self) -> Result<(), ExecError> {
        match self.running.take() {
            Some(running) => self.take_back(running),
            None => Ok(()),
        }
    }
}

impl Iterate for Prefetch {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            if let Some((item, _)) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.ended {
                return Ok(None);
            }
            let cancel = self.shared.cancel.clone();
            let items = &self.running()?.items;
            let held = match items.try_recv() {
                Ok(held) => Some(held),
                Err(TryRecvError::Disconnected) => None,
                Err(TryRecvError::Empty) => select! {
                    recv(items) -> held => held.ok(),
                    recv(cancel.signal()) -> _ => return Err(ExecError::cancelled("prefetch")),
                },
            };
            match held {
                Some((item, _)) => return Ok(Some(item)),
                // The thread has stopped by itself: the handback tells why.
                None => self.pause()?,
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.pause()?;
        self.ready.clear();
        self.ended = false;
        self.input.as_mut().ok_or_else(lost)?.restart()
    }

    fn exhausted(&self) -> bool {
        self.input
            .as_ref()
            .map_or(self.exhausted, |input| input.exhausted())
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        self.pause()?;
        state.begin("prefetch")?;
        state.flag(self.ended)?;
        state.number(self.ready.len() as u64)?;
        self.ready.iter().try_for_each(|(item, _)| state.item(item))?;
        self.input.as_mut().ok_or_else(lost)?.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("prefetch")?;
        self.ended = state.flag()?;
        for _ in 0..state.number()? {
            let item = state.item()?;
            let charge = self.shared.budget.charge(item.held_bytes());
            self.ready.push_back((item, charge));
        }
        self.input.as_mut().ok_or_else(lost)?.restore(state)
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
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
        match back.recv_timeout(GRACE) {
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                let _ = thread.join();
            }
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!("a prefetch thread is still inside its input and is left behind");
            }
        }
    }
}

fn start(size: usize, mut input: Input, shared: &Shared) -> Result<Running, ExecError> {
    let (fill, items) = bounded(size);
    let (stop, stopped) = bounded::<()>(0);
    let (hand, back) = bounded(1);
    let budget = shared.budget.clone();
    let work = move || {
        let (in_hand, end) = fill_ahead(&mut input, &fill, &stopped, &budget);
        // The receiver is gone only when nobody wants it any more.
        let _ = hand.send(Handback { input, in_hand, end });
    };
    let thread = std::thread::Builder::new()
        .name("prefetch".to_owned())
        .spawn(work)
        .map_err(|error| {
            ExecError::new(
                ErrorKind::Resource,
                "prefetch",
                format!("cannot start its thread: {error}"),
            )
        })?;
    Ok(Running {
        items,
        stop,
        back,
        thread,
    })
}

/// Pulls until the input ends or the thread is told to stop; returns the element in hand and the end.
fn fill_ahead(
    input: &mut Input,
    fill: &Sender<Held>,
    stopped: &Receiver<()>,
    budget: &Budget,
) -> (Option<Held>, Option<Result<(), ExecError>>) {
    loop {
        while budget.is_spent() && !fill.is_empty() {
            if stopped.recv_timeout(BUDGET_POLL) == Err(RecvTimeoutError::Disconnected) {
                return (None, None);
            }
        }
        let item = match input.next() {
            Ok(Some(item)) => item,
            Ok(None) => return (None, Some(Ok(()))),
            Err(error) => return (None, Some(Err(error))),
        };
        let bytes = item.held_bytes();
        let held = (item, budget.charge(bytes));
        select! {
            send(fill, held) -> sent => if let Err(unsent) = sent {
                return (Some(unsent.into_inner()), None);
            },
            recv(stopped) -> _ => return (Some(held), None),
        }
    }
}

fn lost() -> ExecError {
    ExecError::new(
        ErrorKind::Internal,
        "prefetch",
        "its input is lost: its thread ended without handing it back",
    )
}
