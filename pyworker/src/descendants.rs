//! The processes and the memory of a process and its descendants, read from /proc. This file does not know
//! the purpose and the limits of the processes.

use std::fs;

/// Maximum number of processes that code may run at a time, its own process included. Data loading needs
/// fewer, and a fork bomb is stopped while the machine still responds.
pub(super) const PROCESSES_MAX: usize = 256;

/// The processes and the memory of a process and its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    /// Total size in bytes of the memory that the processes do not share.
    pub(super) private_bytes: u64,
    /// The number of processes, counted up to one more than [`PROCESSES_MAX`].
    pub(super) processes: usize,
}

/// Returns the usage of a process and all its descendants; `None` if the process has ended.
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

/// Returns whether a process has ended, even if its parent has not reaped it yet.
pub(super) fn has_ended(pid: u32) -> bool {
    // A process that was not reaped has no pages, not even those of its program.
    fs::read_to_string(format!("/proc/{pid}/statm")).map_or(true, |statm| statm.starts_with("0 "))
}

/// Returns the number of bytes in memory that a process does not share. Shared regions and libraries are
/// excluded.
fn private_bytes(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut pages = statm
        .split_ascii_whitespace()
        .skip(1)
        .map_while(|pages| pages.parse::<u64>().ok());
    let private = pages.next()?.saturating_sub(pages.next()?);
    Some(private.saturating_mul(rustix::param::page_size() as u64))
}

/// Returns the children of all threads of a process. Returns an empty list if the system does not list
/// children.
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
        // Starts a shell that waits for its own child until its input ends.
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
