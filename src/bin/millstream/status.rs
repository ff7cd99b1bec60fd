//! `millstream status`: what a service is doing, as tables.

use std::time::Duration;

use millstream::control::rpc::SessionConfig;
use millstream::control::{DatasetStatus, IterationStatus, JobStatus, Phase, Policy, Status, WorkerStatus};
use millstream::{Service, ServiceConfig};

use crate::args::StatusArgs;
use crate::console::{bytes_text, say};
use crate::{key, table};

/// Who asks for a status wants to know soon that nobody answers.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) fn run(args: &StatusArgs) -> Result<(), String> {
    let key = key::load(&args.key)?;
    let session = SessionConfig {
        connect_deadline: CONNECT_DEADLINE,
        ..SessionConfig::default()
    };
    let config = ServiceConfig {
        session,
        ..ServiceConfig::default()
    };
    let service = Service::connect(&key, &args.dispatcher, config).map_err(|error| error.to_string())?;
    let status = service.status().map_err(|error| error.to_string())?;
    for line in report(&args.dispatcher, &status) {
        say(&line);
    }
    Ok(())
}

fn report(dispatcher: &str, status: &Status) -> Vec<String> {
    let counts = status.counts;
    let mut lines = vec![format!(
        "dispatcher {dispatcher}: {} workers, {} datasets, {} jobs, {} iterations, {} tasks, {} clients",
        counts.workers, counts.datasets, counts.jobs, counts.iterations, counts.tasks, counts.clients
    )];
    for table in tables(status) {
        // A header alone says nothing.
        if table.len() > 1 {
            lines.push(String::new());
            lines.extend(table);
        }
    }
    lines
}

fn tables(status: &Status) -> [Vec<String>; 6] {
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
    let lost: Vec<_> = all.iter().flat_map(lost).collect();
    [
        table::lines(
            ["WORKER", "ADDRESS", "STATE", "TASKS", "VERSION", "TAGS"],
            &workers,
        ),
        table::lines(["DATASET", "ELEMENTS", "DEFINITION"], &datasets),
        table::lines(["JOB", "NAME", "DATASET", "SHARDING"], &jobs),
        table::lines(ITERATION, &iterations),
        table::lines(["TASK", "ITERATION", "WORKER", "STATE", "LEASED"], &tasks),
        table::lines(["LOST IN", "SOURCE", "PASS", "FIRST SPLIT", "COUNT"], &lost),
    ]
}

/// What is told of an iteration: the last four count splits.
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
    let (dataset, policy) = (
        job.parameters.dataset.to_string(),
        job.parameters.policy.to_string(),
    );
    [job.id.to_string(), job.name.clone(), dataset, policy]
}

fn worker(worker: &WorkerStatus) -> [String; 6] {
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
        worker.version.clone(),
        tags,
    ]
}

/// Splits are dealt out under DYNAMIC only; elsewhere there are none to count.
fn iteration(iteration: &IterationStatus, is_dealt: bool) -> [String; 9] {
    let count = |splits: u64| {
        if is_dealt {
            splits.to_string()
        } else {
            "-".to_owned()
        }
    };
    let mut state = phase(iteration.phase).to_owned();
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

fn tasks(iteration: &IterationStatus) -> impl Iterator<Item = [String; 5]> + '_ {
    iteration.tasks.iter().map(|task| {
        let (id, iteration) = (task.id.to_string(), iteration.id.to_string());
        [
            id,
            iteration,
            task.worker_address.clone(),
            task.phase.clone(),
            task.splits_leased.to_string(),
        ]
    })
}

fn lost(iteration: &IterationStatus) -> impl Iterator<Item = [String; 5]> + '_ {
    iteration.lost.iter().map(|lost| {
        let (source, pass) = (lost.source.to_string(), lost.repetition.to_string());
        [
            iteration.id.to_string(),
            source,
            pass,
            lost.first.to_string(),
            lost.count.to_string(),
        ]
    })
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Planning => "planning",
        Phase::Running => "running",
        Phase::Finished => "finished",
        Phase::Collected => "given up",
    }
}
