//! The processes and the memory of a process and its descendants, by /proc. Does not know whose they are and
//! what they may use.

use std::fs;

/// Processes that code may have running at a time, itself included: more than data loading needs, and few
/// enough for a fork bomb to be stopped while the machine still answers.
pub(super) const PROCESSES_MAX: usize = 256;

/// The processes and the memory of a process and its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    /// Bytes in memory that each has for itself, together.
    pub(super) private_bytes: u64,
    /// The number of processes, counted up to one more than [`PROCESSES_MAX`].
    pub(super) processes: usize,
}

/// The usage of the tree that begins with this process; `None` if the process is gone.
pub(super) fn usage(pid: u32) -> Option<Usage> {
    let mut usage = Usage {
        private_bytes: private_bytes(pid)?,
        processes: 1,
    };
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for child in children(parent) {
            if usage.processes > PROCESSES_MAX {
                return Some(usage);
            }
            usage.processes += 1;
            usage.private_bytes += private_bytes(child).unwrap_or(0);
            parents.push(child);
        }
    }
    Some(usage)
}

/// Returns whether a process has ended, be it that nobody has reaped it yet.
pub(super) fn has_ended(pid: u32) -> bool {
    // One that is not reaped has no pages, not even of its program.
    fs::read_to_string(format!("/proc/{pid}/statm")).map_or(true, |statm| statm.starts_with("0 "))
}

/// The bytes in memory that a process has for itself: without regions and libraries, which it shares with
/// others.
fn private_bytes(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut pages = statm
        .split_ascii_whitespace()
        .skip(1)
        .map_while(|pages| pages.parse::<u64>().ok());
    let private = pages.next()?.saturating_sub(pages.next()?);
    Some(private.saturating_mul(rustix::param::page_size() as u64))
}

/// The children of all threads of a process. None where the system does not list them.
fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let listed = tasks.flatten().filter_map(|task| {
        let children = fs::read_to_string(task.path().join("children")).ok()?;
        let children = children.split_ascii_whitespace();
        Some(
            children
                .filter_map(|child| child.parse().ok())
                .collect::<Vec<_>>(),
        )
    });
    listed.flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_tree_of_processes_is_counted() {
        let own = std::process::id();
        let before = usage(own).unwrap();
        // A shell that waits for its own child, until its input ends.
        let mut shell = Command::new("sh")
            .args(["-c", "cat; true"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        while usage(shell.id()).is_none_or(|usage| usage.processes < 2) {
            std::thread::yield_now();
        }
        let with_it = usage(own).unwrap();
        assert!(
            with_it.processes >= before.processes + 2,
            "{before:?}, {with_it:?}"
        );
        assert!(usage(shell.id()).unwrap().private_bytes > 0);
        assert!(!has_ended(shell.id()));
        drop(shell.stdin.take());
        while !has_ended(shell.id()) {
            std::thread::yield_now();
        }
        shell.wait().unwrap();
        assert!(has_ended(shell.id()));
        assert_eq!(usage(shell.id()), None);
    }
}
