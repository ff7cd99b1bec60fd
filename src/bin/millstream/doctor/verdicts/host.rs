//! The verdicts on shared memory, memory, and the limit on open files. Pure.

use super::super::facts::host::{FilesFacts, MemoryFacts, SharedMemoryFacts, SpaceFacts};
use super::super::finding::Finding;
use crate::console::bytes_text;

/// The free space that sockets need in their directory.
const DIRECTORY_BYTES_MIN: u64 = 1 << 20;
/// The size of `/dev/shm` that container engines choose by default. Millstream needs none of it, but
/// processes of PyTorch's own `DataLoader` fail when it is full.
const DEV_SHM_DEFAULT_BYTES: u64 = 64 << 20;
/// The memory of a worker for elements by default (--memory-bytes).
const WORKER_BYTES: u64 = 1 << 30;
/// The number of open files below which a worker fails with a few trainers.
const FILES_MIN: u64 = 256;
/// The number of open files that a worker needs. With 128 trainers on its host, half of the files stay free.
const FILES_WANTED: u64 = 1024;

/// Judges the parts of shared memory.
pub(in super::super) fn shared_memory(facts: &SharedMemoryFacts) -> Finding {
    const CHECK: &str = "shared-memory";
    let place = facts.directory.as_ref().map_or_else(
        || "a socket without a file".to_owned(),
        |directory| format!("sockets in {}", directory.path.display()),
    );
    if let Err(error) = &facts.memory_file {
        return Finding::warning(
            CHECK,
            format!("memfd_create fails: {error}; trainers on this machine read over the network"),
            "Allow memfd_create in the seccomp profile of the container.",
        );
    }
    if let Err(error) = &facts.socket {
        return Finding::warning(
            CHECK,
            format!("a worker cannot use {place}: {error}; a worker with --shm-dir refuses to start"),
            "Give --shm-dir a directory of mode 0700 that belongs to this user, below a directory that this user may write to.",
        );
    }
    let Some(directory) = &facts.directory else {
        return Finding::ok(CHECK, format!("memfd works, and a worker can open {place}"));
    };
    let state = if directory.exists {
        ""
    } else {
        ", which a worker creates"
    };
    let free = directory.free_bytes.map_or_else(
        || "unknown free space".to_owned(),
        |free| format!("{} free", bytes_text(free)),
    );
    let found = format!("memfd works, and a worker can open {place}{state} ({free})");
    if directory
        .free_bytes
        .is_some_and(|free| free < DIRECTORY_BYTES_MIN)
    {
        let cure = format!(
            "Free {} in the file system of the directory.",
            bytes_text(DIRECTORY_BYTES_MIN)
        );
        return Finding::warning(CHECK, found, cure);
    }
    Finding::ok(CHECK, found)
}

/// Judges the size of `/dev/shm`.
pub(in super::super) fn dev_shm(space: Option<SpaceFacts>) -> Finding {
    const CHECK: &str = "dev-shm";
    let Some(space) = space else {
        return Finding::ok(
            CHECK,
            "/dev/shm does not exist; Millstream's shared memory does not use it",
        );
    };
    let found = format!(
        "/dev/shm has {} free of {}; Millstream's shared memory does not use it",
        bytes_text(space.free_bytes),
        bytes_text(space.size_bytes)
    );
    if space.size_bytes > DEV_SHM_DEFAULT_BYTES {
        return Finding::ok(CHECK, found);
    }
    Finding::warning(
        CHECK,
        found,
        "If PyTorch's own DataLoader processes run in this container, start it with --shm-size=1g or more.",
    )
}

/// Judges the memory for a worker with the default settings.
pub(in super::super) fn memory(memory: Option<MemoryFacts>) -> Finding {
    const CHECK: &str = "memory";
    let Some(memory) = memory else {
        return Finding::ok(CHECK, "the kernel does not tell the available memory");
    };
    let left = memory.cgroup_left_bytes;
    let limit = left.map_or_else(String::new, |left| {
        format!(
            ", and the limit of the container or unit leaves {}",
            bytes_text(left)
        )
    });
    let found = format!("{} are available{limit}", bytes_text(memory.available_bytes));
    let usable = left.map_or(memory.available_bytes, |left| left.min(memory.available_bytes));
    if usable >= WORKER_BYTES {
        return Finding::ok(CHECK, found);
    }
    Finding::warning(
        CHECK,
        found,
        format!(
            "A worker uses up to {} for elements: give it less with --memory-bytes, or give the machine more memory.",
            bytes_text(WORKER_BYTES)
        ),
    )
}

/// Judges the limit on open files.
pub(in super::super) fn files(limits: FilesFacts) -> Finding {
    const CHECK: &str = "open-files";
    let text = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
    let found = format!(
        "the limit is {} (at most {}); a worker needs {FILES_WANTED}",
        text(limits.soft),
        text(limits.hard)
    );
    let cure = if limits.hard.is_none_or(|hard| hard >= FILES_WANTED) {
        "Raise the limit with `ulimit -n 65536` before the start, or with LimitNOFILE=65536 in the unit."
    } else {
        "Raise the hard limit with LimitNOFILE=65536 in the unit, in /etc/security/limits.conf, or with --ulimit nofile=65536."
    };
    match limits.soft {
        Some(soft) if soft < FILES_MIN => Finding::problem(CHECK, found, cure),
        Some(soft) if soft < FILES_WANTED => Finding::warning(CHECK, found, cure),
        Some(_) | None => Finding::ok(CHECK, found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::host::DirectoryFacts;
    use super::super::super::finding::Level;
    use super::*;

    fn shared(free_bytes: u64) -> SharedMemoryFacts {
        SharedMemoryFacts {
            memory_file: Ok(()),
            socket: Ok(()),
            directory: Some(DirectoryFacts {
                path: "/run/sockets".into(),
                exists: false,
                free_bytes: Some(free_bytes),
            }),
        }
    }

    #[test]
    fn shared_memory_needs_its_parts() {
        let good = shared_memory(&shared(1 << 30));
        assert_eq!(good.level, Level::Ok);
        assert!(
            good.found.contains("/run/sockets") && good.found.contains("1.1 GB"),
            "{good:?}"
        );
        assert_eq!(shared_memory(&shared(100)).level, Level::Warning);
        let refused = || Err("refused".to_owned());
        for facts in [
            SharedMemoryFacts {
                memory_file: refused(),
                ..shared(1 << 30)
            },
            SharedMemoryFacts {
                socket: refused(),
                ..shared(1 << 30)
            },
        ] {
            let finding = shared_memory(&facts);
            assert_eq!(finding.level, Level::Warning);
            assert!(finding.found.contains("refused"), "{finding:?}");
        }
    }

    #[test]
    fn a_containers_default_size_is_small() {
        let of = |size_bytes| {
            dev_shm(Some(SpaceFacts {
                size_bytes,
                free_bytes: size_bytes,
            }))
        };
        assert_eq!(of(64 << 20).level, Level::Warning);
        assert_eq!(of(1 << 30).level, Level::Ok);
        assert_eq!(dev_shm(None).level, Level::Ok);
    }

    #[test]
    fn the_smaller_bound_of_memory_counts() {
        let of = |available_bytes, cgroup_left_bytes| {
            memory(Some(MemoryFacts {
                available_bytes,
                cgroup_left_bytes,
            }))
        };
        assert_eq!(of(2 << 30, None).level, Level::Ok);
        assert_eq!(of(2 << 30, Some(3 << 30)).level, Level::Ok);
        assert_eq!(of(2 << 30, Some(1 << 20)).level, Level::Warning);
        assert_eq!(of(1 << 20, None).level, Level::Warning);
        assert_eq!(memory(None).level, Level::Ok);
    }

    #[test]
    fn few_files_are_a_problem() {
        let of = |soft, hard| files(FilesFacts { soft, hard });
        assert_eq!(of(Some(64), Some(1 << 20)).level, Level::Problem);
        assert!(of(Some(64), Some(1 << 20)).cure.contains("ulimit -n"));
        assert!(of(Some(64), Some(64)).cure.contains("hard limit"));
        assert_eq!(of(Some(256), None).level, Level::Warning);
        assert_eq!(of(Some(1024), Some(1024)).level, Level::Ok);
        assert_eq!(of(None, None).level, Level::Ok);
    }
}
