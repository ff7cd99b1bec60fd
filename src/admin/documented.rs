//! Tests that the page `docs/reference/admin-api.md` names each field of each document, and no other field.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use millstream_control::rpc::Observed;
use millstream_control::{
    ClientLinks, DatasetId, DatasetStatus, ExactlyOnce, IterationId, JobId, JobParameters, JobStatus,
    LinkCounts, Moment, PoisonLimits, Policy, ServiceEvent, ServiceEventKind, SourceStatus, SplitRange,
    StageStatus, Status, WorkerLoad,
};
use serde::Serialize;
use serde_json::Value;

use super::dispatcher::{DispatcherFacts, StatusDocument};
use super::events::EventsDocument;
use super::history::History;
use super::rows::json_text;
use super::settings::{Setting, SettingsDocument};
use super::tests::{client, row, status, task};
use super::{trainer, worker};

const PAGE: &str = include_str!("../../docs/reference/admin-api.md");

/// Returns the paths that a section of the page names, such as `workers.load.memory_bytes`.
fn documented(section: &str) -> BTreeSet<String> {
    let title = format!("\n## {section}\n");
    let begin = PAGE.find(&title).expect("the section") + title.len();
    let text = &PAGE[begin..];
    let text = &text[..text.find("\n## ").unwrap_or(text.len())];
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let mut paths = BTreeSet::new();
    for row in rows {
        let (field, content) = row[2..].split_once(" | ").expect("two columns");
        let mut path = String::new();
        for name in quoted(field) {
            path = match name.strip_prefix('.') {
                Some(name) => format!("{}.{name}", path.rsplit_once('.').expect("a path").0),
                None => name.replace("[]", ""),
            };
            let ends = path.match_indices('.').map(|(end, _)| end);
            paths.extend(ends.chain([path.len()]).map(|end| path[..end].to_owned()));
            let fields = quoted(&without_parentheses(content));
            paths.extend(fields.iter().map(|field| format!("{path}.{field}")));
        }
    }
    paths
}

fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0;
    let is_outside = |character: &char| {
        depth += i32::from(*character == '(') - i32::from(*character == ')');
        depth == 0
    };
    text.chars().filter(is_outside).collect()
}

/// Returns the paths of a document.
fn written(document: &impl Serialize) -> BTreeSet<String> {
    fn add(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = format!("{path}{}{name}", if path.is_empty() { "" } else { "." });
                    add(value, &path, paths);
                    paths.insert(path);
                }
            }
            Value::Array(values) => {
                assert!(!values.is_empty(), "the example has no {path}");
                values.iter().for_each(|value| add(value, path, paths));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut paths = BTreeSet::new();
    add(
        &serde_json::from_str(&json_text(document)).unwrap(),
        "",
        &mut paths,
    );
    paths
}

/// Returns a status in which no list is empty, and no object is unknown.
fn full_status() -> Status {
    let mut row = row(vec![client(Some(0.5))], vec![task(0.5, "consumer")]);
    row.clients[0].links = Some(ClientLinks {
        counts: LinkCounts::default(),
        network_reason: Some("other host".to_owned()),
    });
    let range = SplitRange {
        source: 0,
        repetition: 0,
        first: 3,
        count: 1,
    };
    row.missing_consumers = vec![1];
    row.sources = vec![SourceStatus {
        repetition: 0,
        remaining: 1,
        done: 1,
        lost: 1,
    }];
    (row.lost, row.skipped) = (vec![range], vec![range]);
    let mut status = status(vec![row]);
    let worker = &mut status.workers[0];
    worker.tags = vec!["gpu".to_owned()];
    (worker.links, worker.load) = (Some(LinkCounts::default()), Some(WorkerLoad::default()));
    let dataset = DatasetId::new("numbers").unwrap();
    status.datasets = vec![DatasetStatus {
        id: dataset.clone(),
        cardinality: "infinite".to_owned(),
        definition_bytes: 1,
    }];
    let exactly_once = ExactlyOnce {
        files: None,
        quarantine: None,
        seed: 1,
        first: 0,
        step: 1,
        poison: PoisonLimits::default(),
    };
    status.jobs = vec![JobStatus {
        id: JobId(1001),
        name: "train".to_owned(),
        parameters: JobParameters {
            exactly_once: Some(exactly_once),
            ..JobParameters::new(dataset, Policy::Dynamic)
        },
    }];
    status
}

fn observed() -> Observed {
    let event = ServiceEvent {
        number: 1,
        at: Moment::from_secs(1),
        kind: ServiceEventKind::JobCreated,
        text: "Job 1001 was created.".to_owned(),
        job: Some(JobId(1001)),
    };
    Observed {
        status: full_status(),
        store_full: None,
        stages: BTreeMap::from([(IterationId(1), vec![StageStatus::default()])]),
        events: vec![event.into()],
        at: Moment::from_secs(2),
    }
}

#[test]
fn the_page_names_each_field_of_dispatchers() {
    let facts = DispatcherFacts::new(Some(observed()), 0);
    let status = written(&StatusDocument::new(&facts));
    assert_eq!(documented("`/api/v1/status`"), status);
    let mut history = History::default();
    history.add(SystemTime::UNIX_EPOCH, &full_status());
    assert_eq!(documented("`/api/v1/history`"), written(&history.document(None)));
    let observed = observed();
    let events = EventsDocument::new(Some(&observed), SystemTime::UNIX_EPOCH);
    assert_eq!(documented("`/api/v1/events`"), written(&events));
    let setting = Setting {
        name: "--bind".to_owned(),
        value: None,
        origin: "default".to_owned(),
    };
    let settings = written(&SettingsDocument::new(&[setting]));
    assert_eq!(documented("`/api/v1/settings`"), settings);
}

#[test]
fn the_page_names_each_field_of_processes() {
    let facts = worker::example();
    let worker = worker::StatusDocument::new("node1:5051", &facts);
    assert_eq!(documented("`/api/v1/status` of a worker"), written(&worker));
    let facts = trainer::TrainerFacts::new(vec![trainer::LoaderFacts::default()]);
    let trainer = trainer::StatusDocument::new(&facts);
    assert_eq!(documented("`/api/v1/status` of a trainer"), written(&trainer));
}
