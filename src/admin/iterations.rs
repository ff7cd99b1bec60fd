//! The iterations of a service in its JSON, with their tasks, clients, splits and stages.

use millstream_control::{ClientStatus, IterationStatus, SourceStatus, SplitRange, StageStatus, TaskStatus};
use serde::Serialize;

use super::rows::{LinksRow, Rows};

#[derive(Serialize)]
pub(super) struct IterationRow<'s> {
    id: u64,
    job: u64,
    repetition: u64,
    phase: &'static str,
    waiting_for_workers: bool,
    missing_consumers: &'s [u32],
    workers_wanted: Option<u64>,
    removals: u64,
    splits_leased: u64,
    splits_done: u64,
    splits_lost: u64,
    sources: Rows<'s, SourceStatus, SourceRow>,
    lost: Rows<'s, SplitRange, RangeRow>,
    skipped: Rows<'s, SplitRange, RangeRow>,
    tasks: Rows<'s, TaskStatus, TaskRow<'s>>,
    clients: Rows<'s, ClientStatus, ClientRow<'s>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<Rows<'s, StageStatus, StageRow<'s>>>,
}

/// Returns the row of an iteration. `stages` are its stages, with the output first.
pub(super) fn iteration<'s>(
    iteration: &'s IterationStatus,
    stages: Option<&'s [StageStatus]>,
) -> IterationRow<'s> {
    IterationRow {
        id: iteration.id.0,
        job: iteration.job.0,
        repetition: iteration.repetition,
        phase: iteration.phase.name(),
        waiting_for_workers: iteration.waiting_for_workers,
        missing_consumers: &iteration.missing_consumers,
        workers_wanted: iteration.workers_wanted,
        removals: iteration.removals,
        splits_leased: iteration.splits_leased,
        splits_done: iteration.splits_done,
        splits_lost: iteration.splits_lost,
        sources: Rows(&iteration.sources, source),
        lost: Rows(&iteration.lost, range),
        skipped: Rows(&iteration.skipped, range),
        tasks: Rows(&iteration.tasks, task),
        clients: Rows(&iteration.clients, client),
        stages: stages.map(|stages| Rows(stages, stage)),
    }
}

#[derive(Serialize)]
struct SourceRow {
    repetition: u64,
    splits_remaining: u64,
    splits_done: u64,
    splits_lost: u64,
}

fn source(source: &SourceStatus) -> SourceRow {
    SourceRow {
        repetition: source.repetition,
        splits_remaining: source.remaining,
        splits_done: source.done,
        splits_lost: source.lost,
    }
}

#[derive(Serialize)]
struct RangeRow {
    source: u32,
    repetition: u64,
    first: u64,
    count: u64,
}

fn range(range: &SplitRange) -> RangeRow {
    RangeRow {
        source: range.source,
        repetition: range.repetition,
        first: range.first,
        count: range.count,
    }
}

#[derive(Serialize)]
struct TaskRow<'s> {
    id: u64,
    worker: u64,
    worker_address: &'s str,
    phase: &'s str,
    splits_leased: u64,
    elements: u64,
    elements_per_s: f64,
    element_ns: Option<u64>,
    bottleneck: Option<&'s str>,
    busy: Option<f64>,
}

fn task(task: &TaskStatus) -> TaskRow<'_> {
    TaskRow {
        id: task.id.0,
        worker: task.worker.0,
        worker_address: &task.worker_address,
        phase: &task.phase,
        splits_leased: task.splits_leased,
        elements: task.elements,
        elements_per_s: task.elements_per_s,
        element_ns: task.element_ns,
        bottleneck: task.bottleneck.as_deref(),
        busy: task.busy,
    }
}

#[derive(Serialize)]
struct ClientRow<'s> {
    id: u64,
    consumer: Option<u32>,
    silent_ms: u64,
    elements: u64,
    elements_per_s: f64,
    element_ns: Option<u64>,
    waiting: Option<f64>,
    waited_ms: u64,
    links: Option<LinksRow>,
    network_reason: Option<&'s str>,
}

fn client(client: &ClientStatus) -> ClientRow<'_> {
    ClientRow {
        id: client.id.0,
        consumer: client.consumer,
        silent_ms: client.silent_ms,
        elements: client.elements,
        elements_per_s: client.elements_per_s,
        element_ns: client.element_ns,
        waiting: client.waiting,
        waited_ms: client.waited_ms,
        links: client.links.as_ref().map(|links| LinksRow::from(links.counts)),
        network_reason: client
            .links
            .as_ref()
            .and_then(|links| links.network_reason.as_deref()),
    }
}

#[derive(Serialize)]
struct StageRow<'s> {
    label: &'s str,
    depth: u32,
    elements_per_s: f64,
    busy: f64,
    waited: f64,
    threads: u64,
    workers: u64,
}

fn stage(stage: &StageStatus) -> StageRow<'_> {
    StageRow {
        label: &stage.label,
        depth: stage.depth,
        elements_per_s: stage.elements_per_s,
        busy: stage.busy,
        waited: stage.waited,
        threads: stage.threads,
        workers: stage.workers,
    }
}
