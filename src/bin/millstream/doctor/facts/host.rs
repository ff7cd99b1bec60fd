//! The facts of this machine: shared memory, memory, and the limit on open files.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use millstream::dataplane::transport::shm::{Listener, ListenerConfig};
use rustix::fs::{MemfdFlags, memfd_create, statvfs};
use rustix::process::{Resource, getrlimit};

/// The size of the memory file in the test.
const MEMORY_FILE_BYTES: u64 = 1 << 20;

/// The parts of shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct SharedMemoryFacts {
    /// The outcome of a memory file (`memfd_create`), in which workers keep elements.
    pub(in super::super) memory_file: Result<(), String>,
    /// The outcome of a worker's listening socket.
    pub(in super::super) socket: Result<(), String>,
    /// The directory of sockets, if the worker has one.
    pub(in super::super) directory: Option<DirectoryFacts>,
}

/// The directory of workers' sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct DirectoryFacts {
    /// The path.
    pub(in super::super) path: PathBuf,
    /// True if the directory exists; otherwise a worker creates it.
    pub(in super::super) exists: bool,
    /// The free space of the directory, or of the directory above a missing directory.
    pub(in super::super) free_bytes: Option<u64>,
}

/// The size of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct SpaceFacts {
    /// The size.
    pub(in super::super) size_bytes: u64,
    /// The free space for this user.
    pub(in super::super) free_bytes: u64,
}

/// The memory that a worker can get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct MemoryFacts {
    /// The memory that the machine can give to processes without swapping.
    pub(in super::super) available_bytes: u64,
    /// The memory that the container or unit (cgroup) may still allocate; `None` without a limit.
    pub(in super::super) cgroup_left_bytes: Option<u64>,
}

/// The limits on open files of a process; `None` stands for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct FilesFacts {
    /// The limit in force.
    pub(in super::super) soft: Option<u64>,
    /// The maximum to which the process may raise its limit.
    pub(in super::super) hard: Option<u64>,
}

/// Makes the parts of shared memory, as a worker does, and removes them again.
pub(in super::super) fn shared_memory(directory: Option<&Path>) -> SharedMemoryFacts {
    let directory = directory.map(|path| {
        let exists = path.exists();
        let measured = if exists { Some(path) } else { path.parent() };
        DirectoryFacts {
            path: path.to_owned(),
            exists,
            free_bytes: measured.and_then(space).map(|space| space.free_bytes),
        }
    });
    // The worker would create a missing directory, and this command leaves nothing behind.
    let socket = match &directory {
        Some(facts) if !facts.exists => may_create_in(facts.path.parent()),
        given => listen(given.as_ref().map(|facts| facts.path.clone())),
    };
    SharedMemoryFacts {
        memory_file: memory_file().map_err(|error| error.to_string()),
        socket,
        directory,
    }
}

fn memory_file() -> std::io::Result<()> {
    let fd = memfd_create(
        "millstream-doctor",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    let file = std::fs::File::from(fd);
    file.set_len(MEMORY_FILE_BYTES)?;
    file.write_all_at(b"end", MEMORY_FILE_BYTES - 3)
}

/// Opens the socket of a worker, and closes it again.
fn listen(directory: Option<PathBuf>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let config = ListenerConfig {
        directory,
        ..ListenerConfig::default()
    };
    let bound = runtime.block_on(async { Listener::bind(&config) });
    bound.map(drop).map_err(|error| error.to_string())
}

/// Checks that this user may create files in a folder.
fn may_create_in(folder: Option<&Path>) -> Result<(), String> {
    let folder = match folder {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let written = tempfile::tempfile_in(folder).and_then(|mut file| file.write_all(b"x"));
    written.map_err(|error| format!("{}: {error}", folder.display()))
}

/// Returns the size of the file system of a path.
pub(in super::super) fn space(path: &Path) -> Option<SpaceFacts> {
    let found = statvfs(path).ok()?;
    Some(SpaceFacts {
        size_bytes: found.f_frsize.saturating_mul(found.f_blocks),
        free_bytes: found.f_frsize.saturating_mul(found.f_bavail),
    })
}

/// Returns the memory that a worker can get; `None` if the kernel does not tell.
pub(in super::super) fn memory() -> Option<MemoryFacts> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let available_bytes = available(&read("/proc/meminfo")?)?;
    let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max");
    let used = number("/sys/fs/cgroup/memory.current");
    Some(MemoryFacts {
        available_bytes,
        cgroup_left_bytes: limit.zip(used).map(|(limit, used)| limit.saturating_sub(used)),
    })
}

/// Returns the available memory in the text of `/proc/meminfo`.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}

/// Returns the limits on open files of this process, which processes started in the same way share.
pub(in super::super) fn files() -> FilesFacts {
    let limit = getrlimit(Resource::Nofile);
    FilesFacts {
        soft: limit.current,
        hard: limit.maximum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usable_directory_is_found_and_left() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("sockets");
        let facts = shared_memory(Some(&missing));
        assert_eq!((facts.socket, facts.memory_file), (Ok(()), Ok(())));
        assert!(!missing.exists(), "the check must not create the directory");
        std::fs::create_dir(&missing).unwrap();
        std::fs::set_permissions(&missing, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let open = shared_memory(Some(&missing)).socket.unwrap_err();
        assert!(open.contains("chmod 700"), "{open}");
        assert_eq!(shared_memory(None).directory, None);
    }

    #[test]
    fn the_kernel_tells_memory_and_limits() {
        assert_eq!(available("MemFree: 1 kB\nMemAvailable:   20 kB\n"), Some(20_480));
        assert_eq!(available("MemFree: 1 kB\n"), None);
        assert!(memory().is_some_and(|memory| memory.available_bytes > 0));
        assert!(files().soft.is_none_or(|soft| soft > 0));
    }
}
