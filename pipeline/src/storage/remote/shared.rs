//! The state that open objects share: the clients of stores, the thread, the memory limit and the cache.

use std::sync::Arc;

use crate::storage::access::Access;
use crate::storage::cache::Cache;
use crate::storage::config::StorageConfig;

use super::fetch::Bounds;
use super::memory::Memory;
use super::runtime::Runtime;
use super::stores::Stores;

/// The state that all open objects share.
#[derive(Debug)]
pub(in crate::storage) struct Remote {
    config: StorageConfig,
    runtime: Runtime,
    stores: Stores,
    memory: Arc<Memory>,
    parts: Parts,
}

/// The parts of the shared state that requests need.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub(super) bounds: Bounds,
    pub(super) cache: Option<Arc<Cache>>,
}

impl Remote {
    /// Starts the thread for requests.
    ///
    /// # Errors
    /// The reason, as text, if the thread cannot be started.
    pub(in crate::storage) fn start(
        config: &StorageConfig,
        access: &Access,
        cache: Option<Arc<Cache>>,
    ) -> Result<Remote, String> {
        let goodbye = cache.clone();
        let runtime = Runtime::start(async move {
            if let Some(cache) = goodbye {
                cache.written().await;
            }
        });
        let runtime = runtime.map_err(|error| format!("cannot start the thread for storage: {error}"))?;
        Ok(Remote {
            runtime,
            stores: Stores::new(config.clone(), access.clone()),
            memory: Memory::new(config.memory_bytes),
            parts: Parts {
                bounds: Bounds::of(config),
                cache,
            },
            config: config.clone(),
        })
    }

    pub(super) fn stores(&self) -> &Stores {
        &self.stores
    }

    pub(super) fn config(&self) -> &StorageConfig {
        &self.config
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(super) fn parts(&self) -> Parts {
        self.parts.clone()
    }
}
