//! The store on etcd: a log of commits, and the records to which the commits are applied later.
//!
//! A commit is one transaction: it writes the changes into the log and moves the head. Two conditions guard
//! every transaction of the store: the leader's key is the one of this process, and the head is where this
//! process left it. The transactions of an earlier leader therefore fail, and so do late copies of
//! transactions before the latest commit (C17.2). A commit that is too large for one request writes its other
//! parts first, which count only once the head has moved.
//!
//! Records change often, so applying many commits together writes each record once. The transactions of this
//! step may be cut off anywhere, because the log still holds all of their changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, DeleteOptions, ResponseHeader, TxnOp, TxnResponse};
use tokio::time::Instant;

use super::batch::{self, Changes};
use super::error::EtcdError;
use super::keys::{Keys, end_of};
use super::lease::{Leadership, deposed};
use super::members::{Members, PATIENCE, pairs};
use super::reading::{self, Head};
use crate::dispatcher::{Change, Record};
use crate::store::{Store, StoreError};

/// Maximum bytes of the values of one transaction. etcd takes requests of 1.5 MiB by default.
const PART_BYTES: usize = 1 << 20;
/// Maximum number of operations in one transaction. etcd takes 128 by default.
const OPERATIONS_MAX: usize = 100;
/// Maximum bytes of one value below `records` and `pieces`. Values are small, so that pages have a bounded
/// size at a fixed number of values.
const PIECE_BYTES: usize = 64 << 10;
/// The number of commits, and their bytes, after which they are applied.
const UNAPPLIED_MAX: u64 = 64;
const UNAPPLIED_BYTES_MAX: usize = 4 << 20;
/// The bytes of writes after which etcd forgets earlier revisions. etcd keeps all revisions otherwise, until
/// it has no space.
const COMPACT_EVERY_BYTES: usize = 32 << 20;

/// The time within which etcd must store that the service was shut down.
const END_DEADLINE: Duration = Duration::from_secs(2);
/// The time within which etcd must end the lease of a leader that stops. The lease ends by itself later.
const RELEASE_DEADLINE: Duration = Duration::from_secs(1);

/// The store of the leader.
#[derive(Debug)]
pub(super) struct EtcdStore {
    members: Arc<Members>,
    keys: Keys,
    leadership: Leadership,
    head: Head,
    applied: u64,
    /// The changes of the commits that are not yet applied, and their bytes.
    unapplied: Changes,
    unapplied_bytes: usize,
    /// The numbers of further pieces of the records that have some.
    pieces: BTreeMap<Vec<u8>, u32>,
    /// True if parts of an unfinished commit may stand after the head.
    has_leftovers: bool,
    bytes_since_compaction: usize,
}

/// The outcome of a transaction that moves the head.
enum HeadMove {
    /// The head has moved.
    Done,
    /// The head was elsewhere, at this position.
    Found(Head),
}

impl EtcdStore {
    /// Returns the store of this leader. The caller loads it before the first commit.
    pub(super) fn new(members: Arc<Members>, keys: Keys, leadership: Leadership) -> EtcdStore {
        EtcdStore {
            members,
            keys,
            leadership,
            head: Head::default(),
            applied: 0,
            unapplied: Changes::new(),
            unapplied_bytes: 0,
            pieces: BTreeMap::new(),
            has_leftovers: true,
            bytes_since_compaction: 0,
        }
    }

    /// Reads all records, and takes over the log from the earlier leader.
    async fn read(&mut self) -> Result<Vec<Record>, EtcdError> {
        let contents = tokio::select! {
            contents = reading::read_again(&self.members, &self.keys) => contents?,
            lost = self.leadership.lost() => return Err(lost),
        };
        self.head = contents.head;
        self.applied = contents.applied;
        self.unapplied_bytes = bytes_of(&contents.unapplied);
        self.unapplied = contents.unapplied;
        self.pieces = contents.pieces;
        // The first commit removes them, so that the new leader answers earlier.
        self.has_leftovers = true;
        Ok(contents.records)
    }

    /// Appends a commit to the log.
    async fn append(&mut self, bytes: &[u8]) -> Result<(), EtcdError> {
        self.leadership.held().await?;
        self.remove_leftovers().await?;
        self.has_leftovers = true;
        let number = self.head.number + 1;
        let mut parts: Vec<&[u8]> = bytes.chunks(PART_BYTES).collect();
        let last = parts.pop().unwrap_or_default();
        for (index, part) in parts.iter().enumerate() {
            let put = TxnOp::put(self.keys.part(number, index), *part, None);
            self.write(vec![put]).await?;
        }
        let put = TxnOp::put(self.keys.part(number, parts.len()), last, None);
        match self.move_head(number, put).await? {
            HeadMove::Done => {}
            HeadMove::Found(_) => return Err(self.foreign_head()),
        }
        self.has_leftovers = false;
        Ok(())
    }

    /// Removes the parts after the head, which an unfinished commit has left. Also gives the head a new
    /// revision, so that late copies of the unfinished commit's transactions fail.
    async fn remove_leftovers(&mut self) -> Result<(), EtcdError> {
        while self.has_leftovers {
            let Head { number, .. } = self.head;
            let range = DeleteOptions::new().with_range(end_of(&self.keys.log()));
            let delete = TxnOp::delete(self.keys.commit(number + 1), Some(range));
            match self.move_head(number, delete).await? {
                HeadMove::Done => self.has_leftovers = false,
                // An earlier commit of this leader was carried out although its caller learned of an error.
                // The caller commits the same changes again.
                HeadMove::Found(found)
                    if found.leader == self.leadership.revision()
                        && (number..=number + 1).contains(&found.number) =>
                {
                    self.head = found;
                }
                HeadMove::Found(_) => return Err(self.foreign_head()),
            }
        }
        Ok(())
    }

    /// Moves the head to the commit with this number, together with another operation.
    async fn move_head(&mut self, number: u64, operation: TxnOp) -> Result<HeadMove, EtcdError> {
        let next = Head {
            number,
            leader: self.leadership.revision(),
            nonce: rand::random(),
            revision: 0,
        };
        let put = TxnOp::put(self.keys.head(), next.to_text(), None);
        let done = self.at_head(vec![operation, put]).await?;
        if done.succeeded() {
            let revision = done.header().map_or(0, ResponseHeader::revision);
            self.head = Head { revision, ..next };
            return Ok(HeadMove::Done);
        }
        let found = self.found_head(&done)?;
        if found.nonce != next.nonce {
            return Ok(HeadMove::Found(found));
        }
        // An earlier copy of this transaction was carried out without an answer.
        self.head = found;
        Ok(HeadMove::Done)
    }

    /// Carries out operations that may be repeated, if this process still leads.
    async fn write(&self, operations: Vec<TxnOp>) -> Result<(), EtcdError> {
        let done = self.at_head(operations).await?;
        if done.succeeded() {
            return Ok(());
        }
        self.found_head(&done)?;
        Err(self.foreign_head())
    }

    /// Carries out operations if this process leads and the head is where this process left it. Reads the
    /// leader's key and the head otherwise. Each commit moves the head, so a late copy of the operations has
    /// no effect after the next commit.
    async fn at_head(&self, operations: Vec<TxnOp>) -> Result<TxnResponse, EtcdError> {
        let is_unmoved = Compare::mod_revision(self.keys.head(), CompareOp::Equal, self.head.revision);
        let look = vec![
            TxnOp::get(self.keys.leader(), None),
            TxnOp::get(self.keys.head(), None),
        ];
        self.leadership.guarded(vec![is_unmoved], operations, look).await
    }

    /// Returns the head that made a transaction fail, if this process still leads.
    fn found_head(&self, failed: &TxnResponse) -> Result<Head, EtcdError> {
        let mut pairs = pairs(failed);
        let (leader, head) = (pairs.next().flatten(), pairs.next().flatten());
        if leader.is_none_or(|leader| leader.create_revision() != self.leadership.revision()) {
            return Err(deposed());
        }
        let head = head.and_then(|pair| Head::parse(&pair));
        head.ok_or_else(|| EtcdError::damaged(&self.members.config, "its head is gone"))
    }

    fn foreign_head(&self) -> EtcdError {
        EtcdError::damaged(&self.members.config, "another program moved its head")
    }

    /// Applies all commits of the log to the records, and removes them from the log.
    async fn apply(&mut self) -> Result<(), EtcdError> {
        let mut group = Vec::new();
        let mut group_bytes = 0;
        let mut shrunk = Vec::new();
        for (key, record) in &self.unapplied {
            let had = self.pieces.get(key).copied().unwrap_or(0);
            let mut pieces = 0;
            if let Some(bytes) = record {
                let count = u32::try_from(bytes.len().div_ceil(PIECE_BYTES).max(1)).unwrap_or(u32::MAX);
                pieces = count - 1;
                if pieces > had {
                    // A transaction that fails may have stored them.
                    self.pieces.insert(key.clone(), pieces);
                }
                let mut chunks = bytes.chunks(PIECE_BYTES);
                let first = chunks.next().unwrap_or_default();
                let first = [&count.to_le_bytes(), first].concat();
                let firsts = std::iter::once((self.keys.record(key), first));
                let further = (1..).zip(chunks);
                let further = further.map(|(index, piece)| (self.keys.piece(key, index), piece.to_vec()));
                for (key, value) in firsts.chain(further) {
                    if group.len() + 2 >= OPERATIONS_MAX || group_bytes + value.len() > PART_BYTES {
                        self.write(std::mem::take(&mut group)).await?;
                        group_bytes = 0;
                    }
                    group_bytes += value.len();
                    group.push(TxnOp::put(key, value, None));
                }
            } else {
                group.push(TxnOp::delete(self.keys.record(key), None));
            }
            if had > pieces {
                shrunk.push((key.clone(), pieces));
                let from = self.keys.piece(key, pieces + 1);
                let end = end_of(&self.keys.piece(key, had));
                let range = DeleteOptions::new().with_range(end);
                group.push(TxnOp::delete(from, Some(range)));
            }
            if group.len() + 2 >= OPERATIONS_MAX {
                self.write(std::mem::take(&mut group)).await?;
                group_bytes = 0;
            }
        }
        if !group.is_empty() {
            self.write(group).await?;
        }
        for (key, pieces) in shrunk {
            if pieces > 0 {
                self.pieces.insert(key, pieces);
            } else {
                self.pieces.remove(&key);
            }
        }
        self.forget_log().await
    }

    /// Removes the applied commits from the log.
    async fn forget_log(&mut self) -> Result<(), EtcdError> {
        let number = self.head.number;
        let range = DeleteOptions::new().with_range(self.keys.commit(number + 1));
        let operations = vec![
            TxnOp::put(self.keys.applied(), number.to_string(), None),
            TxnOp::delete(self.keys.log(), Some(range)),
        ];
        self.write(operations).await?;
        self.applied = number;
        self.bytes_since_compaction += self.unapplied_bytes;
        self.unapplied.clear();
        self.unapplied_bytes = 0;
        if self.bytes_since_compaction >= COMPACT_EVERY_BYTES {
            self.bytes_since_compaction = 0;
            self.members
                .spawn(compact(Arc::clone(&self.members), self.head.revision));
        }
        Ok(())
    }

    /// Applies the log if it is long. A failure leaves the log as it is, because the commits are stored.
    async fn apply_if_due(&mut self) {
        let is_long = self.head.number - self.applied >= UNAPPLIED_MAX;
        if (is_long || self.unapplied_bytes >= UNAPPLIED_BYTES_MAX)
            && let Err(error) = self.apply().await
        {
            tracing::warn!(%error, "the log of commits in etcd was not shortened");
        }
    }
}

/// Lets etcd forget the revisions before this one.
async fn compact(members: Arc<Members>, revision: i64) {
    let limits = (Instant::now() + PATIENCE * 5, PATIENCE * 5);
    let compacted = members.ask(limits, |mut client| async move {
        client.compact(revision, None).await
    });
    if let Err(error) = compacted.await {
        tracing::debug!(%error, "etcd did not compact its history");
    }
}

fn bytes_of(changes: &Changes) -> usize {
    let bytes = |(key, record): (&Vec<u8>, &Option<Vec<u8>>)| key.len() + record.as_ref().map_or(0, Vec::len);
    changes.iter().map(bytes).sum()
}

impl Store for EtcdStore {
    fn load(&mut self) -> Result<Vec<Record>, StoreError> {
        let members = Arc::clone(&self.members);
        Ok(members.block_on(self.read())?)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let members = Arc::clone(&self.members);
        let changes = batch::encoded(changes);
        members.block_on(async {
            if changes.is_empty() {
                return self.leadership.held().await;
            }
            let bytes = batch::encode(&changes);
            self.append(&bytes).await?;
            self.bytes_since_compaction += bytes.len();
            self.unapplied_bytes += bytes.len();
            self.unapplied.extend(changes);
            self.apply_if_due().await;
            Ok(())
        })?;
        Ok(())
    }

    fn is_volatile(&self) -> bool {
        false
    }

    fn is_held(&self) -> bool {
        self.leadership.is_held()
    }

    fn end_service(&mut self) {
        let own = self.leadership.revision();
        // A late copy must not end dispatchers that start afterwards.
        let is_first = Compare::mod_revision(self.keys.shutdown(), CompareOp::Less, own);
        let put = TxnOp::put(self.keys.shutdown(), own.to_string(), None);
        let look = TxnOp::get(self.keys.shutdown(), None);
        let write = self.leadership.guarded(vec![is_first], vec![put], vec![look]);
        let done = self
            .members
            .block_on(async { tokio::time::timeout(END_DEADLINE, write).await });
        let is_stored = |done: &TxnResponse| {
            let found = pairs(done).next().flatten();
            done.succeeded() || found.is_some_and(|pair| pair.mod_revision() > own)
        };
        if !matches!(&done, Ok(Ok(done)) if is_stored(done)) {
            tracing::warn!("the other dispatchers were not told of the shutdown: stop them by themselves");
        }
    }

    fn release(&mut self) {
        let released = self.leadership.release();
        let is_released = self
            .members
            .block_on(async { tokio::time::timeout(RELEASE_DEADLINE, released).await })
            .is_ok();
        if !is_released {
            tracing::warn!(
                "etcd does not answer: another dispatcher leads once this one's lease has run out"
            );
        }
    }
}
