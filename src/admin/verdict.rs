//! The answer to the first question of an operator: does training wait for data, and why? Pure.
//!
//! The most serious fault comes first. Otherwise the trainer that waits longest decides, and the paces of its
//! workers name the cause.

use millstream_control::{ClientStatus, IterationStatus, Phase, Status, TaskStatus, WorkerStatus};

/// The share of a trainer's time from which on its waiting is named.
const WAITS: f64 = 0.05;
/// The wait for a first element from which on the wait is named. Every pipeline needs some time to begin.
const FIRST_WAIT_MS: u64 = 3_000;
/// The share of its time from which on a worker counts as busy.
const BUSY: f64 = 0.7;
/// The time for which a dead worker is named.
const DEATH_MS: u64 = 60_000;
/// The bottleneck of a task that waits for its readers.
const CONSUMER: &str = "consumer";

/// The state of a service in one sentence, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The urgency.
    pub level: Level,
    /// The sentence.
    pub sentence: String,
    /// The remedy; empty if nothing has to be done.
    pub advice: String,
}

/// The urgency of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing has to be done.
    Good,
    /// Training is slower than it could be, or something failed without loss.
    Warning,
    /// Training stands still, or data was lost.
    Fault,
}

impl Level {
    /// Returns the name of the level in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Warning => "warning",
            Level::Fault => "fault",
        }
    }
}

impl Verdict {
    /// Returns the verdict on a service. `store_full` is the reason why nothing new can begin.
    /// `refused_lately` is the number of handshakes that failed in the last minute.
    pub fn of(status: &Status, store_full: Option<&str>, refused_lately: u64) -> Verdict {
        if let Some(reason) = store_full {
            return fault(
                format!("The dispatcher cannot store its records: {reason}."),
                "Free some space. Reads continue with the leased splits, and nothing new begins.",
            );
        }
        let running = || {
            let mut rows = status.iterations.iter();
            std::iter::from_fn(move || {
                rows.find(|row| row.phase == Phase::Running && !row.clients.is_empty())
            })
        };
        running()
            .find_map(|row| stopped(row, status))
            .or_else(|| running().find_map(lossy))
            .or_else(|| status.workers.iter().find_map(dead))
            .or_else(|| slowest(running(), status))
            .or_else(|| refused(refused_lately))
            .unwrap_or_else(|| good(running(), status))
    }
}

fn fault(sentence: String, advice: impl Into<String>) -> Verdict {
    verdict(Level::Fault, sentence, advice)
}

fn warning(sentence: String, advice: impl Into<String>) -> Verdict {
    verdict(Level::Warning, sentence, advice)
}

fn verdict(level: Level, sentence: String, advice: impl Into<String>) -> Verdict {
    Verdict {
        level,
        sentence,
        advice: advice.into(),
    }
}

/// Names the reason why an iteration stands still.
fn stopped(row: &IterationStatus, status: &Status) -> Option<Verdict> {
    let job = row.job;
    if let Some(task) = row.tasks.iter().find(|task| task.has_failed()) {
        let (worker, phase) = (&task.worker_address, &task.phase);
        return Some(fault(
            format!("A task of job {job} on worker {worker} {phase}."),
            "Mend the dataset or its data. The trainer receives the same error.",
        ));
    }
    if status.counts.workers == 0 {
        return Some(fault(
            format!("Job {job} waits, because no worker is alive."),
            "Start workers: millstream worker --dispatcher HOST:PORT.",
        ));
    }
    if !row.missing_consumers.is_empty() {
        let missing: Vec<String> = row.missing_consumers.iter().map(u32::to_string).collect();
        return Some(fault(
            format!("Job {job} waits for its consumers {}.", missing.join(", ")),
            "Start the missing trainers. All consumers of a coordinated read take their steps together.",
        ));
    }
    row.waiting_for_workers.then(|| {
        fault(
            format!("Job {job} waits, because some of its shares have no worker."),
            "Start the missing workers, or wait for their restart.",
        )
    })
}

/// Names lost splits.
fn lossy(row: &IterationStatus) -> Option<Verdict> {
    let (job, lost) = (row.job, row.splits_lost);
    (lost > 0).then(|| {
        fault(
            format!("Job {job} has lost splits with workers that died: {lost} of them."),
            "The status names the splits. Use visitation=\"exactly_once\" for a job that must lose nothing.",
        )
    })
}

/// Names a worker that died lately.
fn dead(worker: &WorkerStatus) -> Option<Verdict> {
    let reason = worker.dead.as_ref().filter(|_| worker.silent_ms < DEATH_MS)?;
    let address = &worker.address;
    Some(warning(
        format!("Worker {address} is dead: {reason}."),
        "Its splits go to other workers. Look at its log, and start it again if nothing else does.",
    ))
}

/// Names the trainer that waits longest, and the cause.
fn slowest<'s>(running: impl Iterator<Item = &'s IterationStatus>, status: &Status) -> Option<Verdict> {
    let waits = running.flat_map(|row| row.clients.iter().map(move |client| (row, client)));
    let longest = waits
        .filter(|(_, client)| client.elements > 0 || client.waited_ms >= FIRST_WAIT_MS)
        .filter_map(|(row, client)| Some((row, client, client.waiting?)))
        .max_by(|one, other| one.2.total_cmp(&other.2))
        .filter(|(_, _, waiting)| *waiting >= WAITS);
    let (row, client, waiting) = longest?;
    let who = trainer(row, client);
    let start = if client.elements == 0 {
        format!(
            "{who} has waited {} s for its first element",
            client.waited_ms / 1000
        )
    } else {
        format!("{who} waits for data {:.0} % of the time", waiting * 100.0)
    };
    let busy = busy_tasks(row);
    if busy.is_empty() {
        return Some(warning(
            format!("{start}, although the workers wait for their readers."),
            "The network or the reader's prefetch holds it up: raise max_outstanding_requests, or compare `millstream status` for \
             the transports in use.",
        ));
    }
    let all = row.tasks.iter().filter(|task| task.is_running()).count();
    let count = busy.len();
    let cause = match bottleneck(&busy) {
        Some(stage) => format!("stage {stage} keeps {count} of {all} workers busy"),
        None => format!("{count} of {all} workers are busy"),
    };
    if client.elements == 0 {
        return Some(warning(
            format!("{start}, because {cause}."),
            "Look at the storage of the data, and at operations that need many elements for their first one, such as shuffles and \
             large batches.",
        ));
    }
    // The estimate of an iteration has no limits, and may name hundreds of workers for one reader.
    let advice = match status.workers_wanted.or(status.workers_estimated) {
        Some(wanted) if wanted > status.counts.workers => format!(
            "Make the dataset faster there, or run {wanted} workers instead of {}.",
            status.counts.workers
        ),
        Some(_) | None => "Make the dataset faster there.".to_owned(),
    };
    Some(warning(format!("{start}, because {cause}."), advice))
}

/// Names connections with a wrong key.
fn refused(lately: u64) -> Option<Verdict> {
    (lately > 0).then(|| {
        let connections = match lately {
            1 => "1 connection was".to_owned(),
            lately => format!("{lately} connections were"),
        };
        warning(
            format!("{connections} refused in the last minute for a wrong key, role or version."),
            "The audit log and the refused process name the reason: compare their keys with `millstream key --public`.",
        )
    })
}

fn good<'s>(running: impl Iterator<Item = &'s IterationStatus>, status: &Status) -> Verdict {
    let rows: Vec<&IterationStatus> = running.collect();
    if rows.is_empty() {
        let ready = match status.counts.workers {
            0 => "No worker is ready.".to_owned(),
            1 => "1 worker is ready.".to_owned(),
            workers => format!("{workers} workers are ready."),
        };
        return verdict(Level::Good, format!("No trainer reads. {ready}"), "");
    }
    let clients = rows.iter().flat_map(|row| &row.clients);
    let reading = clients.filter(|client| client.elements > 0);
    let waits: Vec<f64> = reading.filter_map(|client| client.waiting).collect();
    let Some(longest) = waits.into_iter().max_by(f64::total_cmp) else {
        return verdict(Level::Good, "The trainers have begun to read.".to_owned(), "");
    };
    verdict(
        Level::Good,
        format!(
            "No trainer waits for data: the longest wait is {:.0} % of the time. The trainers set the speed.",
            longest * 100.0
        ),
        "",
    )
}

fn trainer(row: &IterationStatus, client: &ClientStatus) -> String {
    match client.consumer {
        Some(consumer) => format!("Consumer {consumer} of job {}", row.job),
        None => format!("Trainer {} of job {}", client.id, row.job),
    }
}

/// Returns the tasks that compute most of the time, or that have not reported a pace yet.
fn busy_tasks(row: &IterationStatus) -> Vec<&TaskStatus> {
    let is_busy = |task: &&TaskStatus| match (task.busy, task.element_ns) {
        (Some(busy), _) => busy >= BUSY,
        (None, Some(ns)) => task.elements_per_s * ns as f64 / 1e9 >= BUSY,
        (None, None) => true,
    };
    let running = row.tasks.iter().filter(|task| task.is_running());
    running.filter(is_busy).collect()
}

/// Returns the most frequent bottleneck of tasks, if one is known.
fn bottleneck<'t>(tasks: &[&'t TaskStatus]) -> Option<&'t str> {
    let names: Vec<&str> = tasks
        .iter()
        .filter_map(|task| task.bottleneck.as_deref())
        .filter(|name| *name != CONSUMER)
        .collect();
    let count = |name: &&str| names.iter().filter(|other| *other == name).count();
    names.iter().max_by_key(|name| count(name)).copied()
}
