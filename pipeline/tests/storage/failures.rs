//! Tests of faulty servers: errors state the fault and its place, and transient failures are retried
//! silently.

use std::io::{Read, Seek, SeekFrom};
use std::sync::mpsc;
use std::time::Duration;

use millstream_pipeline::exec::{Cancel, ErrorKind, ExecContext, Executor};
use millstream_pipeline::graph::{Dataset, ErrorPolicy};
use millstream_pipeline::storage::{Storage, StorageConfig};

use crate::support::context;

use super::s3::S3;
use super::server::{Reply, Request, Server, answer};
use super::{config, impatient, noise, read, storage};

const SIZE: usize = 150_000;

fn content() -> Vec<u8> {
    noise(SIZE, 9)
}

fn right(request: &Request) -> Reply {
    answer(request, &content(), "\"mark\"")
}

/// Returns the parts of a correct reply: status, headers and body.
fn parts(request: &Request) -> (u16, Vec<(&'static str, String)>, Vec<u8>) {
    match right(request) {
        Reply::Answer(status, headers, body) => (status, headers, body),
        other @ (Reply::Short(..) | Reply::Silence(..) | Reply::Close) => panic!("{other:?}"),
    }
}

fn short(request: &Request) -> Reply {
    let (status, headers, body) = parts(request);
    Reply::Short(status, headers, body.len(), body[..body.len() / 2].to_vec())
}

fn silent(request: &Request) -> Reply {
    let (status, headers, body) = parts(request);
    Reply::Silence(status, headers, body.len(), body[..body.len() / 2].to_vec())
}

/// Returns the correct bytes with a wrong range in the header.
fn mislabelled(request: &Request) -> Reply {
    let (status, mut headers, body) = parts(request);
    for (name, value) in &mut headers {
        if *name == "content-range" {
            *value = format!("bytes 7-{}/{SIZE}", 7 + body.len() - 1);
        }
    }
    Reply::Answer(status, headers, body)
}

/// Returns too few bytes, with a correct content length.
fn scant(request: &Request) -> Reply {
    let (status, headers, body) = parts(request);
    Reply::Answer(status, headers, body[..body.len() - 1].to_vec())
}

fn busy(_: &Request) -> Reply {
    Reply::Answer(503, Vec::new(), b"busy".to_vec())
}

fn closed(_: &Request) -> Reply {
    Reply::Close
}

#[test]
fn what_passes_is_not_noticed() {
    for (name, wrong) in [
        ("short", short as fn(&Request) -> Reply),
        ("silent", silent),
        ("scant", scant),
        ("busy", busy),
        ("closed", closed),
    ] {
        // The first reply for every block is wrong, and the second is correct.
        let server = Server::start(move |request, before| {
            if before % 2 == 0 {
                wrong(request)
            } else {
                right(request)
            }
        });
        let storage = Storage::new(StorageConfig {
            ahead_blocks: 1,
            attempts: 8,
            ..impatient("http://none")
        });
        let found = read(&storage.unwrap(), &server.url("file"));
        assert!(
            found == Ok(content()),
            "{name}: {:?}",
            found.map(|bytes| bytes.len())
        );
    }
}

#[test]
fn lasting_failures_name_object_range_and_cause() {
    for (wrong, causes) in [
        (
            short as fn(&Request) -> Reply,
            &["32768 of 65536 bytes", "3 attempts"][..],
        ),
        (silent, &["timed out"]),
        (scant, &["65535 of the requested 65536 bytes"]),
        (mislabelled, &["Requested 65536..131072, got 7..65543"]),
        (busy, &["503", "busy"]),
        (closed, &["connection closed"]),
    ] {
        // The first reply is correct, so that the object can be opened.
        let server = Server::start(move |request, before| match before {
            0 => right(request),
            _ => wrong(request),
        });
        let storage = Storage::new(impatient("http://none")).unwrap();
        let mut object = storage.open(&server.url("file")).unwrap();
        object.seek(SeekFrom::Start(70_000)).unwrap();
        let failed = object.read(&mut [0; 10]).unwrap_err().to_string();
        let place = format!("cannot read bytes 65536 to 131072 of {}", server.url("file"));
        assert!(failed.contains(&place), "{failed}");
        // The retries of the HTTP client may change the text of the error.
        assert!(
            causes.iter().any(|cause| failed.contains(cause)),
            "{causes:?}: {failed}"
        );
    }
}

#[test]
fn a_silent_server_is_given_up() {
    let server = Server::start(|_, _| Reply::Silence(206, Vec::new(), 10, Vec::new()));
    let refused = read(
        &Storage::new(impatient("http://none")).unwrap(),
        &server.url("file"),
    );
    assert!(refused.is_err());
    let drip = Server::start(|request, _| silent(request));
    let hurried = StorageConfig {
        deadline: Duration::from_millis(300),
        stall: Duration::from_secs(60),
        ..config("http://none")
    };
    let refused = read(&Storage::new(hurried).unwrap(), &drip.url("file")).unwrap_err();
    assert!(refused.contains("cannot open"), "{refused}");
}

#[test]
fn a_tasks_end_wakes_waiting_readers() {
    let (told, asked) = mpsc::channel();
    let server = Server::start(move |request, before| match before {
        0 => right(request),
        _ => {
            let _ = told.send(());
            silent(request)
        }
    });
    let cancel = Cancel::new();
    let storage = storage("http://none").until(&cancel);
    let mut object = storage.open(&server.url("file")).unwrap();
    let reader = std::thread::spawn(move || {
        object.seek(SeekFrom::Start(70_000)).unwrap();
        object.read(&mut [0; 10]).unwrap_err().to_string()
    });
    asked.recv().unwrap();
    cancel.cancel();
    let said = reader.join().unwrap();
    assert!(said.contains("the task was cancelled"), "{said}");
}

#[test]
fn a_changing_object_is_an_error() {
    for has_marks in [true, false] {
        let server = Server::start(move |request, before| {
            let changed = noise(SIZE, 10);
            let (content, mark) = if before == 0 {
                (content(), "\"a\"")
            } else {
                (changed, "\"b\"")
            };
            match answer(request, &content, mark) {
                Reply::Answer(status, headers, body) if !has_marks => {
                    let modified = format!("Sun, 06 Nov 1994 08:49:3{} GMT", before.min(1));
                    let ranges = headers.into_iter().filter(|(name, _)| *name == "content-range");
                    let headers = ranges.chain([("last-modified", modified)]);
                    Reply::Answer(status, headers.collect(), body)
                }
                reply @ (Reply::Answer(..) | Reply::Short(..) | Reply::Silence(..) | Reply::Close) => reply,
            }
        });
        let failed = read(&storage("http://none"), &server.url("file")).unwrap_err();
        assert!(failed.contains("was changed while it was read"), "{failed}");
    }
}

#[test]
fn who_is_to_blame_is_told() {
    let s3 = S3::start();
    s3.put("file", b"content");
    let mut wrong_secret = config(&s3.endpoint());
    wrong_secret
        .options
        .insert("AWS_SECRET_ACCESS_KEY".to_owned(), "wrong".to_owned());
    let mut no_http = config(&s3.endpoint());
    no_http
        .options
        .insert("AWS_ALLOW_HTTP".to_owned(), "false".to_owned());
    let mut unknown = config(&s3.endpoint());
    unknown.options.insert("AWS_NONSENSE".to_owned(), "1".to_owned());
    let quick = |config| StorageConfig {
        attempts: 1,
        ..config
    };
    for (config, path, kind, reason) in [
        (
            config(&s3.endpoint()),
            "s3://bucket/none",
            ErrorKind::NotFound,
            "object does not exist",
        ),
        (
            config(&s3.endpoint()),
            "s3://none/file",
            ErrorKind::NotFound,
            "does not exist",
        ),
        (
            config(&s3.endpoint()),
            "s3://bucket//a",
            ErrorKind::Caller,
            "name of the object",
        ),
        (
            config(&s3.endpoint()),
            "gopher://bucket/a",
            ErrorKind::Caller,
            "unknown scheme gopher://",
        ),
        (
            wrong_secret,
            "s3://bucket/file",
            ErrorKind::Caller,
            "refuses access",
        ),
        (no_http, "s3://bucket/file", ErrorKind::Caller, "AWS_ALLOW_HTTP"),
        (unknown, "s3://bucket/file", ErrorKind::Caller, "aws_nonsense"),
        (
            config("http://127.0.0.1:1"),
            "s3://bucket/file",
            ErrorKind::Peer,
            "127.0.0.1:1",
        ),
    ] {
        let refused = Storage::new(quick(config)).unwrap().open(path).unwrap_err();
        assert_eq!(refused.kind(), kind, "{path}: {refused}");
        assert!(refused.to_string().contains(reason), "{path}: {refused}");
    }
}

#[test]
fn failing_storage_names_file_and_bytes() {
    let server = Server::start(move |request, before| {
        let text = b"line\n".repeat(30_000);
        match before {
            0 => answer(request, &text, "\"mark\""),
            _ => busy(request),
        }
    });
    let graph = Dataset::files(server.url("file")).text_lines().graph().unwrap();
    let context = ExecContext {
        storage: Storage::new(impatient("http://none")).unwrap(),
        ..context()
    };
    let mut executor = Executor::open(&graph, context).unwrap();
    let error = loop {
        match executor.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the file ended"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
    let said = error.to_string();
    assert!(
        said.contains("cannot read bytes 65536 to") && said.contains("503"),
        "{said}"
    );
}

#[test]
fn recovered_storage_loses_and_repeats_nothing() {
    let text: Vec<u8> = (0..30_000u32)
        .flat_map(|line| format!("{line}\n").into_bytes())
        .collect();
    let whole = text.clone();
    let server = Server::start(move |request, before| match before {
        // More failures than the storage retries for one block.
        1..=8 => busy(request),
        _ => answer(request, &text, "\"mark\""),
    });
    let lines = Dataset::files(server.url("file")).text_lines();
    let read = |policy: ErrorPolicy| {
        let context = ExecContext {
            storage: Storage::new(impatient("http://none")).unwrap(),
            ..context()
        };
        let graph = lines.clone().on_error(policy).graph().unwrap();
        let mut executor = Executor::open(&graph, context).unwrap();
        let mut found = Vec::new();
        loop {
            match executor.next() {
                Ok(Some(item)) => {
                    item.value[0].for_each_string(&mut |line| found.extend([line, b"\n"].concat()));
                }
                Ok(None) => return (found, executor.failures().by_operation, None),
                Err(error) => return (found, executor.failures().by_operation, Some(error)),
            }
        }
    };
    let (found, counted, error) = read(ErrorPolicy::retry(20));
    assert!(error.is_none(), "{error:?}");
    assert!(found == whole, "{} bytes of {}", found.len(), whole.len());
    assert!(counted["text_lines"].retried > 0 && counted["text_lines"].skipped == 0);
    // Storage that stays unavailable is an error, and no data is skipped.
    let gone = Server::start(|request, _| busy(request));
    let gone = Dataset::files(gone.url("file")).text_lines();
    let context = ExecContext {
        storage: Storage::new(impatient("http://none")).unwrap(),
        ..context()
    };
    let graph = gone.on_error(ErrorPolicy::retry(1).then_skip()).graph().unwrap();
    let error = Executor::open(&graph, context).unwrap().next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Peer);
}
