//! The audit log: one line of JSON for each connection and each audited request of a process (C15.7).
//!
//! This file owns the log's file and the thread that writes it. Lines name roles, addresses and
//! certificates, and never a key, a ticket or a session. The dispatcher never waits for the file. Lines
//! that the disk does not take in time are dropped and counted, and the log records the count.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::SystemTime;

use aws_lc_rs::digest::{SHA256, digest};
use millstream_link::Role;
use serde_json::{Map, Value, json};

use crate::dispatcher::{Reply, Request};
use crate::error::Error;

/// Maximum number of lines that wait for the disk.
const LINES_MAX: usize = 4096;
/// Maximum bytes of a process's text, such as a name, in the log.
const TEXT_BYTES_MAX: usize = 256;

/// A file of audit lines. Clones write to the same file. The file is complete when the last clone is
/// dropped and its thread has ended.
#[derive(Clone, Debug)]
pub struct AuditLog {
    lines: SyncSender<Value>,
    missed: Arc<AtomicU64>,
}

/// The process that makes a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) role: Role,
    pub(super) address: SocketAddr,
    /// The SHA-256 of the process's certificate.
    pub(super) certificate: [u8; 32],
}

impl AuditLog {
    /// Opens a file for appending, and creates it with access for its user alone if it does not exist. A
    /// program that rotates the log may truncate the file.
    ///
    /// # Errors
    /// The file cannot be opened, or the system cannot start a thread.
    pub fn open(path: &Path) -> io::Result<AuditLog> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        let (lines, queue) = sync_channel(LINES_MAX);
        let missed = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&missed);
        std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(file, &queue, &counted))?;
        Ok(AuditLog { lines, missed })
    }

    /// Writes a line for a connection that was admitted.
    pub(super) fn connected(&self, asker: Asker) {
        self.write(asker, "connect", Map::new(), "ok");
    }

    /// Writes a line for a request that [`audited`] described, with the request's result.
    pub(super) fn asked(&self, asker: Asker, audited: Audited, result: &Result<Reply, Error>) {
        let Audited { event, mut fields } = audited;
        match result {
            Ok(Reply::Dataset(id)) => _ = fields.insert("dataset".to_owned(), json!(id.as_str())),
            Ok(Reply::Job(id)) => _ = fields.insert("job".to_owned(), json!(id.0)),
            Ok(Reply::Client(id, _)) => _ = fields.insert("client".to_owned(), json!(id.0)),
            Ok(_) => {}
            Err(error) => _ = fields.insert("reason".to_owned(), json!(short(&error.message))),
        }
        let outcome = match result {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.code.to_string(),
        };
        self.write(asker, event, fields, &outcome);
    }

    fn write(&self, asker: Asker, event: &str, fields: Map<String, Value>, outcome: &str) {
        let mut line = Map::new();
        line.insert("time".to_owned(), json!(now()));
        line.insert("event".to_owned(), json!(event));
        line.insert("role".to_owned(), json!(asker.role.name()));
        line.insert("address".to_owned(), json!(asker.address.to_string()));
        line.insert("certificate".to_owned(), json!(hex(&asker.certificate)));
        line.extend(fields);
        line.insert("outcome".to_owned(), json!(outcome));
        if self.lines.try_send(Value::Object(line)).is_err() {
            // Relaxed: the count only serves people, and orders nothing.
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The part of a request that its audit line shows.
#[derive(Debug)]
pub(super) struct Audited {
    event: &'static str,
    fields: Map<String, Value>,
}

/// Returns the part of a request that its audit line shows. `None` for requests that only continue an
/// earlier request.
pub(super) fn audited(request: &Request) -> Option<Audited> {
    let (event, fields) = match request {
        Request::RegisterDataset { id, definition, .. } => (
            "register_dataset",
            json!({
                "dataset": id.as_ref().map(|id| id.as_str().to_owned()),
                "definition_sha256": hex(digest(&SHA256, definition).as_ref()),
            }),
        ),
        Request::ReadDefinition { id } => ("read_definition", json!({ "dataset": id.as_str() })),
        Request::CreateJob { name, parameters } => (
            "create_job",
            json!({ "dataset": parameters.dataset.as_str(), "name": name.as_deref().map(short) }),
        ),
        Request::OpenIteration { job, repetition, .. } => (
            "open_iteration",
            json!({ "job": job.0, "repetition": repetition }),
        ),
        Request::RegisterWorker(worker) => ("register_worker", json!({ "worker": short(&worker.address) })),
        Request::LeaveWorker => ("leave_worker", json!({})),
        Request::DrainWorker => ("drain_worker", json!({})),
        Request::Shutdown { by } => ("shutdown", json!({ "by": short(by) })),
        Request::DescribeDataset { .. }
        | Request::Attach { .. }
        | Request::Release { .. }
        | Request::Acknowledge { .. }
        | Request::SplitsDone { .. }
        | Request::SplitsWaiting(..)
        | Request::TaskDrained { .. }
        | Request::SuspectWorker { .. }
        | Request::RoundReady { .. }
        | Request::VerdictHeard { .. }
        | Request::Status
        | Request::DescribeTask { .. }
        | Request::LeaseSplits { .. }
        | Request::ReturnSplits { .. }
        | Request::SplitsProduced { .. }
        | Request::SplitsMissed(..)
        | Request::SplitsShared(..)
        | Request::FinishTask { .. }
        | Request::FailTask { .. } => return None,
    };
    let fields = fields.as_object().cloned().unwrap_or_default();
    Some(Audited { event, fields })
}

fn write_all(mut file: File, lines: &Receiver<Value>, missed: &AtomicU64) {
    let mut has_failed = false;
    while let Ok(line) = lines.recv() {
        let missed = missed.swap(0, Ordering::Relaxed);
        let mut text = String::new();
        if missed > 0 {
            text = format!(
                "{}\n",
                json!({ "time": now(), "event": "missed", "lines": missed })
            );
        }
        text = format!("{text}{line}\n");
        match file.write_all(text.as_bytes()) {
            Ok(()) => has_failed = false,
            Err(error) if !has_failed => {
                has_failed = true;
                tracing::error!(%error, "the audit log cannot be written: its lines are dropped meanwhile");
            }
            Err(_) => {}
        }
    }
}

fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::id::{DatasetId, JobId};
    use crate::job::{JobParameters, Policy};

    fn asker() -> Asker {
        Asker {
            role: Role::Read,
            address: ([127, 0, 0, 1], 4000).into(),
            certificate: [0xab; 32],
        }
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Tests that a line names the process, its request and the result (C15.7).
    #[test]
    fn lines_name_who_what_and_how_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let log = AuditLog::open(&path).unwrap();
        log.connected(asker());
        let request = Request::CreateJob {
            name: Some("a \"name\"\n".repeat(100)),
            parameters: JobParameters::new(DatasetId::new("pets").unwrap(), Policy::Dynamic),
        };
        let create = || audited(&request).unwrap();
        log.asked(asker(), create(), &Ok(Reply::Job(JobId(7))));
        log.asked(asker(), create(), &Err(Error::exhausted("too many")));
        drop(log);
        while lines(&path).len() < 3 {
            std::thread::yield_now();
        }
        let said = lines(&path);
        assert_eq!(said[0]["event"], "connect");
        assert_eq!(said[0]["role"], "read");
        assert_eq!(said[0]["address"], "127.0.0.1:4000");
        assert_eq!(said[0]["certificate"], "ab".repeat(32));
        assert_eq!(
            (&said[1]["dataset"], &said[1]["job"]),
            (&json!("pets"), &json!(7))
        );
        assert_eq!(said[1]["outcome"], "ok");
        assert_eq!(said[1]["name"].as_str().unwrap().len(), TEXT_BYTES_MAX);
        assert_eq!(said[2]["reason"], "too many");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn heartbeats_of_a_reading_are_not_audited() {
        assert!(audited(&Request::Status).is_none());
        assert!(
            audited(&Request::Release {
                client: crate::id::ClientId(1)
            })
            .is_none()
        );
    }
}
