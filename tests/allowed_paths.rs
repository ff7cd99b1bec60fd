//! Tests of processes that read only the files that their operator allows.

use std::path::Path;

use millstream::client::ReaderConfig;
use millstream::control::Policy;
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};

use crate::support::cluster::fresh_key;
use crate::support::process::Process;
use crate::support::watched;

/// Returns the number of lines of a file. The dispatcher and the worker that read the file get additional
/// flags.
fn read(dispatcher: &[&str], worker: &[&str], dataset: Dataset, policy: Policy) -> Result<usize, String> {
    let (key, key_text) = fresh_key();
    let arguments = [&["dispatcher", "--bind", "127.0.0.1:0"], dispatcher].concat();
    let dispatcher = Process::start(&key_text, &arguments);
    let arguments = [&["worker", "--dispatcher", &dispatcher.address], worker].concat();
    let _worker = Process::start(&key_text, &arguments);
    let service = Service::connect(&key, &dispatcher.address, ServiceConfig::default()).expect("a trainer");
    let dataset = service.register(dataset, None).expect("registered");
    let job = service.job(&ReadRequest::new(dataset, policy)).expect("a job");
    let reader = service.read(job, 0, &ReaderConfig::default());
    let mut lines = 0;
    for element in reader.map_err(|error| error.to_string())? {
        element.map_err(|error| error.to_string())?;
        lines += 1;
    }
    Ok(lines)
}

#[test]
fn no_process_reads_forbidden_paths() {
    watched("allowed paths", || {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["data", "private"] {
            std::fs::create_dir(at(name)).expect("a directory");
            std::fs::write(Path::new(&at(name)).join("a.txt"), "one\ntwo\n").expect("a file");
        }
        let (data, private) = (at("data"), at("private"));
        let allowed = ["--allow-path", &data];
        let lines = |folder: &str| Dataset::files(format!("{folder}/*.txt")).text_lines();
        assert_eq!(read(&allowed, &allowed, lines(&data), Policy::Dynamic), Ok(2));
        assert_eq!(read(&[], &allowed, lines(&data), Policy::Off), Ok(2));
        for (dispatcher, worker, policy) in [
            (&allowed[..], &[][..], Policy::Dynamic),
            (&[], &allowed, Policy::Dynamic),
            (&[], &allowed, Policy::Off),
        ] {
            let error = read(dispatcher, worker, lines(&private), policy).expect_err("not allowed");
            assert!(
                error.contains("--allow-path") && error.contains("private"),
                "{error}"
            );
        }
        // The operator also limits the folders that workers write to.
        let kept = lines(&data).cache_in(private);
        let error = read(&[], &allowed, kept, Policy::Off).expect_err("not allowed");
        assert!(error.contains("--allow-path"), "{error}");
    });
}
