//! Files of servers that do not support ranges, which are fetched whole into temporary files without names.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore};
use tokio::time::{Instant, timeout_at};

use crate::exec::ErrorKind;

use super::failure::Failure;
use super::fetch::Bounds;

/// The number of bytes that must arrive within the timeout of a block. A slower server counts as silent.
const PROGRESS_BYTES: u64 = 1 << 20;

/// Fetches the object `key`, of at most `bytes_max` bytes, and starts over if the connection breaks.
pub(super) async fn spool(
    store: &dyn ObjectStore,
    key: &Path,
    bytes_max: u64,
    bounds: Bounds,
) -> Result<File, Failure> {
    let mut last = Failure::peer("no request was made");
    for _ in 0..bounds.attempts() {
        match attempt(store, key, bytes_max, bounds.deadline()).await {
            Ok(file) => return Ok(file),
            Err(failure) if failure.kind == ErrorKind::Peer => last = failure,
            Err(failure) => return Err(failure),
        }
    }
    let reason = format!("{last} (last of {} attempts)", bounds.attempts());
    Err(Failure::new(last.kind, reason))
}

async fn attempt(
    store: &dyn ObjectStore,
    key: &Path,
    bytes_max: u64,
    patience: Duration,
) -> Result<File, Failure> {
    let silent = |_| {
        Failure::peer(format!(
            "less than {PROGRESS_BYTES} bytes arrived within {patience:?}"
        ))
    };
    let mut until = Instant::now() + patience;
    let answer = timeout_at(until, store.get_opts(key, GetOptions::default())).await;
    let answer = answer.map_err(silent)??;
    let wanted = answer.meta.size;
    if wanted > bytes_max {
        let reason = format!(
            "the server does not support ranges, and the file has {wanted} bytes, more than the limit of {bytes_max} for a \
             temporary file (spool_bytes)"
        );
        return Err(Failure::new(ErrorKind::Resource, reason));
    }
    let file = tempfile::tempfile().map_err(|error| unwritable(&error))?;
    let file = Arc::new(file);
    let mut parts = answer.into_stream();
    let (mut had, mut progress) = (0, 0);
    while let Some(part) = timeout_at(until, parts.next()).await.map_err(silent)? {
        let part = part?;
        had += part.len() as u64;
        progress += part.len() as u64;
        if had > wanted {
            return Err(Failure::peer(format!(
                "the server sent more than the announced {wanted} bytes"
            )));
        }
        if progress >= PROGRESS_BYTES {
            (until, progress) = (Instant::now() + patience, 0);
        }
        write(&file, part).await?;
    }
    if had < wanted {
        return Err(Failure::peer(format!(
            "the answer ended after {had} of {wanted} bytes"
        )));
    }
    Arc::try_unwrap(file)
        .map_err(|_| Failure::new(ErrorKind::Internal, "the temporary file is still being written"))
}

async fn write(file: &Arc<File>, part: Bytes) -> Result<(), Failure> {
    let file = Arc::clone(file);
    let written = tokio::task::spawn_blocking(move || (&*file).write_all(&part)).await;
    let lost = |_| Failure::new(ErrorKind::Cancelled, "storage is being closed");
    written.map_err(lost)?.map_err(|error| unwritable(&error))
}

fn unwritable(error: &std::io::Error) -> Failure {
    let reason = format!(
        "the server does not support ranges, and a temporary file cannot be written in {}: {error}",
        std::env::temp_dir().display()
    );
    Failure::new(ErrorKind::Resource, reason)
}
