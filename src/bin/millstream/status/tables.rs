//! The status of a service as text tables.

use millstream::admin::Verdict;
use millstream::control::{
    ClientStatus, DatasetStatus, IterationStatus, JobStatus, LinkCounts, Policy, Refusals, SplitRange,
    Status, TaskStatus, WorkerStatus,
};

use crate::console::{bytes_text, time_text};
use crate::table;

/// Returns the lines of all tables that have rows.
pub(super) fn lines(dispatcher: &str, status: &Status) -> Vec<String> {
    let counts = status.counts;
    let mut lines = vec![format!(
        "dispatcher {dispatcher}: {} workers, {} datasets, {} jobs, {} iterations, {} tasks, {} clients",
        counts.workers, counts.datasets, counts.jobs, counts.iterations, counts.tasks, counts.clients
    )];
    let verdict = Verdict::of(status, None, 0);
    lines.push(verdict.sentence);
    if !verdict.advice.is_empty() {
        lines.push(verdict.advice);
    }
    if let Some(wanted) = status.workers_wanted {
        let reason = &status.workers_wanted_reason;
        lines.push(format!("workers wanted: {wanted}, because {reason}"));
    }
    if let Some(estimate) = status.workers_estimated {
        lines.push(format!("{estimate} workers would keep the readers busy"));
    }
    lines.extend(refused(&status.refusals));
    for table in tables(status) {
        // A table with only a header is left out.
        if table.len() > 1 {
            lines.push(String::new());
            lines.extend(table);
        }
    }
    lines
}

/// Returns a line with the number of refusals since the dispatcher started, or `None` without refusals.
fn refused(refusals: &Refusals) -> Option<String> {
    let counts = [
        (
            "handshakes beyond the limit on concurrent handshakes",
            refusals.handshakes_busy,
        ),
        ("handshakes that failed", refusals.handshakes_failed),
        ("handshakes that timed out", refusals.handshakes_timed_out),
        ("connections beyond a quota", refusals.connections_over_quota),
        ("sessions of other processes", refusals.sessions),
        ("requests that a role does not permit", refusals.requests_denied),
        ("requests beyond a quota", refusals.requests_over_quota),
    ];
    let told = counts.iter().filter(|(_, count)| *count > 0);
    let told: Vec<_> = told.map(|(name, count)| format!("{count} {name}")).collect();
    (!told.is_empty()).then(|| format!("refused since the dispatcher started: {}", told.join(", ")))
}

fn tables(status: &Status) -> [Vec<String>; 8] {
    let is_dealt = |row: &IterationStatus| {
        let mut jobs = status.jobs.iter();
        jobs.any(|job| job.id == row.job && job.parameters.policy == Policy::Dynamic)
    };
    let all = &status.iterations;
    let workers: Vec<_> = status.workers.iter().map(worker).collect();
    let datasets: Vec<_> = status.datasets.iter().map(dataset).collect();
    let jobs: Vec<_> = status.jobs.iter().map(job).collect();
    let iterations: Vec<_> = all.iter().map(|row| iteration(row, is_dealt(row))).collect();
    let tasks: Vec<_> = all.iter().flat_map(tasks).collect();
    let clients: Vec<_> = all.iter().flat_map(clients).collect();
    let lost: Vec<_> = all.iter().flat_map(|row| ranges(row, &row.lost)).collect();
    let skipped: Vec<_> = all.iter().flat_map(|row| ranges(row, &row.skipped)).collect();
    [
        table::lines(
            [
                "WORKER", "ADDRESS", "STATE", "TASKS", "READ BY", "VERSION", "TAGS",
            ],
            &workers,
        ),
        table::lines(["DATASET", "ELEMENTS", "DEFINITION"], &datasets),
        table::lines(["JOB", "NAME", "DATASET", "SHARDING"], &jobs),
        table::lines(ITERATION, &iterations),
        table::lines(TASK, &tasks),
        table::lines(CLIENT, &clients),
        table::lines(["LOST IN", "SOURCE", "PASS", "FIRST SPLIT", "COUNT"], &lost),
        table::lines(["SKIPPED IN", "SOURCE", "PASS", "FIRST SPLIT", "COUNT"], &skipped),
    ]
}

/// The columns of an iteration. The last four columns count splits.
const ITERATION: [&str; 9] = [
    "ITERATION",
    "JOB",
    "PASS",
    "STATE",
    "CLIENTS",
    "DONE",
    "LEASED",
    "REMAINING",
    "LOST",
];

fn dataset(dataset: &DatasetStatus) -> [String; 3] {
    let definition = bytes_text(dataset.definition_bytes);
    [dataset.id.to_string(), dataset.cardinality.clone(), definition]
}

fn job(job: &JobStatus) -> [String; 4] {
    let dataset = job.parameters.dataset.to_string();
    let mut policy = job.parameters.policy.to_string();
    if let Some(consumers) = job.parameters.num_consumers {
        policy.push_str(&format!(", {consumers} consumers in step"));
    }
    if job.parameters.cross_trainer_cache {
        policy.push_str(", cross-trainer cache");
    }
    [job.id.to_string(), job.name.clone(), dataset, policy]
}

/// Describes the number of readers of a worker, by transport.
fn links(links: LinkCounts) -> String {
    let ways = [
        (links.memory, "memory"),
        (links.shared_memory, "shm"),
        (links.network, "quic"),
    ];
    let used = ways.into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = used.map(|(count, way)| format!("{count} {way}")).collect();
    if words.is_empty() {
        "-".to_owned()
    } else {
        words.join(", ")
    }
}

fn worker(worker: &WorkerStatus) -> [String; 7] {
    let state = match &worker.dead {
        Some(reason) => format!("dead: {reason}"),
        None => {
            let word = if worker.draining { "draining" } else { "alive" };
            format!("{word}, {:.1} s ago", worker.silent_ms as f64 / 1000.0)
        }
    };
    let (id, tasks, tags) = (
        worker.id.to_string(),
        worker.tasks.to_string(),
        worker.tags.join(","),
    );
    [
        id,
        worker.address.clone(),
        state,
        tasks,
        worker.links.map_or_else(|| "-".to_owned(), links),
        worker.version.clone(),
        tags,
    ]
}

/// Returns the row of an iteration. Only the policy DYNAMIC leases splits, so the row of another policy has
/// no counts.
fn iteration(iteration: &IterationStatus, is_dealt: bool) -> [String; 9] {
    let count = |splits: u64| {
        if is_dealt {
            splits.to_string()
        } else {
            "-".to_owned()
        }
    };
    let mut state = iteration.phase.name().to_owned();
    if iteration.waiting_for_workers {
        state.push_str(", waits for workers");
    }
    if let Some(first) = iteration.missing_consumers.first() {
        let more = iteration.missing_consumers.len() - 1;
        state.push_str(&format!(", waits for consumer {first}"));
        if more > 0 {
            state.push_str(&format!(" and {more} more"));
        }
    }
    [
        iteration.id.to_string(),
        iteration.job.to_string(),
        iteration.repetition.to_string(),
        state,
        iteration.clients.len().to_string(),
        count(iteration.splits_done),
        count(iteration.splits_leased),
        count(iteration.sources.iter().map(|source| source.remaining).sum()),
        count(iteration.splits_lost),
    ]
}

/// The columns of a task. ELEMENT is the time for one element without waits for readers. BOTTLENECK is the
/// stage that takes the largest part of this time.
const TASK: [&str; 9] = [
    "TASK",
    "ITERATION",
    "WORKER",
    "STATE",
    "LEASED",
    "ELEMENTS",
    "A SECOND",
    "ELEMENT",
    "BOTTLENECK",
];

fn tasks(iteration: &IterationStatus) -> impl Iterator<Item = [String; 9]> + '_ {
    let row = |task: &TaskStatus| {
        [
            task.id.to_string(),
            iteration.id.to_string(),
            task.worker_address.clone(),
            task.phase.clone(),
            task.splits_leased.to_string(),
            task.elements.to_string(),
            format!("{:.1}", task.elements_per_s),
            time_text(task.element_ns),
            task.bottleneck.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    iteration.tasks.iter().map(row)
}

/// The columns of a client. ELEMENT is the time that the client's user takes for one element, without waits.
/// WAITS is the share of the time in which the user waits for elements.
const CLIENT: [&str; 8] = [
    "CLIENT",
    "ITERATION",
    "CONSUMER",
    "HEARD",
    "ELEMENTS",
    "A SECOND",
    "ELEMENT",
    "WAITS",
];

fn clients(iteration: &IterationStatus) -> impl Iterator<Item = [String; 8]> + '_ {
    let row = |client: &ClientStatus| {
        [
            client.id.to_string(),
            iteration.id.to_string(),
            client
                .consumer
                .map_or("-".to_owned(), |number| number.to_string()),
            format!("{:.1} s ago", client.silent_ms as f64 / 1000.0),
            client.elements.to_string(),
            format!("{:.1}", client.elements_per_s),
            time_text(client.element_ns),
            client
                .waiting
                .map_or_else(|| "-".to_owned(), |waiting| format!("{:.0} %", waiting * 100.0)),
        ]
    };
    iteration.clients.iter().map(row)
}

fn ranges(iteration: &IterationStatus, ranges: &[SplitRange]) -> Vec<[String; 5]> {
    let each = ranges.iter().map(|range| {
        let (source, pass) = (range.source.to_string(), range.repetition.to_string());
        [
            iteration.id.to_string(),
            source,
            pass,
            range.first.to_string(),
            range.count.to_string(),
        ]
    });
    each.collect()
}
