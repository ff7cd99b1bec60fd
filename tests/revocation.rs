//! Tests of keys and certificates that an operator revokes while the service runs.

use std::path::Path;
use std::time::{Duration, Instant};

use millstream::client::ReaderConfig;
use millstream::control::Policy;
use millstream::link::{ClusterKey, KeySource, LoadedKey, PublicKeys, Role};
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};

use crate::support::process::Process;
use crate::support::watched;

/// The time limit for a revoked trainer to notice, a hundred times the usual time.
const PATIENCE: Duration = Duration::from_secs(60);

struct Guarded {
    key: ClusterKey,
    dispatcher: Process,
    _worker: Process,
}

impl Guarded {
    /// Starts a dispatcher and a worker with the revocation list `list` and an audit log at `audit`.
    fn start(list: &Path, audit: &Path) -> Guarded {
        let key = ClusterKey::generate().expect("randomness");
        let revoked = ["--revoked", list.to_str().expect("a path")];
        let audit = ["--audit-log", audit.to_str().expect("a path")];
        let arguments = [&["dispatcher", "--bind", "127.0.0.1:0"][..], &revoked, &audit].concat();
        let dispatcher = Process::start(&key.to_text(), &arguments);
        let arguments = [&["worker", "--dispatcher", &dispatcher.address][..], &revoked].concat();
        let _worker = Process::start(&key.to_text(), &arguments);
        Guarded {
            key,
            dispatcher,
            _worker,
        }
    }

    fn connect(&self, role: Role) -> Result<Service, String> {
        let config = ServiceConfig {
            no_shared_memory: true,
            ..ServiceConfig::default()
        };
        Service::connect(&held(&self.key, role), &self.dispatcher.address, config)
            .map_err(|error| error.to_string())
    }
}

/// Returns the loaded key of one role.
fn held(key: &ClusterKey, role: Role) -> LoadedKey {
    KeySource::from_setting(&key.role_key(role).to_text())
        .load()
        .expect("a key")
}

/// Reads an endless dataset until reading fails, and returns the error.
fn read_until_refused(trainer: &Service, request: &ReadRequest, begun: impl FnOnce()) -> String {
    let job = trainer.job(request).expect("a job");
    let mut reader = trainer.read(job, 0, &ReaderConfig::default()).expect("a reader");
    reader.next().expect("an element").expect("served");
    begun();
    let deadline = Instant::now() + PATIENCE;
    for element in reader {
        if let Err(error) = element {
            return error.to_string();
        }
        assert!(Instant::now() < deadline, "the trainer reads on");
    }
    panic!("the dataset is endless");
}

#[test]
fn a_leaked_key_is_revoked_alone() {
    watched("a revocation", || {
        let folder = tempfile::tempdir().expect("a directory");
        let [list, audit] = ["revoked", "audit"].map(|name| folder.path().join(name));
        std::fs::write(&list, "").expect("a file");
        let service = Guarded::start(&list, &audit);
        let owner = service.connect(Role::Submit).expect("a submitter");
        let dataset = owner
            .register(Dataset::range(0, 1000, 1).repeat(None), None)
            .expect("registered");
        let request = ReadRequest::new(dataset, Policy::Off);
        let leaked = service.connect(Role::Read).expect("not revoked yet");
        let why = read_until_refused(&leaked, &request, || {
            let keys = PublicKeys::from(&service.key).to_text();
            std::fs::write(&list, format!("read {keys}\n")).expect("the list");
        });
        assert!(why.contains("revoked"), "{why}");
        let again = service.connect(Role::Read).expect_err("revoked");
        assert!(again.contains("revoked"), "{again}");
        // The audit log names the owner's certificate, so the certificate alone can be revoked.
        let why = read_until_refused(&owner, &request, || {
            let digest = digest_of_submitter(&audit);
            std::fs::write(&list, format!("sha256:{digest}\n")).expect("the list");
        });
        assert!(why.contains("revoked"), "{why}");
        service
            .connect(Role::Submit)
            .expect("another certificate of the same key");
    });
}

/// Returns the digest of the certificate of the process that registered the dataset.
fn digest_of_submitter(audit: &Path) -> String {
    let log = std::fs::read_to_string(audit).expect("an audit log");
    let line = log
        .lines()
        .find(|line| line.contains("\"submit\""))
        .expect("a line of the submitter");
    let entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
    entry["certificate"].as_str().expect("a digest").to_owned()
}
