//! Servers that a command runs as child processes. Each child runs this program with other arguments.
//!
//! A child ends when its standard input closes. Only this process holds the other end of that pipe, so no
//! child outlives this process, however this process ends.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::config::settings_variables;
use crate::console::relay;

/// Maximum length of a line of a child. A longer line is divided.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The time between two checks whether a child has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A dispatcher or a worker in a child process. Dropping the value ends the process, and kills it after
/// [`ChildServer::END_GRACE`].
#[derive(Debug)]
pub(crate) struct ChildServer {
    name: String,
    child: Child,
    lines: Receiver<String>,
}

impl ChildServer {
    /// The time that a child has to end after its standard input has closed.
    pub(crate) const END_GRACE: Duration = Duration::from_secs(3);

    /// Returns the path of this program.
    pub(crate) fn program() -> Result<PathBuf, String> {
        std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))
    }

    /// Returns the command that runs a program with these arguments as a child server. The child does not
    /// inherit the variables of settings, because they belong to this command: two children cannot share, for
    /// example, one port.
    pub(crate) fn command(program: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).arg("--until-stdin-closes");
        for variable in settings_variables() {
            command.env_remove(variable);
        }
        command
    }

    /// Starts a child server. If the command pipes standard error, the child's messages are printed after its
    /// name.
    pub(crate) fn start(name: &str, mut command: Command) -> Result<Self, String> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("cannot start {name}: {error}"))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (tell, lines) = channel();
        let server = Self {
            name: name.to_owned(),
            child,
            lines,
        };
        if let Some(stdout) = stdout {
            let mut first = Some(tell);
            // The thread also reads later lines, so that the child never blocks on a full pipe.
            let hand_over = move |line| _ = first.take().map(|tell: Sender<String>| tell.send(line));
            for_each_line(name, stdout, hand_over)?;
        }
        if let Some(stderr) = stderr {
            let label = name.to_owned();
            for_each_line(name, stderr, move |line| relay(&label, &line))?;
        }
        Ok(server)
    }

    /// Moves the child to a process group of its own, so that Ctrl-C in a terminal reaches only this process.
    pub(crate) fn detach(command: &mut Command) {
        #[cfg(unix)]
        command.process_group(0);
        #[cfg(not(unix))]
        let _ = command;
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the line by which the child reports that it serves, once. Returns `None` before that line.
    pub(crate) fn serving_line(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Waits until the child reports that it serves, and returns the line of the report.
    pub(crate) fn await_serving(&self, timeout: Duration) -> Result<String, String> {
        let name = &self.name;
        self.lines.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!(
                "{name} does not serve after {} s; its messages are printed above",
                timeout.as_secs()
            ),
            RecvTimeoutError::Disconnected => {
                format!("{name} ended before it served; its error is printed above")
            }
        })
    }

    /// Returns the status of a child that has ended, and `None` while the child runs.
    pub(crate) fn exit_status(&mut self) -> Result<Option<ExitStatus>, String> {
        let name = &self.name;
        self.child
            .try_wait()
            .map_err(|error| format!("cannot watch {name}: {error}"))
    }

    /// Asks the child for a graceful shutdown. On systems other than Linux, the child ends at once instead.
    /// Returns `false` if the child had ended before.
    pub(crate) fn terminate(&mut self) -> bool {
        // Once a child is reaped, its id may name another process, which must get no signal.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return false;
        }
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{Pid, Signal, kill_process};
            let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            // A child that has ended meanwhile is not reaped yet, so the signal reaches no other process.
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        #[cfg(not(target_os = "linux"))]
        self.close_stdin();
        true
    }

    /// Asks the child to end at once, with a goodbye message to its peers.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Kills the child, and does not wait for its end.
    pub(crate) fn kill(&mut self) {
        // The child may have ended already; a failed kill is harmless.
        let _ = self.child.kill();
    }

    /// Ends several children at the same time, and kills those that still run at the deadline.
    pub(crate) fn end_all(mut children: Vec<Self>, deadline: Instant) {
        children.iter_mut().for_each(Self::close_stdin);
        for child in &mut children {
            child.end_by(deadline);
        }
    }

    /// Ends the child, kills it if it still runs at the deadline, and reaps it.
    fn end_by(&mut self, deadline: Instant) {
        self.close_stdin();
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                tracing::warn!(name = %self.name, "the process did not end in time and was killed");
                self.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        self.end_by(Instant::now() + Self::END_GRACE);
    }
}

/// Returns the address in the line by which a dispatcher or worker reports that it serves.
pub(crate) fn served_address(line: &str) -> Result<&str, String> {
    // The line is `dispatcher listening on ADDRESS` or `worker serving on ADDRESS for dispatcher …`.
    line.split(' ').nth(3).ok_or_else(|| {
        format!("expected `dispatcher listening on ADDRESS` as the first line of the process, found `{line}`")
    })
}

/// Calls a function with each line of a pipe, on a thread of its own.
fn for_each_line(
    name: &str,
    pipe: impl Read + Send + 'static,
    mut take: impl FnMut(String) + Send + 'static,
) -> Result<(), String> {
    let read = move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!(
            reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line),
            Ok(1..)
        ) {
            take(String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(read)
        .map(drop)
        .map_err(|error| format!("cannot start a thread for {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_divided() {
        let (tell, told) = channel();
        let mut bytes = vec![b'a'; 64 << 10];
        bytes.extend_from_slice(b"b\nc\xff\n");
        for_each_line("lines", std::io::Cursor::new(bytes), move |line| {
            tell.send(line).unwrap();
        })
        .unwrap();
        let lines: Vec<String> = told.iter().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0].len(), lines[1].as_str()), (64 << 10, "b"));
        assert_eq!(lines[2], "c\u{fffd}");
    }

    #[test]
    fn the_address_is_the_fourth_word() {
        let told = |line| served_address(line).ok();
        assert_eq!(told("dispatcher listening on [::1]:1"), Some("[::1]:1"));
        assert_eq!(told("worker serving on a:1 for dispatcher b:2"), Some("a:1"));
        assert_eq!(told("dispatcher listening on"), None);
    }

    /// Children that ignore their standard input would take 90 s one after the other.
    #[cfg(unix)]
    #[test]
    fn all_children_share_one_deadline() {
        let start = |number| {
            let mut command = ChildServer::command(Path::new("/bin/sh"), ["-c", "exec sleep 100"]);
            // Children that a failed test leaves behind must not hold the output of the test runner open.
            command.stderr(Stdio::null());
            ChildServer::start(&format!("sleep {number}"), command).unwrap()
        };
        let children: Vec<_> = (0..30).map(start).collect();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            ChildServer::end_all(children, Instant::now() + ChildServer::END_GRACE);
            tell.send(()).unwrap();
        });
        let watchdog = Duration::from_secs(60);
        told.recv_timeout(watchdog)
            .expect("the children share a deadline");
    }

    #[cfg(unix)]
    #[test]
    fn a_reaped_child_gets_no_signal() {
        let command = ChildServer::command(Path::new("/bin/sh"), ["-c", "exit 0"]);
        let mut child = ChildServer::start("a child", command).unwrap();
        while child.exit_status().unwrap().is_none() {
            std::thread::sleep(LOOK_EVERY);
        }
        assert!(!child.terminate());
    }
}
