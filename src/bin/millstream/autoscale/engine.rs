//! The programs that start and end workers: a command of the user, or kubectl.

use std::fmt;
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::args::AutoscaleArgs;
use crate::ending::Brake;

/// The time between two checks whether a run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The time that a run has to end after SIGTERM. An interrupted command waits for it, so it is short.
#[cfg(target_os = "linux")]
const GRACE: Duration = Duration::from_secs(1);

/// The way in which workers start and end.
#[derive(Debug)]
pub(super) enum Engine {
    /// A command of the shell.
    Shell(String),
    /// The replicas of a Deployment.
    Kubernetes {
        deployment: String,
        namespace: Option<String>,
    },
    /// No workers are started or ended.
    Print,
}

impl Engine {
    /// Returns the engine that the flags name. Fails if its program is missing.
    pub(super) fn of(args: &AutoscaleArgs) -> Result<Engine, String> {
        if args.namespace.is_some() && args.engine.kubernetes.is_none() {
            return Err(
                "--namespace: expected --kubernetes, whose Deployment is in the namespace".to_owned(),
            );
        }
        if let Some(command) = &args.engine.exec {
            return Ok(Engine::Shell(command.clone()));
        }
        let Some(deployment) = &args.engine.kubernetes else {
            return Ok(Engine::Print);
        };
        if !is_on_path("kubectl") {
            return Err(
                "--kubernetes: the program kubectl is not on PATH; install it, or use --exec with a command of your own"
                    .to_owned(),
            );
        }
        Ok(Engine::Kubernetes {
            deployment: deployment.clone(),
            namespace: args.namespace.clone(),
        })
    }

    /// Sets the number of workers, and blocks until that is done. The workers may start and end later. Ends
    /// the run with its processes if the run is late, or if the brake is pulled.
    pub(super) fn set(
        &self,
        wanted: u64,
        current: u64,
        timeout: Duration,
        brake: &Brake,
    ) -> Result<(), NotSet> {
        let mut command = match self {
            Engine::Print => return Ok(()),
            Engine::Shell(text) => {
                let mut command = Command::new("sh");
                command.args(["-c", text]);
                command
            }
            Engine::Kubernetes {
                deployment,
                namespace,
            } => {
                let mut command = Command::new("kubectl");
                command.arg("scale").arg(format!("deployment/{deployment}"));
                command.arg(format!("--replicas={wanted}"));
                command.args(namespace.iter().map(|name| format!("--namespace={name}")));
                command
            }
        };
        command
            .env("MILLSTREAM_WANTED", wanted.to_string())
            .env("MILLSTREAM_CURRENT", current.to_string())
            .stdin(Stdio::null())
            // Standard output is for decisions.
            .stdout(std::io::stderr());
        // A group of its own lets the command end with all of its processes.
        #[cfg(unix)]
        command.process_group(0);
        let child = command
            .spawn()
            .map_err(|error| NotSet::Failed(format!("{self} cannot be started: {error}")))?;
        self.finish(child, timeout, brake)
    }

    fn finish(&self, mut child: Child, timeout: Duration, brake: &Brake) -> Result<(), NotSet> {
        if let Some(status) = wait(&mut child, timeout, || brake.is_pulled())? {
            return if status.success() {
                Ok(())
            } else {
                Err(NotSet::Failed(format!("{self} failed ({status})")))
            };
        }
        end(&mut child);
        if brake.is_pulled() {
            return Err(NotSet::Interrupted);
        }
        Err(NotSet::Failed(format!(
            "{self} did not end within {} s; raise --timeout-s, or start workers in the background",
            timeout.as_secs_f64()
        )))
    }
}

/// The reason for which the number of workers was not set.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotSet {
    /// The brake was pulled.
    Interrupted,
    /// The run failed, with the message for the user.
    Failed(String),
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Engine::Shell(_) => f.write_str("the command of --exec"),
            Engine::Kubernetes { deployment, .. } => write!(f, "kubectl scale deployment/{deployment}"),
            Engine::Print => f.write_str("--print"),
        }
    }
}

/// Waits for the end of a run. Returns `None` if the run has not ended in time, or when the wait must end.
fn wait(
    child: &mut Child,
    timeout: Duration,
    must_end: impl Fn() -> bool,
) -> Result<Option<ExitStatus>, NotSet> {
    let deadline = Instant::now() + timeout;
    loop {
        let status = child
            .try_wait()
            .map_err(|error| NotSet::Failed(format!("the run cannot be observed: {error}")))?;
        if status.is_some() || Instant::now() >= deadline || must_end() {
            return Ok(status);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Ends a run and the processes of its group. They have [`GRACE`] to end by themselves after SIGTERM, also if
/// the shell ends before them.
#[cfg(target_os = "linux")]
fn end(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

    let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return;
    };
    // The processes may have ended already; a failed signal is harmless.
    let _ = kill_process_group(group, Signal::TERM);
    let deadline = Instant::now() + GRACE;
    loop {
        // A shell that nobody has waited for still counts as a process of its group.
        let _ = child.try_wait();
        if test_kill_process_group(group).is_err() {
            return;
        }
        if Instant::now() >= deadline {
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// Ends a run.
#[cfg(not(target_os = "linux"))]
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(text: &str) -> Engine {
        Engine::Shell(text.to_owned())
    }

    fn set(engine: &Engine, wanted: u64, current: u64, timeout: Duration) -> Result<(), NotSet> {
        engine.set(wanted, current, timeout, &Brake::default())
    }

    fn reason(result: Result<(), NotSet>) -> String {
        match result {
            Err(NotSet::Failed(reason)) => reason,
            other => panic!("expected a failure, found {other:?}"),
        }
    }

    #[test]
    fn commands_get_both_numbers() {
        let check = shell("test \"$MILLSTREAM_WANTED $MILLSTREAM_CURRENT\" = '7 3'");
        assert_eq!(set(&check, 7, 3, LONG), Ok(()));
        let failure = reason(set(&check, 8, 3, LONG));
        assert!(
            failure.contains("the command of --exec failed (exit status: 1)"),
            "{failure}"
        );
    }

    /// Returns a command that leaves the id of a process in a file, and waits for that process.
    #[cfg(target_os = "linux")]
    fn endless(file: &std::path::Path) -> Engine {
        let file = file.display();
        shell(&format!(
            "sleep 600 & echo $! > {file}.new; mv {file}.new {file}; wait"
        ))
    }

    #[cfg(target_os = "linux")]
    fn has_ended(file: &std::path::Path) -> bool {
        let pid = std::fs::read_to_string(file).expect("the command has run");
        let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        // A process that has ended may wait for its parent, which is the first process of the machine.
        status.map_or(true, |text| text.contains(") Z"))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn late_commands_are_ended() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("pid");
        let late = set(&endless(&file), 1, 0, Duration::from_secs(1));
        let failure = reason(late);
        assert!(failure.contains("did not end within 1 s"), "{failure}");
        assert!(has_ended(&file));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn interrupted_commands_are_ended() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("pid");
        let (brake, engine) = (Brake::default(), endless(&file));
        let pulled = brake.clone();
        let run = thread::spawn(move || engine.set(1, 0, LONG, &pulled));
        while !file.exists() {
            thread::sleep(LOOK_EVERY);
        }
        brake.pull();
        let result = run.join().expect("no panic");
        assert_eq!(result, Err(NotSet::Interrupted));
        assert!(has_ended(&file));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn processes_of_late_commands_may_finish() {
        let folder = tempfile::tempdir().expect("a directory");
        let (begun, done) = (folder.path().join("begun"), folder.path().join("done"));
        let child = format!(
            "trap 'sleep 0.2; touch {}; exit' TERM; touch {}; while :; do sleep 0.05; done",
            done.display(),
            begun.display()
        );
        // The outer shell ends at once, and the inner one finishes its work.
        let engine = shell(&format!("sh -c \"{child}\" & wait"));
        let brake = Brake::default();
        let pulled = brake.clone();
        let run = thread::spawn(move || engine.set(1, 0, LONG, &pulled));
        while !begun.exists() {
            thread::sleep(LOOK_EVERY);
        }
        brake.pull();
        assert_eq!(run.join().expect("no panic"), Err(NotSet::Interrupted));
        assert!(done.exists());
    }

    #[test]
    fn print_starts_nothing() {
        assert_eq!(set(&Engine::Print, 5, 0, Duration::ZERO), Ok(()));
    }
}
