//! Tests sockets that are files: which directories may contain them, and which files are removed (D9.6).

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use millstream_dataplane::transport::shm::{BindError, Listener, ListenerConfig, greet as connect};

use crate::support::{WATCHDOG, run};

fn bind(directory: &Path) -> Result<Listener, BindError> {
    Listener::bind(&ListenerConfig {
        directory: Some(directory.to_owned()),
        ..ListenerConfig::default()
    })
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// D9.6.
#[test]
fn a_private_directory_is_emptied_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("sockets");
    run(async {
        let listener = bind(&sockets).unwrap();
        assert_eq!(std::fs::metadata(&sockets).unwrap().mode() & 0o777, 0o700);
        assert_eq!(names(&sockets).len(), 1);
        drop(listener);
        assert!(names(&sockets).is_empty());
    });
}

/// D9.6.
#[test]
fn an_open_or_invalid_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (open, link, file) = (
        folder.path().join("open"),
        folder.path().join("link"),
        folder.path().join("file"),
    );
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o750)).unwrap();
    symlink(&open, &link).unwrap();
    std::fs::write(&file, "").unwrap();
    let missing = folder.path().join("no/such/place");
    let long = folder.path().join("d".repeat(100));
    run(async {
        for (place, what) in [
            (&open, "chmod 700"),
            (&link, "expected a directory"),
            (&file, "expected a directory"),
            (&missing, "No such file"),
            (&long, "shorter path"),
        ] {
            let error = bind(place).unwrap_err().to_string();
            assert!(error.contains(what), "{what}: {error}");
        }
        let error = bind(&open).unwrap_err().to_string();
        assert!(
            error.contains(open.to_str().unwrap()) && error.contains("750"),
            "{error}"
        );
    });
}

/// D9.6.
#[test]
fn only_dead_workers_leftovers_are_swept() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("sockets");
    run(async {
        let mut living = bind(&sockets).unwrap();
        let [dead, leftover, starting] = ["a", "b", "c"].map(|digit| sockets.join(digit.repeat(32)));
        let dead = dead.with_extension("sock");
        let [leftover, starting] = [leftover, starting].map(|path| path.with_extension("sock.new"));
        for path in [&dead, &leftover, &starting] {
            drop(UnixListener::bind(path).unwrap());
        }
        let long_ago = rustix::fs::Timespec {
            tv_sec: 1_000_000_000,
            tv_nsec: 0,
        };
        let times = rustix::fs::Timestamps {
            last_access: long_ago,
            last_modification: long_ago,
        };
        rustix::fs::utimensat(rustix::fs::CWD, &leftover, &times, rustix::fs::AtFlags::empty()).unwrap();
        std::fs::write(sockets.join(format!("{}.sock", "d".repeat(32))), "a file").unwrap();
        drop(UnixListener::bind(sockets.join("other.sock")).unwrap());
        let second = bind(&sockets).unwrap();
        let left = names(&sockets);
        assert!(!dead.exists() && !leftover.exists(), "{left:?}");
        assert!(
            starting.exists(),
            "a socket that is about to listen was removed: {left:?}"
        );
        assert_eq!(left.len(), 5, "{left:?}");
        let address = living.address().clone();
        let offer = crate::support::offer();
        // The first connection is the check of the second worker's sweep, which sends no message.
        assert!(living.accept().await.greet(&offer, WATCHDOG).await.is_err());
        let worker = async { living.accept().await.greet(&offer, WATCHDOG).await };
        let (worker, client) = tokio::join!(worker, connect(&address, WATCHDOG));
        assert!(worker.is_ok() && client.is_ok());
        drop(second);
    });
}
