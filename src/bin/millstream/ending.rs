//! The reasons for which a command ends: a signal, or the end of standard input for commands that a program
//! starts.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The time between two checks whether the awaited process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The time that interrupted work has for its goodbye messages.
const GOODBYE: Duration = Duration::from_secs(2);

/// The time between two checks whether a pause must end early.
const PAUSE_LOOK: Duration = Duration::from_millis(50);

/// The time between two checks whether interrupted work has ended.
const GOODBYE_LOOK: Duration = Duration::from_millis(5);

/// The receiver of reasons to end. Once a value exists, SIGINT and SIGTERM no longer kill the process.
#[derive(Debug)]
pub(crate) struct Ending {
    heard: Receiver<Reason>,
}

/// The reason for which a command should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The user pressed Ctrl-C (SIGINT), or standard input was closed. The command ends at once.
    Interrupted,
    /// The process received SIGTERM. The command shuts down gracefully.
    Terminated,
}

/// The reason why work was not done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotDone {
    /// The command should end.
    Interrupted,
    /// The system refused to start a thread for the work.
    Refused(String),
}

impl NotDone {
    /// Returns the message of the reason.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Interrupted => "interrupted".to_owned(),
            Self::Refused(reason) => reason,
        }
    }
}

/// The handle that interrupts running work. All clones interrupt the same work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Brake {
    state: Arc<Mutex<BrakeState>>,
}

#[derive(Default)]
struct BrakeState {
    is_pulled: bool,
    hold: Option<Box<dyn FnOnce() + Send>>,
}

impl std::fmt::Debug for BrakeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrakeState")
            .field("is_pulled", &self.is_pulled)
            .finish_non_exhaustive()
    }
}

impl Brake {
    /// Sets the action that interrupts the work, in place of the previous action. Runs the action at once if
    /// the brake was pulled before. The action must not block.
    pub(crate) fn hold(&self, hold: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_pulled {
            hold();
        } else {
            state.hold = Some(Box::new(hold));
        }
    }

    /// Returns whether the work should end.
    pub(crate) fn is_pulled(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_pulled
    }

    /// Blocks for this time, or until the work should end.
    pub(crate) fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.is_pulled() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(PAUSE_LOOK));
        }
    }

    pub(crate) fn pull(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_pulled = true;
        if let Some(hold) = state.hold.take() {
            hold();
        }
    }
}

impl Ending {
    /// Starts to watch signals, and with `until_stdin_closes` also the end of standard input.
    pub(crate) fn watch(until_stdin_closes: bool) -> Result<Self, String> {
        let (tell, heard) = channel();
        let mut signals =
            Signals::new([SIGINT, SIGTERM]).map_err(|error| format!("cannot watch signals: {error}"))?;
        let tell_signal = tell.clone();
        spawn("signals", move || tell_until_unheard(&mut signals, &tell_signal))?;
        if until_stdin_closes {
            spawn("stdin", move || {
                let mut ignored = [0; 1024];
                // A read error ends the command too: after an error, a closed input can no longer be noticed.
                while matches!(std::io::stdin().read(&mut ignored), Ok(1..)) {}
                let _ = tell.send(Reason::Interrupted);
            })?;
        }
        Ok(Self { heard })
    }

    /// Waits for a reason to end, and returns it. Returns `None` once `is_over` returns `true`.
    pub(crate) fn wait(&self, mut is_over: impl FnMut() -> bool) -> Option<Reason> {
        while !is_over() {
            match self.heard.recv_timeout(LOOK_EVERY) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(reason) => return Some(reason),
                Err(RecvTimeoutError::Disconnected) => return Some(Reason::Interrupted),
            }
        }
        None
    }

    /// Runs work that may block for long on its own thread. If the command should end first, pulls the brake
    /// and waits for the work for a short time. Abandons the thread if the work still runs afterwards.
    pub(crate) fn unless<T: Send + 'static>(
        &self,
        brake: &Brake,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let worker = spawn("command", work).map_err(NotDone::Refused)?;
        self.wait(|| worker.is_finished());
        if !worker.is_finished() {
            brake.pull();
            let until = Instant::now() + GOODBYE;
            while !worker.is_finished() && Instant::now() < until {
                std::thread::sleep(GOODBYE_LOOK);
            }
            return Err(NotDone::Interrupted);
        }
        worker.join().map_err(|panic| std::panic::resume_unwind(panic))
    }
}

fn tell_until_unheard(signals: &mut Signals, tell: &Sender<Reason>) {
    for signal in signals.forever() {
        let reason = if signal == SIGTERM {
            Reason::Terminated
        } else {
            Reason::Interrupted
        };
        if tell.send(reason).is_err() {
            return;
        }
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, String> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| format!("cannot start the thread {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_work_is_handed_over() {
        let (tell, heard) = channel();
        let ending = Ending { heard };
        let brake = Brake::default();
        assert_eq!(ending.unless(&brake, || 7), Ok(7));
        tell.send(Reason::Interrupted).unwrap();
        let (_keep, never) = channel::<()>();
        assert_eq!(
            ending.unless(&brake, move || never.recv().is_ok()),
            Err(NotDone::Interrupted)
        );
    }

    #[test]
    fn a_brake_ends_the_last_named_wait() {
        let brake = Brake::default();
        let (ended, ends) = channel();
        let end = |name| {
            let ended = ended.clone();
            move || ended.send(name).unwrap()
        };
        brake.hold(end("first"));
        brake.hold(end("second"));
        brake.pull();
        brake.hold(end("late"));
        assert_eq!(ends.try_iter().collect::<Vec<_>>(), ["second", "late"]);
    }
}
