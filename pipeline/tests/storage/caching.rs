//! Tests of the cache on disk: blocks are kept once they are read, and are never returned for a
//! different object.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millstream_pipeline::storage::{CacheConfig, Storage, StorageConfig};

use super::server::{Reply, Server, answer};
use super::{config, noise, read};

const SIZE: usize = 5 * 65_536 + 100;

fn cached(directory: &Path) -> Storage {
    let config = StorageConfig {
        cache: Some(CacheConfig {
            directory: directory.to_owned(),
            limit_bytes: 64 << 20,
        }),
        ..config("http://none")
    };
    Storage::new(config).unwrap()
}

/// Returns the files in the cache.
fn kept(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for first in std::fs::read_dir(directory).unwrap() {
        let first = first.unwrap().path();
        let is_kept = first.file_name().is_some_and(|name| name.len() == 2);
        if is_kept && first.is_dir() {
            found.extend(std::fs::read_dir(first).unwrap().map(|file| file.unwrap().path()));
        }
    }
    found
}

/// Waits until the cache has `files` files, because the cache writes its files in the background.
fn until_kept(directory: &Path, files: usize) {
    let watchdog = Instant::now() + Duration::from_secs(60);
    while kept(directory).len() < files {
        assert!(
            Instant::now() < watchdog,
            "expected {files} files in the cache, found {}",
            kept(directory).len()
        );
        std::thread::yield_now();
    }
}

#[test]
fn cached_bytes_are_not_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let content = noise(SIZE, 11);
    let server = Server::right(content.clone(), "\"mark\"");
    assert!(read(&cached(directory.path()), &server.url("file")) == Ok(content.clone()));
    until_kept(directory.path(), 7);
    let before = server.requests().len();
    // A second `Storage` behaves like the storage of another process.
    assert!(read(&cached(directory.path()), &server.url("file")) == Ok(content));
    let requests = server.requests();
    assert_eq!(
        requests.len(),
        before + 1,
        "expected one request that asks whether the object has changed"
    );
    assert_eq!(requests[before].header("if-none-match"), Some("\"mark\""));
}

#[test]
fn what_changed_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let version = Arc::new(AtomicUsize::new(0));
    let served = Arc::clone(&version);
    let server = Server::start(move |request, _| {
        let version = served.load(Ordering::SeqCst);
        answer(request, &noise(SIZE, version as u64), &format!("\"{version}\""))
    });
    for now in 0..3 {
        version.store(now, Ordering::SeqCst);
        for _ in 0..2 {
            assert!(read(&cached(directory.path()), &server.url("file")) == Ok(noise(SIZE, now as u64)));
        }
    }
}

#[test]
fn damaged_cache_files_are_fetched_again() {
    let directory = tempfile::tempdir().unwrap();
    let content = noise(SIZE, 12);
    let server = Server::right(content.clone(), "\"mark\"");
    assert!(read(&cached(directory.path()), &server.url("file")) == Ok(content.clone()));
    until_kept(directory.path(), 7);
    let damages: [fn(&mut Vec<u8>); 4] = [
        |file| *file.last_mut().unwrap() ^= 1,
        |file| file.truncate(file.len() / 2),
        Vec::clear,
        |file| file.resize(1 << 20, 0),
    ];
    for damage in damages {
        for path in kept(directory.path()) {
            let mut file = std::fs::read(&path).unwrap();
            damage(&mut file);
            std::fs::write(path, file).unwrap();
        }
        let before = server.requests().len();
        assert!(read(&cached(directory.path()), &server.url("file")) == Ok(content.clone()));
        assert_eq!(server.requests().len(), before + 6, "every block");
        until_kept(directory.path(), 7);
    }
}

#[test]
fn what_nothing_tells_apart_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let content = noise(SIZE, 13);
    let served = content.clone();
    let server = Server::start(move |request, _| match answer(request, &served, "") {
        Reply::Answer(status, mut headers, body) => {
            headers.retain(|(name, _)| *name != "etag");
            Reply::Answer(status, headers, body)
        }
        other @ (Reply::Short(..) | Reply::Silence(..) | Reply::Close) => other,
    });
    for _ in 0..2 {
        let before = server.requests().len();
        assert!(read(&cached(directory.path()), &server.url("file")) == Ok(content.clone()));
        assert_eq!(server.requests().len(), before + 6);
    }
    assert_eq!(kept(directory.path()), Vec::<PathBuf>::new());
}

#[test]
fn readers_that_share_a_cache_disturb_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let server = Arc::new(Server::start(|request, _| {
        let file: u64 = request.target[1..].parse().unwrap();
        answer(request, &noise(SIZE, file), &format!("\"{file}\""))
    }));
    let readers = (0..4).map(|_| {
        let (server, storage) = (Arc::clone(&server), cached(directory.path()));
        std::thread::spawn(move || {
            for file in 0..6 {
                let found = read(&storage, &server.url(&file.to_string()));
                assert!(found == Ok(noise(SIZE, file)), "file {file}");
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.join().unwrap();
    }
}

#[test]
fn an_unusable_cache_directory_is_refused() {
    let refused = Storage::new(StorageConfig {
        cache: Some(CacheConfig {
            directory: PathBuf::from("/dev/null/cache"),
            limit_bytes: 64 << 20,
        }),
        ..StorageConfig::default()
    });
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("cannot use the cache directory"), "{refused}");
}

#[test]
fn a_vanished_cache_directory_harms_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let content = noise(SIZE, 14);
    let server = Server::right(content.clone(), "\"mark\"");
    let storage = cached(directory.path());
    std::fs::remove_dir_all(directory.path()).unwrap();
    for _ in 0..2 {
        assert!(read(&storage, &server.url("file")) == Ok(content.clone()));
    }
}
