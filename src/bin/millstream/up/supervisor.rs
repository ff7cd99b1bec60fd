//! The processes of a service, and the steps of their supervision. Knows no signals of the user.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::child::{ChildServer, served_address};
use crate::console::{note, say};
use crate::ending::Ending;

use super::restarts::Restarts;
use super::supervised::{Event, Supervised};

/// The part of [`ChildServer::END_GRACE`] that is left to the dispatcher if the workers do not end.
const DISPATCHER_PART: Duration = Duration::from_secs(1);

/// The program and the arguments of the processes.
#[derive(Debug)]
pub(super) struct Plan {
    /// The path of this program.
    pub(super) program: PathBuf,
    /// The address of the dispatcher. The port 0 stands for a free port, which stays the same after restarts.
    pub(super) bind: SocketAddr,
    /// The arguments of the dispatcher without its address.
    pub(super) dispatcher: Vec<OsString>,
    /// The arguments of each worker without the address of the dispatcher.
    pub(super) worker: Vec<OsString>,
    pub(super) workers: u32,
    pub(super) restarts_max: u32,
    /// The time within which a process must serve after its start.
    pub(super) serve_deadline: Duration,
}

/// The supervisor of a dispatcher and its workers. Dropping the supervisor ends all processes, the workers
/// first.
#[derive(Debug)]
pub(super) struct Supervisor {
    plan: Plan,
    /// The address of the dispatcher, once it has served.
    address: Option<String>,
    workers: Vec<Supervised>,
    dispatcher: Supervised,
    has_reported: bool,
}

impl Plan {
    fn dispatcher_command(&self, address: Option<&str>) -> Command {
        let mut command = ChildServer::command(&self.program, &self.dispatcher);
        let bind = address.map_or_else(|| self.bind.to_string(), str::to_owned);
        command.args(["--bind", &bind]);
        command
    }

    fn worker_command(&self, dispatcher: &str) -> Command {
        let mut command = ChildServer::command(&self.program, &self.worker);
        command.args(["--dispatcher", dispatcher]);
        command
    }
}

impl Supervisor {
    /// Returns a supervisor whose processes start with the first steps.
    pub(super) fn new(plan: Plan) -> Self {
        let new = |name: String| Supervised::new(name, Restarts::new(plan.restarts_max), plan.serve_deadline);
        Self {
            address: None,
            workers: (0..plan.workers)
                .map(|number| new(format!("worker {number}")))
                .collect(),
            dispatcher: new("dispatcher".to_owned()),
            plan,
            has_reported: false,
        }
    }

    /// Starts the processes that are due, and looks at all others. Returns the outcome once the supervision
    /// is over.
    pub(super) fn step(&mut self) -> Option<Result<(), String>> {
        self.try_step().unwrap_or_else(|error| Some(Err(error)))
    }

    fn try_step(&mut self) -> Result<Option<Result<(), String>>, String> {
        let dispatcher = || self.plan.dispatcher_command(self.address.as_deref());
        match self.dispatcher.step(dispatcher)? {
            Some(Event::Serves(line)) => self.address = Some(served_address(&line)?.to_owned()),
            // The dispatcher ends without an error only if a command has ended its service.
            Some(Event::Ended(status)) if status.success() && self.dispatcher.has_served() => {
                note("the service was shut down");
                return Ok(Some(Ok(())));
            }
            Some(Event::Ended(status)) => self.dispatcher.start_later(status)?,
            None => {}
        }
        let Some(address) = &self.address else {
            return Ok(None);
        };
        for worker in &mut self.workers {
            if let Some(Event::Ended(status)) = worker.step(|| self.plan.worker_command(address))? {
                worker.start_later(status)?;
            }
        }
        if !self.has_reported && self.workers.iter().all(Supervised::has_served) {
            self.has_reported = true;
            let workers = self.workers.len();
            let noun = if workers == 1 { "worker" } else { "workers" };
            say(&format!(
                "serving at millstream://{address} with {workers} {noun}"
            ));
        }
        Ok(None)
    }

    /// Returns the address of the dispatcher if its process runs and serves.
    pub(super) fn dispatcher_address(&mut self) -> Option<String> {
        let serves = self.dispatcher.is_serving();
        self.address.clone().filter(|_| serves)
    }

    /// Starts the graceful shutdown of all workers. No process starts again.
    pub(super) fn terminate_workers(&mut self) {
        self.workers.iter_mut().for_each(Supervised::terminate);
    }

    /// Starts the graceful shutdown of the dispatcher.
    pub(super) fn terminate_dispatcher(&mut self) {
        self.dispatcher.terminate();
    }

    /// Waits until the processes that were asked to shut down have ended. Returns `false` if a signal or the
    /// time limit comes first.
    pub(super) fn await_end(&mut self, ending: &Ending, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let is_signalled = ending.wait(|| self.running_after_end() == 0 || Instant::now() >= deadline);
        let left = self.running_after_end();
        if is_signalled.is_none() && left > 0 {
            let limit_s = limit.as_secs_f64();
            note(&format!(
                "{left} processes did not end within {limit_s} s, and are ended now"
            ));
        }
        is_signalled.is_none() && left == 0
    }

    /// Returns the number of processes that were asked to shut down and still run.
    fn running_after_end(&mut self) -> usize {
        let all = self.workers.iter_mut().chain([&mut self.dispatcher]);
        all.map(Supervised::is_ending)
            .filter(|is_ending| *is_ending)
            .count()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let deadline = Instant::now() + ChildServer::END_GRACE;
        let workers = self.workers.iter_mut().filter_map(Supervised::take);
        // The workers end before the dispatcher, because they say goodbye to it.
        ChildServer::end_all(workers.collect(), deadline - DISPATCHER_PART);
        ChildServer::end_all(self.dispatcher.take().into_iter().collect(), deadline);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// The line of a dispatcher, after which the script continues.
    const DISPATCHER_SERVES: &str = "echo dispatcher listening on 127.0.0.1:1; ";

    /// The line of a worker, after which the script continues.
    const WORKER_SERVES: &str = "echo worker serving on 127.0.0.1:2 for dispatcher 127.0.0.1:1; ";

    /// The rest of a process that ends when its standard input closes.
    const UNTIL_STDIN_CLOSES: &str = "read line; exit 0";

    /// A deadline far beyond the watchdog.
    const NEVER: Duration = Duration::from_secs(3600);

    const WATCHDOG: Duration = Duration::from_secs(60);

    /// Returns a supervisor of shell scripts in place of the servers.
    fn supervisor(dispatcher: &str, worker: &str, serve_deadline: Duration) -> Supervisor {
        let arguments = |script: &str| ["-c", script, "sh"].map(OsString::from).to_vec();
        Supervisor::new(Plan {
            program: "/bin/sh".into(),
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            dispatcher: arguments(dispatcher),
            worker: arguments(worker),
            workers: 1,
            restarts_max: 0,
            serve_deadline,
        })
    }

    /// Runs the steps until the supervision is over.
    fn outcome(supervisor: &mut Supervisor) -> Result<(), String> {
        let watchdog = Instant::now() + WATCHDOG;
        loop {
            if let Some(outcome) = supervisor.step() {
                return outcome;
            }
            assert!(Instant::now() < watchdog, "the supervision hangs: {supervisor:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn an_ended_dispatcher_has_no_address() {
        let dispatcher = format!("{DISPATCHER_SERVES} exit 0");
        let mut supervisor = supervisor(&dispatcher, UNTIL_STDIN_CLOSES, NEVER);
        assert_eq!(outcome(&mut supervisor), Ok(()));
        assert_eq!(supervisor.address.as_deref(), Some("127.0.0.1:1"));
        assert_eq!(supervisor.dispatcher_address(), None);
        supervisor.terminate_dispatcher();
        assert_eq!(supervisor.running_after_end(), 0);
    }

    #[test]
    fn an_unseen_end_leaves_no_address() {
        let dispatcher = format!("{DISPATCHER_SERVES} exit 1");
        let mut supervisor = supervisor(&dispatcher, UNTIL_STDIN_CLOSES, NEVER);
        while supervisor.address.is_none() {
            assert_eq!(supervisor.step(), None);
        }
        let watchdog = Instant::now() + WATCHDOG;
        while supervisor.dispatcher_address().is_some() {
            assert!(Instant::now() < watchdog, "the end is not seen: {supervisor:?}");
        }
        supervisor.terminate_dispatcher();
        assert_eq!(supervisor.running_after_end(), 0);
    }

    #[test]
    fn a_clean_exit_is_no_death() {
        let dispatcher = format!("{DISPATCHER_SERVES} sleep 1; exit 0");
        let worker = format!("{WORKER_SERVES} exit 0");
        assert_eq!(outcome(&mut supervisor(&dispatcher, &worker, NEVER)), Ok(()));
    }

    #[test]
    fn a_worker_that_never_serves_is_killed() {
        let dispatcher = format!("{DISPATCHER_SERVES} {UNTIL_STDIN_CLOSES}");
        let deadline = Duration::from_secs(3);
        let failed = outcome(&mut supervisor(&dispatcher, "exec sleep 1000", deadline));
        assert!(
            failed
                .unwrap_err()
                .contains("worker 0 ended before it served (signal: 9")
        );
    }
}
