//! Tests of files in object stores and on HTTP servers, over real connections.
//!
//! - `s3`: an S3 server over a directory
//! - `server`: an HTTP server that follows a script, including wrong replies
//! - `reading`: reading returns the bytes of the object
//! - `listing`: patterns match the same files as on this machine
//! - `failures`: errors state the fault of the server and its place
//! - `caching`: blocks are kept, and outdated blocks are never returned

mod caching;
mod failures;
mod listing;
mod reading;
mod s3;
mod server;

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use millstream_pipeline::storage::{Storage, StorageConfig, StorageError};

/// Returns settings for the server at `endpoint`, with small blocks, so that small files have many
/// blocks.
fn config(endpoint: &str) -> StorageConfig {
    let options = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", s3::KEY),
        ("AWS_SECRET_ACCESS_KEY", s3::SECRET),
    ];
    StorageConfig {
        options: options
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        block_bytes: 64 << 10,
        attempts: 3,
        ..StorageConfig::default()
    }
}

fn storage(endpoint: &str) -> Storage {
    Storage::new(config(endpoint)).unwrap()
}

/// Returns settings with short timeouts, for servers that do not answer.
fn impatient(endpoint: &str) -> StorageConfig {
    StorageConfig {
        stall: Duration::from_millis(100),
        deadline: Duration::from_secs(20),
        ..config(endpoint)
    }
}

fn read(storage: &Storage, path: &str) -> Result<Vec<u8>, String> {
    let said = |error: &StorageError| error.to_string();
    let mut object = storage.open(path).map_err(|error| said(&error))?;
    let mut bytes = Vec::new();
    let read = object.read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Returns `count` pseudo-random bytes.
fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let bytes = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    });
    bytes.take(count).collect()
}
