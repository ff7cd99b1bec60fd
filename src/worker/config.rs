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
use millstream_trace::Tracer;

use crate::local::LocalWorkers;

/// The settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The address of the dispatcher, as `host:port`.
    pub dispatcher: String,
    /// The address to serve elements at; the default is 127.0.0.1 with any free port.
    pub bind: Option<SocketAddr>,
    /// The address that readers receive; `%port%` stands for the bound port. The default is the bound
    /// address. If the bound address is unspecified, such as 0.0.0.0, the default is the address from which
    /// this machine reaches the dispatcher.
    pub advertise: Option<String>,
    /// The labels of the worker, none of them empty. A worker with the tag `COLOCATED`, in upper or lower
    /// case, serves only the readers in its own process. Readers in other processes read from a `COLOCATED`
    /// worker only if they ask for all workers.
    pub tags: Vec<String>,
    /// The number of threads that compute elements, shared by all tasks. The default is the number of
    /// processors.
    pub threads: Option<usize>,
    /// The functions and sources that datasets may name.
    pub functions: Arc<Functions>,
    /// The storage of files, with its cache. The default has no cache.
    pub storage: Storage,
    /// The limits and settings of the data plane.
    pub server: ServerConfig,
    /// The limits and timeouts of the network.
    pub endpoint: EndpointConfig,
    /// The timeouts of the session with the dispatcher.
    pub session: SessionConfig,
    /// The time without contact to the dispatcher after which the worker stops its tasks; default 30 s.
    pub lease: Duration,
    /// The time for which a draining worker waits for readers to take the elements that it has begun. After
    /// this time, the worker ends like a killed worker. Default 25 s: most supervisors kill a process 30 s
    /// after they asked it to end.
    pub drain_deadline: Duration,
    /// The time for which a worker serves its buffered elements after its service was shut down. The worker
    /// ends earlier if all its readers have disconnected. Default 1 s: readers learn of the shutdown at the
    /// same time, and the worker does not wait longer for a reader that hangs.
    pub shutdown_quiet_period: Duration,
    /// The maximum bytes of elements that are buffered, in flight, or kept for trainers, over all tasks;
    /// default 1 GiB.
    pub pool_bytes: usize,
    /// The maximum bytes in the buffers of all tasks' pipelines; default twice `pool_bytes`. Each task has an
    /// even share, and at most 64 MiB for each thread of the worker, or 256 MiB if that is more.
    pub buffers_bytes: Option<usize>,
    /// The bytes of `pool_bytes` that a task with the cross-trainer cache keeps, at most half of
    /// `pool_bytes`; default a quarter of `pool_bytes`. All such tasks share that half: with three tasks,
    /// each task has a sixth. With more bytes, slow trainers miss elements later. Replaces
    /// [`ServerConfig::cache`].
    pub cross_trainer_cache_bytes: Option<u64>,
    /// The bytes of `pool_bytes` that tasks may share with readers on this host, which then read without a
    /// copy; default three quarters. With 0, readers on this host use the network. Replaces
    /// [`ServerConfig::arenas`], together with `shm_bytes_per_task` and `huge_pages`.
    pub shm_bytes: Option<usize>,
    /// The bytes of `shm_bytes` that one task may share; default half of `pool_bytes`, or all of `shm_bytes`
    /// if that is less.
    pub shm_bytes_per_task: Option<usize>,
    /// `true` if shared memory uses huge pages when the system has reserved some; default `false`. Each task
    /// then reserves its whole share at once.
    pub huge_pages: bool,
    /// The directory of the socket for readers on this host. Containers that share a directory but no network
    /// namespace need this setting. By default the socket has a name without a file. The worker creates a
    /// missing directory, with mode 0700.
    pub shm_dir: Option<PathBuf>,
    /// The workers that readers in this process can find. Workers and readers with the same value count as in
    /// one process.
    pub local: LocalWorkers,
    /// The tracer of sampled splits; default off.
    pub tracer: Tracer,
}

impl WorkerConfig {
    /// Returns the default settings for a worker of this dispatcher.
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
            tracer: Tracer::default(),
        }
    }

    /// Returns the maximum bytes in the buffers of all tasks' pipelines.
    pub(super) fn buffers_bytes(&self) -> usize {
        self.buffers_bytes.unwrap_or(self.pool_bytes.saturating_mul(2))
    }

    /// Returns the memory limits of the cross-trainer cache.
    ///
    /// # Errors
    /// The settings ask for more bytes than the worker has; the text is for the caller.
    pub(super) fn cache(&self) -> Result<CacheLimits, String> {
        let pool_bytes = self.pool_bytes as u64;
        let all_bytes = pool_bytes / 2;
        let task_bytes = self.cross_trainer_cache_bytes.unwrap_or(pool_bytes / 4);
        if task_bytes > all_bytes {
            return Err(format!(
                "cross_trainer_cache_bytes is {task_bytes}, more than {all_bytes}: caches may use half of the {pool_bytes} \
                 bytes that the worker has for elements; raise pool_bytes"
            ));
        }
        Ok(CacheLimits {
            task_bytes,
            all_bytes,
        })
    }

    /// Returns the limits on the memory that tasks share with readers on the host. The memory is part of the
    /// budget of `pool`.
    ///
    /// # Errors
    /// The settings ask for more bytes than the worker has; the text is for the caller.
    pub(super) fn arenas(&self, pool: &Pool) -> Result<ArenaConfig, String> {
        let pool_bytes = self.pool_bytes;
        let all_bytes = self.shm_bytes.unwrap_or(pool_bytes / 4 * 3);
        if all_bytes > pool_bytes {
            return Err(format!(
                "shm_bytes is {all_bytes}, more than the {pool_bytes} bytes that the worker has for elements; raise \
                 pool_bytes"
            ));
        }
        let task_bytes = self
            .shm_bytes_per_task
            .unwrap_or_else(|| all_bytes.min(pool_bytes / 2));
        if task_bytes > all_bytes || task_bytes == 0 && all_bytes > 0 {
            return Err(format!(
                "shm_bytes_per_task is {task_bytes}; expected 1 to {all_bytes}, the bytes of all tasks together (shm_bytes)"
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
            (None, Some(751), "shm_bytes_per_task is 751; expected 1 to 750"),
            (None, Some(0), "shm_bytes_per_task is 0"),
        ] {
            let error = arenas(shm_bytes, per_task).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
