//! Reads all records of a service from etcd: the applied records, and the commits that follow them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{GetOptions, KeyValue, Txn, TxnOp};
use tokio::time::Instant;

use super::batch::{self, Changes};
use super::error::EtcdError;
use super::keys::{Keys, end_of};
use super::members::{Members, pairs};
use crate::dispatcher::Record;

/// Maximum number of values in one answer. Together with the largest value, a piece, this limits an answer
/// to 32 MiB.
const RECORDS_PAGE: i64 = 512;
/// Maximum number of parts of commits in one answer, of 1 MiB each.
const PARTS_PAGE: i64 = 16;
/// Maximum bytes of an answer.
const ANSWER_BYTES_MAX: usize = 48 << 20;
/// The time after which a further member is asked for a page, and the time for all attempts to read it.
const PAGE_PATIENCE: Duration = Duration::from_secs(2);
const PAGE_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum number of attempts to read the store at one moment.
const READS_MAX: u32 = 5;

/// The position of the log: the latest commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The number of the commit; 0 before the first.
    pub(super) number: u64,
    /// The create revision of the key of the leader that made the commit.
    pub(super) leader: i64,
    /// The random number of the commit.
    pub(super) nonce: u64,
    /// The modification revision of the head's key; 0 before the first commit.
    pub(super) revision: i64,
}

impl Head {
    /// Returns the value of the head's key.
    pub(super) fn to_text(self) -> String {
        format!("{} {} {:016x}", self.number, self.leader, self.nonce)
    }

    /// Parses the head's key and value. Returns `None` if another program wrote them.
    pub(super) fn parse(pair: &KeyValue) -> Option<Head> {
        let mut parts = std::str::from_utf8(pair.value()).ok()?.split(' ');
        Some(Head {
            number: parts.next()?.parse().ok()?,
            leader: parts.next()?.parse().ok()?,
            nonce: u64::from_str_radix(parts.next()?, 16).ok()?,
            revision: pair.mod_revision(),
        })
    }
}

/// The contents of a store.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) records: Vec<Record>,
    pub(super) head: Head,
    /// The number of the latest applied commit.
    pub(super) applied: u64,
    /// The changes of the commits after that.
    pub(super) unapplied: Changes,
    /// The numbers of further pieces of the records that have some.
    pub(super) pieces: BTreeMap<Vec<u8>, u32>,
}

/// Reads the whole store at one moment. Begins again at a later moment if etcd removes the revisions of the
/// first one meanwhile.
pub(super) async fn read_again(members: &Arc<Members>, keys: &Keys) -> Result<Contents, EtcdError> {
    for _ in 1..READS_MAX {
        match read(members, keys).await {
            Err(error @ EtcdError::Compacted { .. }) => tracing::warn!(%error, "the records are read again"),
            contents => return contents,
        }
    }
    read(members, keys).await
}

/// Reads the whole store at one moment.
pub(super) async fn read(members: &Arc<Members>, keys: &Keys) -> Result<Contents, EtcdError> {
    let damaged = |reason: &str| EtcdError::damaged(&members.config, reason);
    let (head, applied, revision) = read_position(members, keys).await?;
    let at = |prefix: Vec<u8>, page: i64| read_all(members, prefix, page, revision);
    let (records, pieces, parts) = tokio::try_join!(
        at(keys.records(), RECORDS_PAGE),
        at(keys.pieces(), RECORDS_PAGE),
        at(keys.log(), PARTS_PAGE)
    )?;
    let mut commits = BTreeMap::<u64, Vec<u8>>::new();
    for (key, bytes) in parts {
        let number = Keys::parse_part(&key).ok_or_else(|| damaged("a commit has no number"))?;
        commits.entry(number).or_default().extend(bytes);
    }
    let mut unapplied = Changes::new();
    for number in applied + 1..=head.number {
        let bytes = commits
            .get(&number)
            .ok_or_else(|| damaged("a commit is missing"))?;
        batch::decode_into(&mut unapplied, bytes).ok_or_else(|| damaged("a commit cannot be read"))?;
    }
    let (mut stored, pieces) =
        joined(records, pieces).ok_or_else(|| damaged("the key of a piece cannot be read"))?;
    for (key, change) in &unapplied {
        match change {
            Some(bytes) => stored.insert(key.clone(), Some(bytes.clone())),
            None => stored.remove(key),
        };
    }
    let records = stored.into_iter().map(|(key, bytes)| {
        let bytes = bytes.ok_or_else(|| damaged("a record lacks a piece"))?;
        let record = Record::from_bytes(&bytes).map_err(|error| damaged(&error.to_string()))?;
        if record.key().to_bytes() != key {
            return Err(damaged("a record is stored under another record's key"));
        }
        Ok(record)
    });
    let records = records.collect::<Result<Vec<Record>, EtcdError>>()?;
    // Without the dispatcher's own record, ids would be assigned twice.
    if !records.is_empty() && !records.iter().any(|record| matches!(record, Record::Meta(_))) {
        return Err(damaged("no record says which ids come next"));
    }
    Ok(Contents {
        records,
        head,
        applied,
        unapplied,
        pieces,
    })
}

/// Reads the position of the log, and the revision at which it was read.
async fn read_position(members: &Members, keys: &Keys) -> Result<(Head, u64, i64), EtcdError> {
    let damaged = |reason: &str| EtcdError::damaged(&members.config, reason);
    let txn = Txn::new().and_then([TxnOp::get(keys.head(), None), TxnOp::get(keys.applied(), None)]);
    let limits = (Instant::now() + PAGE_DEADLINE, PAGE_PATIENCE);
    let answer = members.txn(limits, txn).await?;
    let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
    let mut pairs = pairs(&answer);
    let (head, applied) = (pairs.next().flatten(), pairs.next().flatten());
    let head = match head {
        Some(pair) => Head::parse(&pair).ok_or_else(|| damaged("its head cannot be read"))?,
        None => Head::default(),
    };
    let applied = match applied {
        Some(pair) => {
            let text = std::str::from_utf8(pair.value()).ok();
            let number = text.and_then(|text| text.parse().ok());
            number.ok_or_else(|| damaged("its applied position cannot be read"))?
        }
        None => 0,
    };
    if applied > head.number {
        return Err(damaged("its applied position lies after its head"));
    }
    Ok((head, applied, revision))
}

/// Reads all keys that begin with `prefix`, without it, at a revision of the past.
async fn read_all(
    members: &Members,
    prefix: Vec<u8>,
    page: i64,
    revision: i64,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, EtcdError> {
    let (mut from, end) = (prefix.clone(), end_of(&prefix));
    let mut found = Vec::new();
    loop {
        let options = GetOptions::new()
            .with_range(end.clone())
            .with_limit(page)
            .with_revision(revision);
        let limits = (Instant::now() + PAGE_DEADLINE, PAGE_PATIENCE);
        let mut answer = members
            .ask(limits, |client| {
                let (from, options) = (from.clone(), options.clone());
                let mut client = client.kv_client().max_decoding_message_size(ANSWER_BYTES_MAX);
                async move { client.get(from, Some(options)).await }
            })
            .await?;
        let is_last = !answer.more();
        for pair in answer.take_kvs() {
            let (key, value) = pair.into_key_value();
            from = key.clone();
            found.push((key[prefix.len()..].to_vec(), value));
        }
        if is_last {
            return Ok(found);
        }
        from.push(0);
    }
}

/// The bytes of each record, `None` if a piece is missing, and the number of pieces of each large record.
type Joined = (BTreeMap<Vec<u8>, Option<Vec<u8>>>, BTreeMap<Vec<u8>, u32>);

/// Joins the pieces of each record. A piece may be missing if the record's latest change is in the log.
fn joined(records: Vec<(Vec<u8>, Vec<u8>)>, pieces: Vec<(Vec<u8>, Vec<u8>)>) -> Option<Joined> {
    let mut further = BTreeMap::<Vec<u8>, Vec<(u32, Vec<u8>)>>::new();
    for (key, bytes) in pieces {
        let (record, index) = Keys::parse_piece(&key)?;
        further.entry(record.to_vec()).or_default().push((index, bytes));
    }
    let counts = further
        .iter()
        .map(|(key, pieces)| {
            let last = pieces.iter().map(|(index, _)| *index).max();
            (key.clone(), last.unwrap_or(0))
        })
        .collect();
    let mut stored = BTreeMap::new();
    for (key, value) in records {
        let (count, first) = value.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count);
        let pieces = further.remove(&key).unwrap_or_default();
        let expected = 1..count;
        let is_whole = pieces
            .iter()
            .take(expected.len())
            .map(|(index, _)| *index)
            .eq(expected.clone());
        let is_whole = is_whole && pieces.len() >= expected.len();
        let bytes = is_whole.then(|| {
            let rest = pieces
                .into_iter()
                .take(expected.len())
                .flat_map(|(_, bytes)| bytes);
            first.iter().copied().chain(rest).collect()
        });
        stored.insert(key, bytes);
    }
    Some((stored, counts))
}
