//! The asynchronous interface of the cache. Reads and writes run on a bounded number of threads for disk
//! work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use crate::storage::config::CacheConfig;

use super::folder::Folder;
use super::key::{KeptVersion, Key, Place};

/// The maximum number of blocks that wait to be written. If the disk is slower than the store, further blocks
/// are not cached.
const WRITES_MAX: usize = 16;
/// The maximum number of bytes of the record of an object's version.
const VERSION_BYTES_MAX: u64 = 4096;

/// The cache of blocks in a directory. The cache needs a runtime with threads for blocking work.
#[derive(Debug)]
pub(in crate::storage) struct Cache {
    folder: Arc<Folder>,
    writes: Arc<Writes>,
}

/// The number of blocks that wait to be written.
#[derive(Debug, Default)]
struct Writes {
    count: AtomicUsize,
    /// The notification that no write is pending.
    none: Notify,
}

impl Writes {
    fn begin(&self) -> bool {
        // `Relaxed` ordering suffices, because the counter does not order other memory accesses.
        let begun = self.count.fetch_add(1, Ordering::Relaxed) < WRITES_MAX;
        if !begun {
            self.end();
        }
        begun
    }

    fn end(&self) {
        if self.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.none.notify_waiters();
        }
    }
}

impl Cache {
    /// Opens the directory, and creates it if it is missing. Blocks.
    ///
    /// # Errors
    /// The reason, for the caller: the directory cannot be created or written.
    pub(in crate::storage) fn open(config: &CacheConfig) -> Result<Cache, String> {
        let folder = Folder::open(&config.directory, config.limit_bytes).map_err(|error| {
            let directory = config.directory.display();
            format!("cannot use the cache directory {directory}: {error}; the directory must belong to this user and be writable")
        })?;
        Ok(Cache {
            folder: Arc::new(folder),
            writes: Arc::default(),
        })
    }

    /// Returns block `index` of the object `key`, which has `size` bytes; `None` if the block is not cached.
    pub(in crate::storage) async fn block(&self, key: &Key, index: u64, size: u64) -> Option<Bytes> {
        let bytes = self.read(key.block(index), size).await?;
        (bytes.len() as u64 == size).then_some(bytes)
    }

    /// Queues block `index` of the object `key` to be written to the cache.
    pub(in crate::storage) fn keep_block(&self, key: &Key, index: u64, bytes: &Bytes) {
        self.write(key.block(index), bytes.clone());
    }

    /// Returns the version of the object `place` at its last opening; `None` if no version is cached.
    pub(in crate::storage) async fn version(&self, place: &Place) -> Option<KeptVersion> {
        let bytes = self.read(place.description(), VERSION_BYTES_MAX).await?;
        minicbor::decode(&bytes).ok()
    }

    /// Queues the version of the object `place` to be written to the cache.
    pub(in crate::storage) fn keep_version(&self, place: &Place, version: &KeptVersion) {
        if let Ok(bytes) = minicbor::to_vec(version)
            && bytes.len() as u64 <= VERSION_BYTES_MAX
        {
            self.write(place.description(), Bytes::from(bytes));
        }
    }

    /// Waits until all queued writes are done.
    pub(in crate::storage) async fn written(&self) {
        loop {
            let none = self.writes.none.notified();
            if self.writes.count.load(Ordering::Relaxed) == 0 {
                return;
            }
            none.await;
        }
    }

    async fn read(&self, description: String, bytes_max: u64) -> Option<Bytes> {
        let folder = Arc::clone(&self.folder);
        let read = spawn_blocking(move || folder.read(&description, bytes_max)).await;
        read.ok().flatten()
    }

    fn write(&self, description: String, bytes: Bytes) {
        if !self.writes.begin() {
            return;
        }
        let (folder, writes) = (Arc::clone(&self.folder), Arc::clone(&self.writes));
        spawn_blocking(move || {
            folder.write(&description, &bytes);
            writes.end();
        });
    }
}
