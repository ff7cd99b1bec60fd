//! The load of a worker: its memory and its processes.

use millstream_control::WorkerLoad;
use millstream_dataplane::worker::Server;
use millstream_pyworker::python_processes;

/// Returns the load of this process with its server of the data plane.
pub(super) fn load(server: &Server) -> WorkerLoad {
    WorkerLoad {
        memory_bytes: memory_bytes(),
        shared_memory_bytes: server.arenas().held_bytes,
        cache_bytes: server.cache().bytes,
        python_processes: python_processes(),
    }
}

/// Returns the resident memory of this process, if the system states it.
fn memory_bytes() -> Option<u64> {
    resident_bytes(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Returns the resident memory in the text of `/proc/PID/status`.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmSize:\t  99 kB\nVmRSS:\t    2048 kB\nThreads:\t1\n";
        assert_eq!(resident_bytes(status), Some(2 << 20));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
    }
}
