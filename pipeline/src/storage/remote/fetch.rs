//! Requests for the bytes of one object. Requests have limits on attempts and time, and an answer counts only
//! if it is complete.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Future, StreamExt};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetResult, ObjectStore};
use tokio::time::{Instant, sleep, timeout_at};

use crate::exec::ErrorKind;
use crate::storage::config::StorageConfig;
use crate::storage::version::FileVersion;

use super::failure::Failure;

/// The first pause before another attempt after an incomplete answer. The pause doubles each time.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before another attempt.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The number of bytes that are allocated before any bytes arrive.
const FIRST_ALLOCATION_BYTES: u64 = 1 << 20;

/// The version of an object, by which a change of its bytes is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) size_bytes: u64,
    /// The entity tag, by which the store marks the version.
    pub(super) e_tag: Option<String>,
    /// The time of the last change in milliseconds since 1970; 0 if the store does not report a time.
    pub(super) modified_ms: i64,
}

/// The result of the first request for an object.
#[derive(Debug)]
pub(super) enum Begin {
    /// The version and the first bytes of the object. Fewer bytes than requested are the whole object.
    Bytes(Version, Bytes),
    /// The object still has the version that the cache knows.
    Unchanged,
    /// The server does not support ranges.
    NoRanges,
}

/// The limits of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    attempts: u32,
    deadline: Duration,
}

impl Bounds {
    pub(super) fn of(config: &StorageConfig) -> Bounds {
        Bounds {
            attempts: config.attempts,
            deadline: config.deadline,
        }
    }

    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// The reason why an attempt failed.
pub(super) enum Attempt {
    /// The failure is permanent.
    Final(Failure),
    /// The failure is temporary; another attempt may succeed.
    Passing(Failure),
}

impl From<Error> for Attempt {
    /// Converts an error. The client has already retried temporary errors, so the failure is permanent.
    fn from(error: Error) -> Attempt {
        Attempt::Final(error.into())
    }
}

/// Requests the first `upto` bytes of the object `key`, unless its entity tag is still `known`.
pub(super) async fn begin(
    store: &dyn ObjectStore,
    key: &Path,
    upto: u64,
    known: Option<&str>,
    bounds: Bounds,
) -> Result<Begin, Failure> {
    let mut attempts = Attempts::new(bounds);
    loop {
        if let Some(begin) = attempts.at(begin_once(store, key, upto, known)).await? {
            return Ok(begin);
        }
    }
}

async fn begin_once(
    store: &dyn ObjectStore,
    key: &Path,
    upto: u64,
    known: Option<&str>,
) -> Result<Begin, Attempt> {
    let options = GetOptions {
        range: Some((0..upto).into()),
        if_none_match: known.map(str::to_owned),
        ..GetOptions::default()
    };
    let result = match store.get_opts(key, options).await {
        Ok(result) => result,
        Err(Error::NotModified { .. }) if known.is_some() => return Ok(Begin::Unchanged),
        // The client returns this error if a plain server ignores the range.
        Err(Error::NotSupported { .. }) => return Ok(Begin::NoRanges),
        Err(error) => return begin_without_range(store, key, error).await,
    };
    let version = Version::of(&result);
    let wanted = version.size_bytes.min(upto);
    Ok(Begin::Bytes(version, all_of(result, wanted).await?))
}

/// Handles the error of a request with a range. Servers answer a range of an empty object with an ordinary
/// error, so the length of the object is requested.
async fn begin_without_range(store: &dyn ObjectStore, key: &Path, error: Error) -> Result<Begin, Attempt> {
    if let Error::Generic { .. } = &error
        && error.to_string().contains(" 416 ")
        && let Ok(found) = store.get_opts(key, GetOptions::new().with_head(true)).await
        && found.meta.size == 0
    {
        return Ok(Begin::Bytes(Version::of(&found), Bytes::new()));
    }
    Err(error.into())
}

/// Requests the bytes `range` of the object `key`, which must have the version `version`.
pub(super) async fn range(
    store: &dyn ObjectStore,
    key: &Path,
    range: Range<u64>,
    version: &Version,
    bounds: Bounds,
) -> Result<Bytes, Failure> {
    let mut attempts = Attempts::new(bounds);
    loop {
        if let Some(bytes) = attempts
            .at(range_once(store, key, range.clone(), version))
            .await?
        {
            return Ok(bytes);
        }
    }
}

async fn range_once(
    store: &dyn ObjectStore,
    key: &Path,
    range: Range<u64>,
    version: &Version,
) -> Result<Bytes, Attempt> {
    let wanted = range.end - range.start;
    let options = GetOptions {
        range: Some(range.into()),
        // A weak entity tag never matches, so it is left out.
        if_match: version.e_tag.clone().filter(|e_tag| !e_tag.starts_with("W/")),
        ..GetOptions::default()
    };
    let result = store.get_opts(key, options).await?;
    if Version::of(&result) != *version {
        let reason = "the object was changed while it was read: start over";
        return Err(Attempt::Final(Failure::new(ErrorKind::Precondition, reason)));
    }
    all_of(result, wanted).await
}

/// Requests the version of the object `key`, without its bytes.
pub(super) async fn version(store: &dyn ObjectStore, key: &Path, bounds: Bounds) -> Result<Version, Failure> {
    let mut attempts = Attempts::new(bounds);
    loop {
        let answer = async {
            let found = store.get_opts(key, GetOptions::new().with_head(true)).await?;
            Ok(Version::of(&found))
        };
        if let Some(version) = attempts.at(answer).await? {
            return Ok(version);
        }
    }
}

impl Version {
    fn of(result: &GetResult) -> Version {
        Version {
            size_bytes: result.meta.size,
            e_tag: result.meta.e_tag.clone(),
            modified_ms: result.meta.last_modified.timestamp_millis(),
        }
    }

    /// Returns the version as a listing states it.
    pub(super) fn of_file(&self) -> FileVersion {
        FileVersion::of_object(self.size_bytes, self.e_tag.as_deref())
    }

    /// Returns whether the version would differ after a change of the bytes.
    pub(super) fn is_marked(&self) -> bool {
        self.e_tag.is_some() || self.modified_ms != 0
    }
}

/// Reads all bytes of an answer, which must have exactly `wanted` bytes.
async fn all_of(result: GetResult, wanted: u64) -> Result<Bytes, Attempt> {
    let mut bytes = Vec::with_capacity(wanted.min(FIRST_ALLOCATION_BYTES) as usize);
    let mut answer = result.into_stream();
    while let Some(part) = answer.next().await {
        let part = part.map_err(|error| {
            let reason = format!(
                "the answer ended after {} of {wanted} bytes: {}",
                bytes.len(),
                Failure::from(error)
            );
            Attempt::Passing(Failure::peer(reason))
        })?;
        if bytes.len() as u64 + part.len() as u64 > wanted {
            let reason = format!("the server sent more than the requested {wanted} bytes");
            return Err(Attempt::Final(Failure::peer(reason)));
        }
        bytes.extend_from_slice(&part);
    }
    if (bytes.len() as u64) < wanted {
        let reason = format!("the server sent {} of the requested {wanted} bytes", bytes.len());
        return Err(Attempt::Passing(Failure::peer(reason)));
    }
    Ok(Bytes::from(bytes))
}

/// The attempts at one request, within its limits.
pub(super) struct Attempts {
    bounds: Bounds,
    until: Instant,
    made: u32,
    pause: Duration,
}

impl Attempts {
    pub(super) fn new(bounds: Bounds) -> Attempts {
        Attempts {
            bounds,
            until: Instant::now() + bounds.deadline,
            made: 0,
            pause: PAUSE,
        }
    }

    /// Makes an attempt. Returns `None` after a temporary failure, when the caller may make another attempt.
    pub(super) async fn at<T>(
        &mut self,
        attempt: impl Future<Output = Result<T, Attempt>>,
    ) -> Result<Option<T>, Failure> {
        self.made += 1;
        let late = |last: &str| {
            let patience = self.bounds.deadline;
            Failure::peer(format!(
                "no complete answer within {patience:?}, after {} attempts{last}",
                self.made
            ))
        };
        let failure = match timeout_at(self.until, attempt).await {
            Ok(Ok(answer)) => return Ok(Some(answer)),
            Ok(Err(Attempt::Final(failure))) => return Err(failure),
            Ok(Err(Attempt::Passing(failure))) => failure,
            Err(_) => return Err(late("")),
        };
        if self.made >= self.bounds.attempts {
            let reason = format!("{failure} (last of {} attempts)", self.made);
            return Err(Failure::new(failure.kind, reason));
        }
        if timeout_at(self.until, sleep(self.pause)).await.is_err() {
            return Err(late(&format!("; the last failure: {failure}")));
        }
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(None)
    }
}
