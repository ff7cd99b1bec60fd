//! An open object: its bytes in blocks, fetched when they are read and, for a reader that goes straight on,
//! before.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use tokio::task::AbortHandle;

use crate::exec::Cancel;
use crate::storage::cache::Key;
use crate::storage::error::StorageError;

use super::ahead::ReadAhead;
use super::blocks::{Blocks, Duty};
use super::failure::Failure;
use super::fetch::{self, Version};
use super::shared::{Parts, Remote};
use super::stores::Store;

/// An open object. A clone reads the same blocks, at a pace of its own.
#[derive(Debug, Clone)]
pub(in crate::storage) struct RemoteFile {
    open: Arc<Open>,
    ahead: ReadAhead,
}

/// State that the clones share.
#[derive(Debug)]
struct Open {
    remote: Arc<Remote>,
    source: Arc<Source>,
    blocks: Arc<Blocks>,
    /// Path without secrets, for messages.
    shown: Arc<str>,
    cancel: Option<Cancel>,
}

/// Source of the blocks.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) store: Store,
    pub(super) key: Path,
    pub(super) version: Version,
    /// Key of its blocks in the cache, if they are cached.
    pub(super) kept_as: Option<Key>,
    pub(super) block_bytes: u64,
}

impl RemoteFile {
    /// The object `source`, which begins with `first` if that is known.
    pub(super) fn new(
        remote: &Arc<Remote>,
        source: Source,
        first: Option<Bytes>,
        shown: &Arc<str>,
        cancel: Option<&Cancel>,
    ) -> RemoteFile {
        let config = remote.config();
        // Those ahead, the one that is read and the one before, which the next read may begin in.
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

    /// Reads at `offset` for a reader that may go straight on.
    pub(in crate::storage) fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, StorageError> {
        let ahead = self.ahead.reads(offset);
        let (read, has_waited) = self.open.read(offset, into, ahead)?;
        if has_waited {
            self.ahead.waited();
        }
        let end = offset.saturating_add(read as u64);
        self.ahead.has_read(end);
        // Clones may be anywhere.
        if ahead > 0 && Arc::strong_count(&self.open) == 1 {
            self.open
                .blocks
                .drop_before(offset / self.open.source.block_bytes);
        }
        Ok(read)
    }

    /// Reads at `offset`.
    pub(in crate::storage) fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, StorageError> {
        self.open.read(offset, into, 0).map(|(read, _)| read)
    }
}

impl Open {
    /// Reads at `offset` what is in one block, having asked for all blocks of `into` and those `ahead`;
    /// whether it had to wait.
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

    /// Block `index`, from the cache if it has it, else from the store and then for the cache.
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
