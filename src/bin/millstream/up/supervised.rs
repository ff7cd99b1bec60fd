//! One process of a service: its start, its deaths and its end. Knows no other process.

use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::child::ChildServer;
use crate::console::note;

use super::restarts::{Restarts, WINDOW};

/// The delay before a worker starts again that has ended without an error. A service that shuts down ends its
/// workers first. Its dispatcher ends at most 5 s later, the default of its --shutdown-quiet-period-s.
const DELAY_AFTER_SUCCESS: Duration = Duration::from_secs(6);

/// The time for the first line of a process that has ended. The line may still be in the pipe.
const LINE_GRACE: Duration = Duration::from_millis(200);

/// A process that starts again when it dies.
#[derive(Debug)]
pub(super) struct Supervised {
    name: String,
    restarts: Restarts,
    /// The time within which the process must serve after its start.
    serve_deadline: Duration,
    has_served: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The process starts at this time.
    Waiting(Instant),
    /// The process runs, and must report until this time that it serves.
    Starting(ChildServer, Instant),
    Serving(ChildServer),
    /// The process was asked to shut down, and does not start again.
    Ending(ChildServer),
    Ended,
}

/// The event of one look at a process.
#[derive(Debug)]
pub(super) enum Event {
    /// The process serves, and has printed this line.
    Serves(String),
    /// The process has ended.
    Ended(ExitStatus),
}

impl Supervised {
    /// Returns a process that starts with the first step.
    pub(super) fn new(name: String, restarts: Restarts, serve_deadline: Duration) -> Self {
        Self {
            name,
            restarts,
            serve_deadline,
            has_served: false,
            state: State::Waiting(Instant::now()),
        }
    }

    /// Returns whether the process has ever served.
    pub(super) fn has_served(&self) -> bool {
        self.has_served
    }

    /// Starts the process with this command if it is due, or looks at the running process. Kills a process
    /// that does not serve in time.
    pub(super) fn step(&mut self, command: impl FnOnce() -> Command) -> Result<Option<Event>, String> {
        let now = Instant::now();
        match &mut self.state {
            State::Waiting(due) if now >= *due => {
                let mut command = command();
                command.stderr(Stdio::piped());
                ChildServer::detach(&mut command);
                let process = ChildServer::start(&self.name, command)?;
                self.state = State::Starting(process, now + self.serve_deadline);
                Ok(None)
            }
            State::Starting(process, deadline) => {
                let ended = process.exit_status()?;
                let line = match ended {
                    Some(_) => process.await_serving(LINE_GRACE).ok(),
                    None => process.serving_line(),
                };
                if let Some(line) = line {
                    return Ok(Some(self.record_serving(line)));
                }
                if ended.is_none() && now >= *deadline {
                    *deadline = now + self.serve_deadline;
                    process.kill();
                    let limit_s = self.serve_deadline.as_secs_f64();
                    note(&format!(
                        "{} does not serve {limit_s} s after its start, and is killed",
                        self.name
                    ));
                }
                Ok(self.record_end(ended))
            }
            State::Serving(process) => {
                let ended = process.exit_status()?;
                Ok(self.record_end(ended))
            }
            State::Waiting(_) | State::Ending(_) | State::Ended => Ok(None),
        }
    }

    fn record_serving(&mut self, line: String) -> Event {
        self.has_served = true;
        if let Some(process) = self.take() {
            note(&format!("{}: process {}, {line}", self.name, process.id()));
            self.state = State::Serving(process);
        }
        Event::Serves(line)
    }

    fn record_end(&mut self, status: Option<ExitStatus>) -> Option<Event> {
        let status = status?;
        self.state = State::Ended;
        Some(Event::Ended(status))
    }

    /// Plans the restart of a process that has ended. Returns an error if the process must not start again.
    pub(super) fn start_later(&mut self, status: ExitStatus) -> Result<(), String> {
        let (name, now) = (&self.name, Instant::now());
        if !self.has_served {
            return Err(format!(
                "{name} ended before it served ({status}); its error is printed above"
            ));
        }
        if status.success() {
            let delay_s = DELAY_AFTER_SUCCESS.as_secs();
            note(&format!(
                "{name} ended without an error, and starts again in {delay_s} s unless the service ends"
            ));
            self.state = State::Waiting(now + DELAY_AFTER_SUCCESS);
            return Ok(());
        }
        let window_s = WINDOW.as_secs();
        let Some(delay) = self.restarts.delay_after_death(now) else {
            return Err(format!(
                "{name} ended again ({status}) after {} restarts within {window_s} s; its messages are printed above",
                self.restarts.count()
            ));
        };
        note(&format!(
            "{name} ended ({status}), and starts again in {:.1} s (restart {} within {window_s} s)",
            delay.as_secs_f64(),
            self.restarts.count(),
        ));
        self.state = State::Waiting(now + delay);
        Ok(())
    }

    /// Returns whether the process runs and serves.
    pub(super) fn is_serving(&mut self) -> bool {
        match &mut self.state {
            State::Serving(process) => matches!(process.exit_status(), Ok(None)),
            State::Waiting(_) | State::Starting(..) | State::Ending(_) | State::Ended => false,
        }
    }

    /// Starts the graceful shutdown of the process. The process does not start again.
    pub(super) fn terminate(&mut self) {
        if let Some(mut process) = self.take()
            && process.terminate()
        {
            self.state = State::Ending(process);
        }
    }

    /// Returns whether the process was asked to shut down and still runs.
    pub(super) fn is_ending(&mut self) -> bool {
        let State::Ending(process) = &mut self.state else {
            return false;
        };
        let runs = matches!(process.exit_status(), Ok(None));
        if !runs {
            self.state = State::Ended;
        }
        runs
    }

    /// Takes the process out of the supervision. Returns `None` if no process runs.
    pub(super) fn take(&mut self) -> Option<ChildServer> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Starting(process, _) | State::Serving(process) | State::Ending(process) => Some(process),
            State::Waiting(_) | State::Ended => None,
        }
    }
}
