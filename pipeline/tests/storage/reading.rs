//! Tests that reading from a store returns the bytes of the object.

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

use millstream_pipeline::exec::{Cancel, ExecContext, Executor};
use millstream_pipeline::graph::{Compression, Dataset};
use millstream_pipeline::record::TfRecordWriter;
use millstream_pipeline::storage::{Storage, StorageConfig};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::context;

use super::s3::S3;
use super::server::{Reply, Server, answer};
use super::{config, noise, read, storage};

/// The calls that the test makes on a reader.
#[derive(Debug, Clone)]
enum Move {
    Read(usize),
    Seek(SeekFrom),
    At(u64, usize),
}

const SIZE: usize = 300_000;

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let offset = 0..SIZE as u64 + 5;
    let one = prop_oneof![
        4 => (0_usize..100_000).prop_map(Move::Read),
        1 => offset.clone().prop_map(|offset| Move::Seek(SeekFrom::Start(offset))),
        1 => (-50_000_i64..50_000).prop_map(|by| Move::Seek(SeekFrom::Current(by))),
        1 => (-(SIZE as i64)..5).prop_map(|by| Move::Seek(SeekFrom::End(by))),
        2 => (offset, 0_usize..100_000).prop_map(|(offset, count)| Move::At(offset, count)),
    ];
    prop::collection::vec(one, 1..30)
}

#[test]
fn random_access_reads_the_right_bytes() {
    let s3 = S3::start();
    let content = noise(SIZE, 1);
    s3.put("noise", &content);
    let storage = storage(&s3.endpoint());
    proptest!(rounds(12), |(moves in moves())| {
        let mut object = storage.open("s3://bucket/noise").unwrap();
        let mut model = Cursor::new(&content);
        prop_assert_eq!(object.len(), SIZE as u64);
        for step in moves {
            match step {
                Move::Read(count) => {
                    let (mut found, mut expected) = (Vec::new(), Vec::new());
                    Read::by_ref(&mut object).take(count as u64).read_to_end(&mut found).unwrap();
                    Read::by_ref(&mut model).take(count as u64).read_to_end(&mut expected).unwrap();
                    prop_assert!(found == expected, "{} bytes of {}", found.len(), expected.len());
                }
                Move::Seek(to) => match model.seek(to) {
                    Ok(position) => prop_assert_eq!(object.seek(to).unwrap(), position),
                    Err(_) => prop_assert!(object.seek(to).is_err()),
                },
                Move::At(offset, count) => {
                    let mut found = vec![0; count];
                    let outcome = object.read_exact_at(offset, &mut found);
                    match content.get(offset as usize..).and_then(|rest| rest.get(..count)) {
                        Some(expected) => prop_assert!(outcome.is_ok() && found == expected),
                        None => {
                            let error = outcome.unwrap_err();
                            prop_assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{}", error);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn clones_read_at_their_own_pace() {
    let s3 = S3::start();
    let content = noise(SIZE, 2);
    s3.put("noise", &content);
    let storage = storage(&s3.endpoint());
    let object = storage.open("s3://bucket/noise").unwrap();
    let readers = (0..4_u64).map(|number| {
        let (mut object, content) = (object.clone(), content.clone());
        std::thread::spawn(move || {
            let begin = object.seek(SeekFrom::Start(number * 70_000)).unwrap() as usize;
            let mut found = Vec::new();
            object.read_to_end(&mut found).unwrap();
            assert!(found == content[begin..]);
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.join().unwrap();
    }
}

#[test]
fn empty_and_oddly_named_objects_are_read() {
    let s3 = S3::start();
    for (name, size) in [
        ("empty", 0),
        ("a b+ü%20.txt", 10),
        ("d/e/block", 65_536),
        ("blocks", 131_072),
    ] {
        let content = noise(size, 3);
        s3.put(name, &content);
        let found = read(&storage(&s3.endpoint()), &format!("s3://bucket/{name}"));
        assert!(found == Ok(content), "{name}: {found:?}");
    }
}

#[test]
fn stores_and_disks_yield_the_same() {
    let s3 = S3::start();
    for file in 0..3_u8 {
        let lines: Vec<String> = (0..2000).map(|line| format!("{file} {line}")).collect();
        s3.put(&format!("text/{file}.txt"), lines.join("\n").as_bytes());
        let mut writer = TfRecordWriter::new(Vec::new());
        for record in 0..200 {
            writer.write(&noise(500, record)).unwrap();
        }
        s3.put(&format!("records/{file}.tfrecord"), &writer.finish().unwrap());
    }
    let (storage, mut found) = (storage(&s3.endpoint()), Vec::new());
    let (stored, local) = ("s3://bucket", s3.bucket().display().to_string());
    for root in [stored, &local] {
        let text = Dataset::files(format!("{root}/text/*.txt")).text_lines();
        let records = Dataset::files(format!("{root}/records/*.tfrecord")).tfrecord(Compression::None);
        found.push([text, records].map(|dataset| elements(&storage, dataset)));
    }
    let counts = found[0].each_ref().map(Vec::len);
    assert_eq!(counts, [6000, 600]);
    assert!(found[0] == found[1]);
}

/// Returns the elements of a dataset with one component. The executor is saved and restored after 300
/// elements.
fn elements(storage: &Storage, dataset: Dataset) -> Vec<Vec<u8>> {
    let graph = dataset.graph().unwrap();
    let context = || ExecContext {
        storage: storage.clone(),
        ..context()
    };
    let mut executor = Executor::open(&graph, context()).unwrap();
    let mut found = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        found.push(item.value[0].contiguous().unwrap().to_vec());
        if found.len() == 300 {
            let state = executor.save().unwrap();
            executor = Executor::open(&graph, context()).unwrap();
            executor.restore(&state).unwrap();
        }
    }
    found
}

#[test]
fn only_sequential_files_are_read_ahead() {
    let content = noise(64 * 65_536, 4);
    let server = Server::right(content.clone(), "\"mark\"");
    let storage = storage("http://none");
    let mut object = storage.open(&server.url("file")).unwrap();
    let mut some = vec![0; 1000];
    for block in [3_u64, 9, 30] {
        object.seek(SeekFrom::Start(block * 65_536)).unwrap();
        object.read_exact(&mut some).unwrap();
    }
    drop(object);
    assert_eq!(
        server.requests().len(),
        4,
        "expected requests for the beginning and for three blocks"
    );
    assert_eq!(read(&storage, &server.url("file")), Ok(content));
    let requests = server.requests();
    assert_eq!(requests.len(), 4 + 64, "every block once");
    let late = requests
        .iter()
        .filter(|request| request.header("if-match").is_none());
    assert_eq!(
        late.count(),
        2,
        "expected later requests to demand the version of the beginning"
    );
}

#[test]
fn open_files_share_bounded_memory() {
    let content = noise(20 * 65_536, 5);
    let server = Server::right(content.clone(), "\"mark\"");
    let tight = StorageConfig {
        memory_bytes: 1,
        ..config("http://none")
    };
    let storage = Storage::new(tight).unwrap();
    let mut objects: Vec<_> = (0..4)
        .map(|_| storage.open(&server.url("file")).unwrap())
        .collect();
    let mut found = vec![Vec::new(); 4];
    for _ in 0..content.len().div_ceil(10_000) {
        for (object, found) in objects.iter_mut().zip(&mut found) {
            object.take(10_000).read_to_end(found).unwrap();
        }
    }
    assert!(found.iter().all(|found| *found == content));
    assert_eq!(server.requests().len(), 4 * 20, "expected no repeated requests");
}

#[test]
fn a_server_without_ranges_is_read_whole() {
    let content = noise(200_000, 6);
    let (served, method) = (content.clone(), Arc::new(()));
    let server = Server::start(move |_, _| {
        let _ = &method;
        Reply::Answer(200, Vec::new(), served.clone())
    });
    let storage = storage("http://none");
    assert_eq!(read(&storage, &server.url("file")), Ok(content.clone()));
    let mut object = storage.open(&server.url("file")).unwrap();
    object.seek(SeekFrom::End(-10)).unwrap();
    let mut found = Vec::new();
    object.read_to_end(&mut found).unwrap();
    assert_eq!(found, content[content.len() - 10..]);
    let small = StorageConfig {
        spool_bytes: 1000,
        ..config("http://none")
    };
    let refused = read(&Storage::new(small).unwrap(), &server.url("file")).unwrap_err();
    assert!(
        refused.contains("200000 bytes") && refused.contains("spool_bytes"),
        "{refused}"
    );
}

#[test]
fn redirections_are_followed_and_queries_hidden() {
    let content = noise(100_000, 7);
    let served = content.clone();
    let server = Server::start(move |request, _| {
        if request.target.starts_with("/first") {
            Reply::Answer(
                302,
                vec![("location", request.target.replace("first", "second"))],
                Vec::new(),
            )
        } else if request.target == "/second?signature=hush" {
            answer(request, &served, "\"mark\"")
        } else {
            Reply::Answer(403, Vec::new(), Vec::new())
        }
    });
    let storage = storage("http://none");
    assert_eq!(read(&storage, &server.url("first?signature=hush")), Ok(content));
    let object = storage.open(&server.url("first?signature=hush")).unwrap();
    assert!(object.path().ends_with("first?..."), "{}", object.path());
    let refused = storage
        .open(&server.url("first?signature=wrong&hush"))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("refuses access") && !refused.contains("hush"),
        "{refused}"
    );
}

#[test]
fn redirects_lead_only_to_what_may_be_read() {
    let private = Server::right(noise(1000, 8), "\"mark\"");
    let elsewhere = private.url("file");
    let open = Server::start(move |request, _| {
        let to = match request.target.as_str() {
            "/metadata" => "http://169.254.169.254/latest/meta-data/".to_owned(),
            "/file" => return answer(request, b"allowed", "\"mark\""),
            "/inside" => "/file".to_owned(),
            _ => elsewhere.clone(),
        };
        Reply::Answer(302, vec![("location", to)], Vec::new())
    });
    let refused = |storage: &Storage, path: &str| read(storage, &open.url(path)).unwrap_err();
    let anything = storage("http://none");
    let error = refused(&anything, "metadata");
    assert!(error.contains("credentials"), "{error}");
    assert_eq!(read(&anything, &open.url("private")).unwrap().len(), 1000);
    let confined = StorageConfig {
        allowed: vec![open.url("")],
        ..config("http://none")
    };
    let confined = Storage::new(confined).unwrap();
    assert_eq!(read(&confined, &open.url("inside")).unwrap(), b"allowed");
    let error = refused(&confined, "private");
    assert!(error.contains("--allow-path"), "{error}");
}

#[test]
fn the_storage_thread_ends_with_its_user() {
    let server = Server::right(noise(1000, 8), "\"mark\"");
    let storage = storage("http://none");
    let object = storage.open(&server.url("file")).unwrap();
    drop(storage);
    let mut found = [0; 10];
    object.read_exact_at(990, &mut found).unwrap();
    drop(object);
    // Dropping the server joins its thread, which ends when its last connection is closed.
    drop(server);
}

#[test]
fn a_task_that_was_cancelled_opens_nothing() {
    let cancel = Cancel::new();
    let storage = storage("http://none").until(&cancel);
    cancel.cancel();
    let refused = storage.open("/dev/null").unwrap_err().to_string();
    assert!(refused.contains("cancelled"), "{refused}");
    assert!(
        storage
            .list("/dev/*")
            .unwrap_err()
            .to_string()
            .contains("cancelled")
    );
}
