//! When a command should end: a signal, or the end of standard input for those that a program starts.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream::client::Canceller;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How often a waiting command looks whether what it waits with is still there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long work that was told to end may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(2);

/// How often it is looked whether it has.
const FAREWELL_LOOK: Duration = Duration::from_millis(5);

/// Hears of reasons to end. From its making on, SIGINT and SIGTERM no longer kill the process.
#[derive(Debug)]
pub(crate) struct Ending {
    heard: Receiver<()>,
}

/// Why work was not done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotDone {
    /// The command should end.
    Interrupted,
    /// The system gives no thread for it.
    Refused(String),
}

impl NotDone {
    /// What is said of it.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Interrupted => "interrupted".to_owned(),
            Self::Refused(reason) => reason,
        }
    }
}

/// Ends the reading that work is in the middle of. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Brake {
    state: Arc<Mutex<BrakeState>>,
}

#[derive(Debug, Default)]
struct BrakeState {
    is_pulled: bool,
    reading: Option<Canceller>,
}

impl Brake {
    /// Names the reader that is to end when the brake is pulled, which may have been.
    pub(crate) fn hold(&self, reading: Canceller) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_pulled {
            reading.cancel();
        }
        state.reading = Some(reading);
    }

    fn pull(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_pulled = true;
        if let Some(reading) = &state.reading {
            reading.cancel();
        }
    }
}

impl Ending {
    /// Starts to listen; to the end of standard input only if asked.
    pub(crate) fn watch(until_stdin_closes: bool) -> Result<Self, String> {
        let (tell, heard) = channel();
        let mut signals =
            Signals::new([SIGINT, SIGTERM]).map_err(|error| format!("cannot watch signals: {error}"))?;
        let tell_signal = tell.clone();
        spawn("signals", move || tell_until_unheard(&mut signals, &tell_signal))?;
        if until_stdin_closes {
            spawn("stdin", move || {
                let mut ignored = [0; 1024];
                // An error ends it as well: nobody can close what cannot be read.
                while matches!(std::io::stdin().read(&mut ignored), Ok(1..)) {}
                let _ = tell.send(());
            })?;
        }
        Ok(Self { heard })
    }

    /// Waits for a reason to end, or until `is_over`.
    pub(crate) fn wait(&self, mut is_over: impl FnMut() -> bool) {
        while !is_over() {
            match self.heard.recv_timeout(LOOK_EVERY) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Does what may block for long, on a thread of its own. If the command should end first, the brake is pulled, and the
    /// thread is left behind when that does not end it soon.
    pub(crate) fn unless<T: Send + 'static>(
        &self,
        brake: &Brake,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let worker = spawn("command", work).map_err(NotDone::Refused)?;
        self.wait(|| worker.is_finished());
        if !worker.is_finished() {
            brake.pull();
            let until = Instant::now() + FAREWELL;
            while !worker.is_finished() && Instant::now() < until {
                std::thread::sleep(FAREWELL_LOOK);
            }
            return Err(NotDone::Interrupted);
        }
        worker.join().map_err(|panic| std::panic::resume_unwind(panic))
    }
}

fn tell_until_unheard(signals: &mut Signals, tell: &Sender<()>) {
    for _ in signals.forever() {
        if tell.send(()).is_err() {
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
        .map_err(|error| format!("no thread for {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_ends_is_handed_over_and_work_that_is_told_to_end_is_left_behind() {
        let (tell, heard) = channel();
        let ending = Ending { heard };
        let brake = Brake::default();
        assert_eq!(ending.unless(&brake, || 7), Ok(7));
        tell.send(()).unwrap();
        let (_keep, never) = channel::<()>();
        assert_eq!(
            ending.unless(&brake, move || never.recv().is_ok()),
            Err(NotDone::Interrupted)
        );
    }
}
