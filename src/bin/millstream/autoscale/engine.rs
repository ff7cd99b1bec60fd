//! The programs that start and end workers: a command of the user, or kubectl.

use std::fmt;
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::args::AutoscaleArgs;

/// The time between two checks whether a run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The time that a run has to end after SIGTERM.
#[cfg(target_os = "linux")]
const GRACE: Duration = Duration::from_secs(5);

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

    /// Sets the number of workers, and blocks until that is done. The workers may start and end later.
    pub(super) fn set(&self, wanted: u64, current: u64, timeout: Duration) -> Result<(), String> {
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
            .map_err(|error| format!("{self} cannot be started: {error}"))?;
        self.finish(child, timeout)
    }

    fn finish(&self, mut child: Child, timeout: Duration) -> Result<(), String> {
        if let Some(status) = wait(&mut child, timeout)? {
            return if status.success() {
                Ok(())
            } else {
                Err(format!("{self} failed ({status})"))
            };
        }
        end(&mut child);
        Err(format!(
            "{self} did not end within {} s; raise --timeout-s, or start workers in the background",
            timeout.as_secs_f64()
        ))
    }
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

/// Waits for the end of a run. Returns `None` if the run has not ended in time.
fn wait(child: &mut Child, timeout: Duration) -> Result<Option<ExitStatus>, String> {
    let deadline = Instant::now() + timeout;
    loop {
        let status = child
            .try_wait()
            .map_err(|error| format!("the run cannot be observed: {error}"))?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Ends a late run and the processes of its group.
#[cfg(target_os = "linux")]
fn end(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};

    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // The processes may have ended already; a failed signal is harmless.
    let send = |signal| group.map(|group| kill_process_group(group, signal));
    send(Signal::TERM);
    if matches!(wait(child, GRACE), Ok(None)) {
        send(Signal::KILL);
        let _ = child.wait();
    }
}

/// Ends a late run.
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

    #[test]
    fn commands_get_both_numbers() {
        let check = shell("test \"$MILLSTREAM_WANTED $MILLSTREAM_CURRENT\" = '7 3'");
        assert_eq!(check.set(7, 3, LONG), Ok(()));
        let failure = check.set(8, 3, LONG).expect_err("the numbers differ");
        assert!(
            failure.contains("the command of --exec failed (exit status: 1)"),
            "{failure}"
        );
    }

    #[test]
    fn late_commands_are_ended() {
        let failure = shell("sleep 600 & wait").set(1, 0, Duration::ZERO);
        let failure = failure.expect_err("the command is late");
        assert!(failure.contains("did not end within 0 s"), "{failure}");
    }

    #[test]
    fn print_starts_nothing() {
        assert_eq!(Engine::Print.set(5, 0, Duration::ZERO), Ok(()));
    }
}
