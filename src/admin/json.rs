//! The status of a service as one JSON object. Field names contain the unit of their value.

use millstream_control::{
    ClientStatus, DatasetStatus, IterationStatus, JobStatus, SourceStatus, SplitRange, StageStatus, Status,
    TaskStatus, WorkerStatus,
};
use serde_json::{Value, json};

/// Returns the whole status. Each list has at most 1000 entries; `counts` are complete.
pub fn status_json(status: &Status) -> Value {
    let (counts, refusals) = (status.counts, status.refusals);
    json!({
        "boot": status.boot.to_string(),
        "counts": {
            "workers": counts.workers,
            "datasets": counts.datasets,
            "jobs": counts.jobs,
            "iterations": counts.iterations,
            "tasks": counts.tasks,
            "clients": counts.clients,
        },
        "workers_wanted": status.workers_wanted,
        "workers_wanted_reason": status.workers_wanted_reason,
        "workers_estimated": status.workers_estimated,
        "refused": {
            "handshakes_busy": refusals.handshakes_busy,
            "handshakes_failed": refusals.handshakes_failed,
            "handshakes_timed_out": refusals.handshakes_timed_out,
            "connections_over_quota": refusals.connections_over_quota,
            "sessions": refusals.sessions,
            "requests_denied": refusals.requests_denied,
            "requests_over_quota": refusals.requests_over_quota,
            "requests_delayed": refusals.requests_delayed,
        },
        "workers": status.workers.iter().map(worker).collect::<Vec<_>>(),
        "datasets": status.datasets.iter().map(dataset).collect::<Vec<_>>(),
        "jobs": status.jobs.iter().map(job).collect::<Vec<_>>(),
        "iterations": status.iterations.iter().map(iteration).collect::<Vec<_>>(),
    })
}

fn worker(worker: &WorkerStatus) -> Value {
    json!({
        "id": worker.id.0,
        "address": worker.address,
        "tags": worker.tags,
        "version": worker.version,
        "dead": worker.dead,
        "draining": worker.draining,
        "silent_ms": worker.silent_ms,
        "tasks": worker.tasks,
        "links": worker.links.map(|links| json!({
            "memory": links.memory,
            "shm": links.shared_memory,
            "quic": links.network,
        })),
        "load": worker.load.map(|load| json!({
            "memory_bytes": load.memory_bytes,
            "shared_memory_bytes": load.shared_memory_bytes,
            "cache_bytes": load.cache_bytes,
            "python_processes": load.python_processes,
        })),
    })
}

fn dataset(dataset: &DatasetStatus) -> Value {
    json!({
        "id": dataset.id.as_str(),
        "cardinality": dataset.cardinality,
        "definition_bytes": dataset.definition_bytes,
    })
}

fn job(job: &JobStatus) -> Value {
    let parameters = &job.parameters;
    json!({
        "id": job.id.0,
        "name": job.name,
        "dataset": parameters.dataset.as_str(),
        "policy": parameters.policy.name(),
        "target_workers": parameters.target_workers.to_string(),
        "num_consumers": parameters.num_consumers,
        "cross_trainer_cache": parameters.cross_trainer_cache,
        "abandoned": parameters.abandoned.name(),
        "in_order": parameters.in_order,
        "exactly_once": parameters.exactly_once.map(|once| json!({
            "seed": once.seed,
            "first": once.first,
            "step": once.step,
            "max_deaths": once.poison.max_deaths,
            "max_skips": once.poison.max_skips,
        })),
    })
}

fn iteration(iteration: &IterationStatus) -> Value {
    json!({
        "id": iteration.id.0,
        "job": iteration.job.0,
        "repetition": iteration.repetition,
        "phase": iteration.phase.name(),
        "waiting_for_workers": iteration.waiting_for_workers,
        "missing_consumers": iteration.missing_consumers,
        "workers_wanted": iteration.workers_wanted,
        "removals": iteration.removals,
        "splits_leased": iteration.splits_leased,
        "splits_done": iteration.splits_done,
        "splits_lost": iteration.splits_lost,
        "sources": iteration.sources.iter().map(source).collect::<Vec<_>>(),
        "lost": iteration.lost.iter().map(lost).collect::<Vec<_>>(),
        "skipped": iteration.skipped.iter().map(lost).collect::<Vec<_>>(),
        "tasks": iteration.tasks.iter().map(task).collect::<Vec<_>>(),
        "clients": iteration.clients.iter().map(client).collect::<Vec<_>>(),
    })
}

fn source(source: &SourceStatus) -> Value {
    json!({
        "repetition": source.repetition,
        "splits_remaining": source.remaining,
        "splits_done": source.done,
        "splits_lost": source.lost,
    })
}

fn lost(lost: &SplitRange) -> Value {
    json!({
        "source": lost.source,
        "repetition": lost.repetition,
        "first": lost.first,
        "count": lost.count,
    })
}

/// Returns the stages of an iteration's pipeline, with the output first.
pub(super) fn stages_json(stages: &[StageStatus]) -> Value {
    let stage = |stage: &StageStatus| {
        json!({
            "label": stage.label,
            "depth": stage.depth,
            "elements_per_s": stage.elements_per_s,
            "busy": stage.busy,
            "waited": stage.waited,
            "threads": stage.threads,
            "workers": stage.workers,
        })
    };
    stages.iter().map(stage).collect()
}

fn task(task: &TaskStatus) -> Value {
    json!({
        "id": task.id.0,
        "worker": task.worker.0,
        "worker_address": task.worker_address,
        "phase": task.phase,
        "splits_leased": task.splits_leased,
        "elements": task.elements,
        "elements_per_s": task.elements_per_s,
        "element_ns": task.element_ns,
        "bottleneck": task.bottleneck,
    })
}

fn client(client: &ClientStatus) -> Value {
    json!({
        "id": client.id.0,
        "consumer": client.consumer,
        "silent_ms": client.silent_ms,
        "elements": client.elements,
        "elements_per_s": client.elements_per_s,
        "element_ns": client.element_ns,
        "waiting": client.waiting,
    })
}
