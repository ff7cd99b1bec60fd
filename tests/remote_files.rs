//! Tests of workers that read files from an object store instead of the service's machines.

use std::io::Write;

use millstream::client::ReaderConfig;
use millstream::control::Policy;
use millstream::element::Element;
use millstream::pipeline::graph::{Compression, Dataset};
use millstream::pipeline::record::TfRecordWriter;
use millstream::{ReadRequest, Service, ServiceConfig};

use crate::support::cluster::fresh_key;
use crate::support::process::Process;
use crate::support::s3::S3;
use crate::support::watched;

const FILES: usize = 6;
const RECORDS: usize = 50;

fn bytes(element: &Element) -> Vec<u8> {
    let view = element.component(0).expect("a component");
    let strings = view.strings().expect("strings");
    strings.iter().next().expect("one").to_vec()
}

#[test]
fn workers_cache_a_stores_files() {
    watched("remote files", || {
        let s3 = S3::start();
        for file in 0..FILES {
            let stream = std::fs::File::create(s3.bucket().join(format!("{file}.tfrecord"))).unwrap();
            let mut writer = TfRecordWriter::new(std::io::BufWriter::new(stream));
            for record in 0..RECORDS {
                writer.write(format!("{record} of {file}").as_bytes()).unwrap();
            }
            writer.finish().unwrap().flush().unwrap();
        }
        // There is one file with many lines, so there are more workers than files.
        let lines: Vec<String> = (0..600_000)
            .map(|line| format!("line number {line:07}"))
            .collect();
        std::fs::write(s3.bucket().join("text.txt"), lines.join("\n")).unwrap();
        let cache = tempfile::tempdir().unwrap();
        let (key, key_text) = fresh_key();
        let environment = s3.environment();
        let dispatcher = Process::start_in(&environment, &key_text, &["dispatcher", "--bind", "127.0.0.1:0"]);
        let directory = cache.path().display().to_string();
        let arguments = [
            "worker",
            "--dispatcher",
            &dispatcher.address,
            "--cache-dir",
            &directory,
        ];
        let workers = [(); 2].map(|()| Process::start_in(&environment, &key_text, &arguments));
        let service = Service::connect(&key, &dispatcher.address, ServiceConfig::default()).unwrap();
        let read = |dataset: Dataset, epoch| {
            let dataset = service.register(dataset, None).unwrap();
            let job = service.job(&ReadRequest::new(dataset, Policy::Dynamic)).unwrap();
            let reader = service.read(job, epoch, &ReaderConfig::default()).unwrap();
            let mut found: Vec<Vec<u8>> = reader.map(|element| bytes(&element.unwrap())).collect();
            found.sort_unstable();
            found
        };
        let records = || Dataset::files("s3://bucket/*.tfrecord").tfrecord(Compression::None);
        let mut expected: Vec<Vec<u8>> = (0..FILES)
            .flat_map(|file| (0..RECORDS).map(move |record| format!("{record} of {file}").into_bytes()))
            .collect();
        expected.sort_unstable();
        for epoch in 0..2 {
            assert_eq!(read(records(), epoch), expected, "epoch {epoch}");
        }
        let found = read(Dataset::files("s3://bucket/text.txt").text_lines(), 0);
        assert!(
            found.iter().eq(lines.iter().map(String::as_bytes)),
            "{} lines",
            found.len()
        );
        drop(service);
        assert!(workers.into_iter().all(Process::ends_well));
        assert!(dispatcher.ends_well());
        let kept = std::fs::read_dir(cache.path()).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.len() == 2
        });
        assert!(kept.count() > 1, "blocks are kept");
    });
}

#[test]
fn an_unmatched_store_pattern_reaches_the_reader() {
    watched("no remote files", || {
        let s3 = S3::start();
        let (key, key_text) = fresh_key();
        let arguments = ["dispatcher", "--bind", "127.0.0.1:0"];
        let dispatcher = Process::start_in(&s3.environment(), &key_text, &arguments);
        let service = Service::connect(&key, &dispatcher.address, ServiceConfig::default()).unwrap();
        let dataset = Dataset::files("s3://bucket/none/*.txt").text_lines();
        let dataset = service.register(dataset, None).unwrap();
        let job = service.job(&ReadRequest::new(dataset, Policy::Dynamic)).unwrap();
        let refused = match service.read(job, 0, &ReaderConfig::default()) {
            Err(refused) => refused.to_string(),
            Ok(mut reader) => reader.next().unwrap().unwrap_err().to_string(),
        };
        assert!(
            refused.contains("s3://bucket/none/*.txt") && refused.contains("matches no object"),
            "{refused}"
        );
    });
}
