//! The first requests of an object or a pattern, and their outcomes.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;

use crate::exec::{Cancel, ErrorKind};
use crate::storage::cache::{KeptVersion, Key, Place};
use crate::storage::error::StorageError;
use crate::storage::listed::Listed;
use crate::storage::location::RemoteLocation;

use super::failure::Failure;
use super::fetch::{self, Begin, Version};
use super::file::{RemoteFile, Source};
use super::runtime::Unanswered;
use super::shared::{Parts, Remote};
use super::stores::Store;

/// The outcome of opening an object.
pub(in crate::storage) enum Opened {
    /// The object is read in blocks.
    Blocks(RemoteFile),
    /// The object was fetched into a temporary file.
    Whole(File),
}

/// The result of the first request for an object.
enum Start {
    Blocks(Box<Source>, Option<Bytes>),
    Whole(File),
}

impl Remote {
    /// Opens the object at `location`, which messages call `shown`. Blocks until the first bytes have
    /// arrived.
    pub(in crate::storage) fn open(
        self: &Arc<Remote>,
        location: &RemoteLocation,
        shown: &Arc<str>,
        cancel: Option<&Cancel>,
    ) -> Result<Opened, StorageError> {
        let failed = |failure: Failure| StorageError::open(failure.kind, shown, failure.reason);
        let key = key_of(location).map_err(failed)?;
        let store = self.stores().of(location).map_err(|error| failed(error.into()))?;
        let (parts, block_bytes) = (self.parts(), self.config().block_bytes);
        let spool_bytes = self.config().spool_bytes;
        let start = self
            .runtime()
            .wait(cancel, start(store, key, parts, block_bytes, spool_bytes));
        Ok(
            match start.map_err(|reason| failed(reason.into()))?.map_err(failed)? {
                Start::Whole(file) => Opened::Whole(file),
                Start::Blocks(source, first) => {
                    Opened::Blocks(RemoteFile::new(self, *source, first, shown, cancel))
                }
            },
        )
    }

    /// Returns the objects that match the pattern `location`. Blocks.
    pub(in crate::storage) fn list(
        &self,
        location: &RemoteLocation,
        cancel: Option<&Cancel>,
    ) -> Result<Vec<Listed>, StorageError> {
        let failed =
            |failure: Failure| StorageError::list(failure.kind, &location.to_string(), failure.reason);
        let store = self.stores().of(location).map_err(|error| failed(error.into()))?;
        let found = self.runtime().wait(
            cancel,
            super::listing::list(store, location.clone(), self.parts()),
        );
        found.map_err(|reason| failed(reason.into()))?.map_err(failed)
    }
}

impl From<Unanswered> for Failure {
    fn from(reason: Unanswered) -> Failure {
        match reason {
            Unanswered::Cancelled => Failure::new(ErrorKind::Cancelled, "the task was cancelled"),
            Unanswered::Lost => Failure::new(
                ErrorKind::Internal,
                "the request was lost because its thread panicked",
            ),
        }
    }
}

/// Requests the start of the object `key`. If the cache knows a version of the object, the request is
/// conditional.
async fn start(
    store: Store,
    key: Path,
    parts: Parts,
    block_bytes: u64,
    spool_bytes: u64,
) -> Result<Start, Failure> {
    let place = Place {
        store: store.identity.to_string(),
        object: key.to_string(),
    };
    let known = match &parts.cache {
        Some(cache) => cache
            .version(&place)
            .await
            .filter(|version| version.e_tag.is_some()),
        None => None,
    };
    let mark = known.as_ref().and_then(|known| known.e_tag.as_deref());
    let (version, first) = match fetch::begin(&*store.objects, &key, block_bytes, mark, parts.bounds).await? {
        Begin::Bytes(version, first) => (version, Some(first)),
        Begin::Unchanged => match known {
            Some(KeptVersion {
                size_bytes,
                e_tag,
                modified_ms,
            }) => {
                let version = Version {
                    size_bytes,
                    e_tag,
                    modified_ms,
                };
                (version, None)
            }
            None => {
                return Err(Failure::peer(
                    "the server answered \"not modified\" to a request without a condition",
                ));
            }
        },
        Begin::NoRanges => {
            return super::spool::spool(&*store.objects, &key, spool_bytes, parts.bounds)
                .await
                .map(Start::Whole);
        }
    };
    let kept_as = (parts.cache.is_some() && version.is_marked()).then(|| Key {
        place,
        version: KeptVersion {
            size_bytes: version.size_bytes,
            e_tag: version.e_tag.clone(),
            modified_ms: version.modified_ms,
        },
        block_bytes,
    });
    if let (Some(cache), Some(kept), Some(first)) = (&parts.cache, &kept_as, &first) {
        cache.keep_version(&kept.place, &kept.version);
        cache.keep_block(kept, 0, first);
    }
    let source = Source {
        store,
        key,
        version,
        kept_as,
        block_bytes,
    };
    Ok(Start::Blocks(Box::new(source), first))
}

/// Returns the name of the object in its store. In a server's URL, escaped characters are decoded.
fn key_of(location: &RemoteLocation) -> Result<Path, Failure> {
    let key = &location.key;
    // The client would change such a name and request another object.
    if key.starts_with('/') || key.ends_with('/') || key.contains("//") || key.is_empty() {
        let reason =
            "the name of the object has an empty part: remove double slashes and slashes at either end";
        return Err(Failure::new(ErrorKind::Caller, reason));
    }
    let key = if location.scheme.is_server() {
        Path::from_url_path(&location.key)
    } else {
        Path::parse(&location.key)
    };
    key.map_err(|error| object_store::Error::from(error).into())
}
