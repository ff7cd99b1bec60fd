//! The cache as requests see it: reads and writes on threads for work on a disk, bounded in number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use crate::storage::config::CacheConfig;

use super::folder::Folder;
use super::key::{KeptVersion, Key, Place};

/// Blocks that wait to be written. When the disk is slower than the store, further ones are not kept.
const WRITES_MAX: usize = 16;
/// Bytes of the record of an object's version.
const VERSION_BYTES_MAX: u64 = 4096;

/// A directory of kept blocks. To be used on a runtime that has threads for work on a disk.
#[derive(Debug)]
pub(in crate::storage) struct Cache {
    folder: Arc<Folder>,
    writes: Arc<Writes>,
}

/// Blocks that wait to be written.
#[derive(Debug, Default)]
struct Writes {
    count: AtomicUsize,
    /// Told when there are none.
    none: Notify,
}

impl Writes {
    fn begin(&self) -> bool {
        // The number guards nothing but itself.
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
    /// Opens the directory, which is made if it is missing. Blocks.
    ///
    /// # Errors
    /// The reason for the caller: it cannot be made, or not be written.
    pub(in crate::storage) fn open(config: &CacheConfig) -> Result<Cache, String> {
        let folder = Folder::open(&config.directory, config.limit_bytes).map_err(|error| {
            let directory = config.directory.display();
            format!("the cache's directory {directory} cannot be used: {error}; it must be of this user and writable")
        })?;
        Ok(Cache {
            folder: Arc::new(folder),
            writes: Arc::default(),
        })
    }

    /// Block `index` of `key`, of `size` bytes, if it is here.
    pub(in crate::storage) async fn block(&self, key: &Key, index: u64, size: u64) -> Option<Bytes> {
        let bytes = self.read(key.block(index), size).await?;
        (bytes.len() as u64 == size).then_some(bytes)
    }

    /// Keeps block `index` of `key`, sooner or later.
    pub(in crate::storage) fn keep_block(&self, key: &Key, index: u64, bytes: &Bytes) {
        self.write(key.block(index), bytes.clone());
    }

    /// The version that the object `place` had when it was opened last.
    pub(in crate::storage) async fn version(&self, place: &Place) -> Option<KeptVersion> {
        let bytes = self.read(place.description(), VERSION_BYTES_MAX).await?;
        minicbor::decode(&bytes).ok()
    }

    /// Keeps the version of the object `place`, sooner or later.
    pub(in crate::storage) fn keep_version(&self, place: &Place, version: &KeptVersion) {
        if let Ok(bytes) = minicbor::to_vec(version)
            && bytes.len() as u64 <= VERSION_BYTES_MAX
        {
            self.write(place.description(), Bytes::from(bytes));
        }
    }

    /// Waits until everything is written that was to be kept.
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
