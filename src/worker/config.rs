//! The settings of a worker, with defaults and their reasons.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millstream_control::rpc::SessionConfig;
use millstream_dataplane::worker::{ArenaConfig, CacheLimits, ServerConfig};
use millstream_element::Pool;
use millstream_link::EndpointConfig;
use millstream_pipeline::exec::Functions;
use millstream_pipeline::storage::Storage;

use crate::local::LocalWorkers;

/// The settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The dispatcher, as `host:port`.
    pub dispatcher: String,
    /// The address to serve elements at; by default 127.0.0.1 and any free port.
    pub bind: Option<SocketAddr>,
    /// The address that readers are told, in which `%port%` stands for the bound port. By default it is the
    /// bound address. Where an unspecified one such as 0.0.0.0 is bound, it is this machine's address on the
    /// way to the dispatcher.
    pub advertise: Option<String>,
    /// Labels, none of them empty. One is known: readers elsewhere leave a worker that is tagged `COLOCATED`,
    /// in any case, to those of its process, unless they ask for all.
    pub tags: Vec<String>,
    /// Threads that compute, shared by all tasks; by default one a processor.
    pub threads: Option<usize>,
    /// Functions and sources that datasets may name.
    pub functions: Arc<Functions>,
    /// The storage of files, with its cache; by default there is no cache.
    pub storage: Storage,
    /// The data plane's limits and habits.
    pub server: ServerConfig,
    /// The network's.
    pub endpoint: EndpointConfig,
    /// Patience with the dispatcher.
    pub session: SessionConfig,
    /// Silence towards the dispatcher after which the worker stops its tasks; default 30 s.
    pub lease: Duration,
    /// How long a worker that is being drained waits for readers to take what it has begun; what they have
    /// not taken by then is given up as if it had been killed. Default 25 s: most who start programs kill
    /// them 30 s after they told them to end.
    pub drain_deadline: Duration,
    /// How long a worker whose service was shut down goes on serving what it has produced, until its readers
    /// have gone. Default 1 s: they are told when it is, and one that hangs is not waited for.
    pub shutdown_quiet_period: Duration,
    /// Bytes of elements that wait, are on their way or are kept for trainers, over all tasks; default 1 GiB.
    pub pool_bytes: usize,
    /// Bytes that the buffers of all tasks' pipelines may hold; default twice `pool_bytes`. Each task has an
    /// even share, and 256 MiB at most.
    pub buffers_bytes: Option<usize>,
    /// Bytes of elements that a task with the cross-trainer cache keeps of those, half of `pool_bytes` at
    /// most; default a quarter. All such tasks share that half: with three of them each has a sixth. More
    /// keeps slow trainers longer from missing elements. Takes the place of [`ServerConfig::cache`].
    pub cross_trainer_cache_bytes: Option<u64>,
    /// Bytes of `pool_bytes` that tasks may share with readers of this host, which then need no copy; default
    /// three quarters. 0: nothing, and those readers are served as all others. Takes the place of
    /// [`ServerConfig::arenas`], with the two below.
    pub shm_bytes: Option<usize>,
    /// Bytes of these that one task may share; default half of `pool_bytes`, or all of `shm_bytes` if that is
    /// less.
    pub shm_bytes_per_task: Option<usize>,
    /// Whether that memory is of huge pages where the system has some set aside, taken by each task as a
    /// whole; default no.
    pub huge_pages: bool,
    /// Directory of the socket for readers of this host, for containers that share this directory but no
    /// network namespace. By default the socket has a name without a file. The directory has mode 0700 and is
    /// created if it is missing.
    pub shm_dir: Option<PathBuf>,
    /// The workers among which readers in this process look. Workers and readers with the same value are in
    /// one process.
    pub local: LocalWorkers,
}

impl WorkerConfig {
    /// The defaults, for this dispatcher.
    pub fn new(dispatcher: impl Into<String>) -> Self {
        Self {
            dispatcher: dispatcher.into(),
            bind: None,
            advertise: None,
            tags: Vec::new(),
            threads: None,
            functions: Arc::new(crate::functions::builtin(None)),
            storage: Storage::default(),
            server: ServerConfig::default(),
            endpoint: EndpointConfig::default(),
            session: SessionConfig {
                give_up: Duration::MAX,
                ..SessionConfig::default()
            },
            lease: Duration::from_secs(30),
            drain_deadline: Duration::from_secs(25),
            shutdown_quiet_period: Duration::from_secs(1),
            pool_bytes: 1 << 30,
            buffers_bytes: None,
            cross_trainer_cache_bytes: None,
            shm_bytes: None,
            shm_bytes_per_task: None,
            huge_pages: false,
            shm_dir: None,
            local: LocalWorkers::default(),
        }
    }

    /// Returns the memory that the buffers of all tasks' pipelines may hold.
    pub(super) fn buffers_bytes(&self) -> usize {
        self.buffers_bytes.unwrap_or(self.pool_bytes.saturating_mul(2))
    }

    /// Returns the limits on the memory that tasks keep for the trainers of a cross-trainer cache.
    ///
    /// # Errors
    /// More than the worker can give, in words for the caller.
    pub(super) fn cache(&self) -> Result<CacheLimits, String> {
        let pool_bytes = self.pool_bytes as u64;
        let all_bytes = pool_bytes / 2;
        let task_bytes = self.cross_trainer_cache_bytes.unwrap_or(pool_bytes / 4);
        if task_bytes > all_bytes {
            return Err(format!(
                "cross_trainer_cache_bytes is {task_bytes}, more than {all_bytes}: caches get half of the {pool_bytes} \
                 bytes that the worker has for elements (pool_bytes), which can be raised"
            ));
        }
        Ok(CacheLimits {
            task_bytes,
            all_bytes,
        })
    }

    /// Returns the limits on the memory that tasks share with readers of the host, which is part of the
    /// budget of `pool`.
    ///
    /// # Errors
    /// More than the worker can give, in words for the caller.
    pub(super) fn arenas(&self, pool: &Pool) -> Result<ArenaConfig, String> {
        let pool_bytes = self.pool_bytes;
        let all_bytes = self.shm_bytes.unwrap_or(pool_bytes / 4 * 3);
        if all_bytes > pool_bytes {
            return Err(format!(
                "shm_bytes is {all_bytes}, more than the {pool_bytes} bytes that the worker has for elements (pool_bytes), which \
                 can be raised"
            ));
        }
        let task_bytes = self
            .shm_bytes_per_task
            .unwrap_or_else(|| all_bytes.min(pool_bytes / 2));
        if task_bytes > all_bytes || task_bytes == 0 && all_bytes > 0 {
            return Err(format!(
                "shm_bytes_per_task is {task_bytes}; it can be 1 to {all_bytes}, which all tasks have together (shm_bytes)"
            ));
        }
        Ok(ArenaConfig {
            task_bytes,
            all_bytes,
            huge_pages: self.huge_pages,
            pool: Some(pool.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arenas(shm_bytes: Option<usize>, per_task: Option<usize>) -> Result<(usize, usize), String> {
        let config = WorkerConfig {
            pool_bytes: 1000,
            shm_bytes,
            shm_bytes_per_task: per_task,
            ..WorkerConfig::new("127.0.0.1:1")
        };
        let arenas = config.arenas(&Pool::new(config.pool_bytes))?;
        Ok((arenas.all_bytes, arenas.task_bytes))
    }

    #[test]
    fn shared_memory_is_part_of_the_workers() {
        assert_eq!(arenas(None, None), Ok((750, 500)));
        assert_eq!(arenas(Some(300), None), Ok((300, 300)));
        assert_eq!(arenas(Some(1000), Some(700)), Ok((1000, 700)));
        assert_eq!(arenas(Some(0), None), Ok((0, 0)));
        for (shm_bytes, per_task, said) in [
            (Some(1001), None, "shm_bytes is 1001, more than the 1000"),
            (None, Some(751), "shm_bytes_per_task is 751; it can be 1 to 750"),
            (None, Some(0), "shm_bytes_per_task is 0"),
        ] {
            let error = arenas(shm_bytes, per_task).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
