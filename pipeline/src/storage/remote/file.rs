//! An open object, which is read in blocks. A block is fetched when it is read, or prefetched for a
//! sequential reader.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use tokio::task::AbortHandle;

use crate::exec::Cancel;
use crate::storage::cache::Key;
use crate::storage::error::StorageError;
use crate::storage::version::FileVersion;

use super::ahead::ReadAhead;
use super::blocks::{Blocks, Duty};
use super::failure::Failure;
use super::fetch::{self, Version};
use super::shared::{Parts, Remote};
use super::stores::Store;

/// An open object. A clone shares the blocks, and has a read-ahead of its own.
#[derive(Debug, Clone)]
pub(in crate::storage) struct RemoteFile {
    open: Arc<Open>,
    ahead: ReadAhead,
}

/// The state that the clones share.
#[derive(Debug)]
struct Open {
    remote: Arc<Remote>,
    source: Arc<Source>,
    blocks: Arc<Blocks>,
    /// The path without secrets, for messages.
    shown: Arc<str>,
    cancel: Option<Cancel>,
}

/// The object whose blocks are read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) store: Store,
    pub(super) key: Path,
    pub(super) version: Version,
    /// The key of the object's blocks in the cache; `None` if its blocks are not cached.
    pub(super) kept_as: Option<Key>,
    pub(super) block_bytes: u64,
}

impl RemoteFile {
    /// Opens the object `source`. `first` is the first block, if it was fetched already.
    pub(super) fn new(
        remote: &Arc<Remote>,
        source: Source,
        first: Option<Bytes>,
        shown: &Arc<str>,
        cancel: Option<&Cancel>,
    ) -> RemoteFile {
        let config = remote.config();
        // The extra blocks are the block that is read, and the block before it, in which the next read may
        // begin.
        let blocks = Blocks::new(Arc::clone(remote.memory()), config.ahead_blocks as usize + 2);
        if let Some(first) = first {
            blocks.put(0, first);
        }
        RemoteFile {
            ahead: ReadAhead::new(config.ahead_blocks),
            open: Arc::new(Open {
                remote: Arc::clone(remote),
                source: Arc::new(source),
                blocks,
                shown: Arc::clone(shown),
                cancel: cancel.cloned(),
            }),
        }
    }

    pub(in crate::storage) fn len(&self) -> u64 {
        self.open.source.version.size_bytes
    }

    /// Returns the version of the object, all of whose bytes belong to this version.
    pub(in crate::storage) fn version(&self) -> FileVersion {
        self.open.source.version.of_file()
    }

    /// Reads at `offset`, and prefetches blocks if the reader is sequential.
    pub(in crate::storage) fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, StorageError> {
        let ahead = self.ahead.reads(offset);
        let (read, has_waited) = self.open.read(offset, into, ahead)?;
        if has_waited {
            self.ahead.waited();
        }
        let end = offset.saturating_add(read as u64);
        self.ahead.has_read(end);
        // Other clones may read earlier blocks.
        if ahead > 0 && Arc::strong_count(&self.open) == 1 {
            self.open
                .blocks
                .drop_before(offset / self.open.source.block_bytes);
        }
        Ok(read)
    }

    /// Reads at `offset`, without prefetching.
    pub(in crate::storage) fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, StorageError> {
        self.open.read(offset, into, 0).map(|(read, _)| read)
    }
}

impl Open {
    /// Reads the part of `into` that is in one block, at `offset`. Requests all blocks of `into` and the next
    /// `ahead` blocks first. Also returns whether the caller had to wait.
    fn read(&self, offset: u64, into: &mut [u8], ahead: u64) -> Result<(usize, bool), StorageError> {
        let Source {
            version, block_bytes, ..
        } = &*self.source;
        let end = offset.saturating_add(into.len() as u64).min(version.size_bytes);
        if offset >= end {
            return Ok((0, false));
        }
        let index = offset / block_bytes;
        let count = version.size_bytes.div_ceil(*block_bytes);
        let last = ((end - 1) / block_bytes).min(index + self.remote.config().ahead_blocks);
        let upto = last.max(index.saturating_add(ahead)).saturating_add(1).min(count);
        let answer = self.blocks.get(
            index,
            index + 1..upto,
            self.cancel.as_ref(),
            &|index| self.source.size_of(index),
            &|duty| self.bring(duty),
        );
        let (block, has_waited) = answer.map_err(|failure| {
            let begin = index * block_bytes;
            let range = begin..begin + self.source.size_of(index);
            StorageError::read(failure.kind, &self.shown, range, failure.reason)
        })?;
        let from = (offset % block_bytes) as usize;
        let bytes = block.get(from..).unwrap_or_default();
        let read = bytes.len().min(into.len());
        into[..read].copy_from_slice(&bytes[..read]);
        Ok((read, has_waited))
    }

    fn bring(&self, duty: Duty) -> AbortHandle {
        let (remote, source) = (self.remote.parts(), Arc::clone(&self.source));
        self.remote.runtime().begin(async move {
            let outcome = source.block(&remote, duty.index()).await;
            duty.fulfil(outcome);
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.blocks.clear();
    }
}

impl Source {
    fn size_of(&self, index: u64) -> u64 {
        let rest = self.version.size_bytes.saturating_sub(index * self.block_bytes);
        rest.min(self.block_bytes)
    }

    /// Returns block `index` from the cache, or from the store. A block from the store is queued for the
    /// cache.
    async fn block(&self, parts: &Parts, index: u64) -> Result<Bytes, Failure> {
        let size = self.size_of(index);
        let kept = parts.cache.as_ref().zip(self.kept_as.as_ref());
        if let Some((cache, key)) = kept
            && let Some(bytes) = cache.block(key, index, size).await
        {
            return Ok(bytes);
        }
        let begin = index * self.block_bytes;
        let (objects, version) = (&*self.store.objects, &self.version);
        let bytes = fetch::range(objects, &self.key, begin..begin + size, version, parts.bounds).await?;
        if let Some((cache, key)) = kept {
            cache.keep_block(key, index, &bytes);
        }
        Ok(bytes)
    }
}
