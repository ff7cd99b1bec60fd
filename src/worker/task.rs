//! One task, on its own thread. The task computes elements and writes them to its buffer, until no client
//! wants more, the dataset ends, or the task is stopped.

use std::any::Any;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_control::agent::ProducedSplits;
use millstream_control::{FailureReport, TaskDef, TaskId};
use millstream_dataplane::proto::message::{FailedElement, Failure};
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::transport::Compression;
use millstream_dataplane::worker::{ProduceError, Producer, Server, TaskMode};
use millstream_element::SlotAlloc;
use millstream_pipeline::exec::{
    BUDGET_BYTES_DEFAULT, Cancel, ErrorKind, ExecContext, ExecError, Executor, Functions, OpenError, Pool,
    Quarantine, SharedBudget, SplitSource, Stop, numbered_by_split,
};
use millstream_pipeline::graph::{Graph, Travel};
use millstream_pipeline::storage::Storage;

use super::feed::TaskFeed;
use super::pace::{BottleneckClock, TaskMeter};
use super::sharding;
use super::traced::TracedSplits;

/// The maximum number of elements that the thread writes before it checks the room in the buffer and the
/// demand of clients.
const RUN_ELEMENTS_MAX: usize = 64;

/// The time of one run after which the next run has a single element, so that slow elements are sent one by
/// one.
const RUN_TIME_MAX: Duration = Duration::from_micros(200);

/// The bytes in the buffers of a task for each thread of the worker: a batch of 256 pictures that is
/// computed, with the reserve for the batch that is waited for.
const BUDGET_BYTES_PER_THREAD: usize = 64 << 20;

/// The parts that a task needs to run.
pub(super) struct TaskRun {
    pub(super) definition: TaskDef,
    pub(super) server: Server,
    pub(super) alloc: Arc<dyn SlotAlloc>,
    pub(super) functions: Arc<Functions>,
    pub(super) storage: Storage,
    pub(super) pool: Arc<Pool>,
    /// The memory budget for the buffers of all tasks.
    pub(super) budget: SharedBudget,
    pub(super) feed: Option<TaskFeed>,
    /// The record of produced splits, for a task that waits for no reader (D8.5).
    pub(super) produced: Option<ProducedSplits>,
    pub(super) cancel: Cancel,
    pub(super) meter: Arc<TaskMeter>,
    pub(super) traced: TracedSplits,
}

/// The outcome of a task.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The task has written its last element.
    Exhausted,
    /// The task cannot continue.
    Failed(FailureReport),
    /// The task was stopped.
    Stopped,
}

/// Runs a task to its end, and catches panics of the user's code. Blocks the thread.
pub(super) fn run(task: TaskRun) -> Outcome {
    let id = task.definition.task;
    let outcome = catch_unwind(AssertUnwindSafe(|| serve(task)));
    outcome.unwrap_or_else(|panic| {
        let message = format!("task {id} panicked: {}", panic_text(&*panic));
        Outcome::Failed(FailureReport::new(message))
    })
}

fn serve(task: TaskRun) -> Outcome {
    let (graph, mut producer) = match prepare(&task) {
        Ok(ready) => ready,
        Err(message) => return Outcome::Failed(FailureReport::new(message)),
    };
    let (server, served) = (task.server.clone(), served_as(&task.definition));
    let mode = mode_of(&task.definition);
    // Removing the task does not report its end to clients. The caller that stops a task raises the flag
    // first, so the producer may notice the flag before the task is removed.
    let stop = || {
        server.remove_task(served);
        Outcome::Stopped
    };
    if task.cancel.is_cancelled() {
        return stop();
    }
    // A task without further splits ends at once. A caller that drains the worker first sets the feed's
    // flag, and then begins all served tasks. The flag or the call thus reaches this task.
    if task.feed.as_ref().is_some_and(|feed| feed.is_draining()) {
        server.begin_task(served);
    }
    // The task opens, leases and computes nothing before a client wants an element (D4.5).
    if producer.wait_started().is_err() {
        return Outcome::Stopped;
    }
    let cancel = task.cancel.clone();
    let ending = match catch_unwind(AssertUnwindSafe(|| produce(task, &graph, &mut producer))) {
        Ok(Ok(())) => Ending::Exhausted,
        Ok(Err(ProduceError::Stopped(_))) => return Outcome::Stopped,
        Ok(Err(_)) if cancel.is_cancelled() => return stop(),
        // The task's splits ended. The agent handles this end before other parts learn of it.
        Ok(Err(ProduceError::Compute(error))) if error.kind() == ErrorKind::Cancelled => return stop(),
        Ok(Err(error)) => Ending::Failed(explain(error)),
        Err(panic) => {
            let message = format!("the task panicked: {}", panic_text(&*panic));
            Ending::Failed(Failure::new("internal", &message, "", ""))
        }
    };
    let elements = producer.written_elements();
    match producer.finish(ending) {
        Ending::Exhausted => {
            log_left_out(served, mode, elements);
            Outcome::Exhausted
        }
        Ending::Failed(failure) => Outcome::Failed(report_of(&failure)),
    }
}

/// Logs how many of the task's last elements fill no group of a coordinated read, so that no consumer
/// receives them (D7.5).
fn log_left_out(task: millstream_dataplane::TaskId, mode: TaskMode, elements: u64) {
    if let TaskMode::Coordinated { consumers } = mode {
        let left_out = elements % u64::from(consumers.get());
        if left_out > 0 {
            tracing::info!(%task, left_out, %consumers, "the last elements of the task fill no group, and are left out");
        }
    }
}

/// Analyses the dataset (which calls users' functions to learn the spec of their output), and begins to serve
/// the task.
fn prepare(task: &TaskRun) -> Result<(Graph, Producer), String> {
    let graph = Graph::from_bytes(&task.definition.dataset.definition).map_err(|error| error.to_string())?;
    let graph = sharding::share(graph, &task.definition).map_err(|error| error.to_string())?;
    let facts = graph.facts(&*task.functions).map_err(|error| error.to_string())?;
    let spec = match task.definition.exactly_once {
        Some(_) => numbered_by_split(&facts.spec).map_err(|error| error.to_string())?,
        None => facts.spec,
    };
    let producer = task.server.add_task(
        served_as(&task.definition),
        mode_of(&task.definition),
        &spec,
        task.alloc.clone(),
    );
    let producer = producer.map_err(|error| error.to_string())?;
    if let Some(travel) = graph.travel() {
        let compression = match travel {
            Travel::Plain => Compression::None,
            Travel::Lz4 => Compression::Lz4,
            Travel::Auto => Compression::Auto,
        };
        task.server
            .compress_task(served_as(&task.definition), compression);
    }
    Ok((graph, producer))
}

/// Returns the data plane's id of the task.
fn served_as(definition: &TaskDef) -> millstream_dataplane::TaskId {
    millstream_dataplane::TaskId(definition.task.0)
}

/// Returns the way in which clients divide the task's elements. The dispatcher refuses a job with consumers
/// and a cross-trainer cache, and a job with zero consumers.
fn mode_of(definition: &TaskDef) -> TaskMode {
    match definition.num_consumers.and_then(NonZeroU32::new) {
        Some(consumers) => TaskMode::Coordinated { consumers },
        None if definition.cross_trainer_cache => TaskMode::Cached,
        None => TaskMode::FirstCome,
    }
}

fn produce(mut task: TaskRun, graph: &Graph, producer: &mut Producer) -> Result<(), ProduceError<ExecError>> {
    let context = context_of(&mut task);
    let TaskRun {
        definition,
        produced,
        meter,
        traced,
        ..
    } = task;
    let begun = Instant::now();
    meter.begin(begun);
    let opened = Executor::open(graph, context);
    meter.note(0, begun.elapsed());
    let mut executor = opened.map_err(|error| ProduceError::Compute(opening(error)))?;
    let (mut finished, mut clock) = (Vec::new(), BottleneckClock::default());
    let (mut run_elements, run_elements_max) = (1, producer.run_elements_max().min(RUN_ELEMENTS_MAX));
    loop {
        producer.wait_room()?;
        let (mut busy, mut has_ended) = (Duration::ZERO, false);
        producer.write(|pack, layout| {
            let begun = Instant::now();
            meter.begin(begun);
            let filled = executor
                .write(layout, pack, run_elements)
                .map_err(ProduceError::Compute)?;
            let took = begun.elapsed();
            meter.note(filled.count, took);
            busy += took;
            match filled.stop {
                Stop::Full { needed_bytes } => Err(ProduceError::Full { needed_bytes }),
                Stop::Limit => Ok(()),
                Stop::End => {
                    has_ended = true;
                    Ok(())
                }
            }
        })?;
        executor.finished_splits(&mut finished);
        for split in finished.drain(..) {
            traced.end(split.lease);
            match &produced {
                Some(produced) => produced.note(split.lease),
                None => producer.split_done(split.lease, split.attempt),
            }
        }
        if has_ended || clock.is_due(Instant::now()) {
            meter.note_stats(executor.stats().as_ref());
        }
        if has_ended {
            tell_costs(definition.task, &executor);
            return Ok(());
        }
        run_elements = if busy > RUN_TIME_MAX {
            1
        } else {
            (2 * run_elements).min(run_elements_max)
        };
    }
}

/// Returns the context in which the task's pipeline runs. Takes the task's feed.
fn context_of(task: &mut TaskRun) -> ExecContext {
    let definition = &task.definition;
    // The draws of an exactly-once job must not depend on the task, because another task may repeat them.
    let terms = definition.exactly_once.as_ref();
    let seed = terms.map(|terms| terms.seed);
    let quarantined = terms.and_then(|terms| terms.quarantine.as_ref());
    let quarantined = quarantined.map(|elements| elements.iter().map(|element| (element.split, element.id)));
    let draws = seed.unwrap_or(definition.task.0);
    ExecContext {
        iteration: seed.unwrap_or(definition.plan.seed),
        seed,
        epoch: definition.repetition,
        plan: sharding::plan(definition),
        splits: task.feed.take().map(|feed| Box::new(feed) as _),
        by_split: definition.exactly_once.is_some(),
        quarantine: quarantined.map(Quarantine::new),
        storage: task.storage.clone(),
        budget: task.budget.share(budget_bytes(task.pool.threads())),
        cancel: task.cancel.clone(),
        measured: true,
        ..ExecContext::new(draws, task.functions.clone(), task.pool.clone())
    }
}

/// Returns the limit on the bytes in the buffers of a task, for a worker with this number of threads. With a
/// smaller limit, batches of pictures would not keep all threads of a large worker busy.
fn budget_bytes(threads: usize) -> usize {
    threads
        .saturating_mul(BUDGET_BYTES_PER_THREAD)
        .max(BUDGET_BYTES_DEFAULT)
}

/// Logs the costs of a task and the number of skipped elements.
fn tell_costs(task: TaskId, executor: &Executor) {
    let skipped = executor.skipped();
    if let Some(stats) = executor.stats() {
        let (elapsed, pulled) = (stats.elapsed.as_secs_f64(), stats.pulled.as_secs_f64());
        tracing::info!(%task, elapsed, pulled, bottleneck = stats.bottleneck_name(), skipped, "task computed");
        tracing::debug!(%task, "the stages of the task:\n{}", executor.explain());
    }
}

/// Converts an error of opening a dataset to a failure, whose kind names the party to blame.
fn opening(error: OpenError) -> ExecError {
    let kind = match error {
        OpenError::Exec(error) => return error,
        OpenError::Plan(error) => return ExecError::new(ErrorKind::Data, "open", error.by("the worker")),
        OpenError::PlanMismatch { .. } => ErrorKind::Peer,
        OpenError::Analysis(_)
        | OpenError::NotSplittable(_)
        | OpenError::ShardHint
        | OpenError::Feature { .. }
        | OpenError::NoServiceReader => ErrorKind::Caller,
    };
    ExecError::new(kind, "open", error.to_string())
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

fn explain(error: ProduceError<ExecError>) -> Failure {
    match error {
        ProduceError::Compute(error) => {
            let failure = error.failure();
            let origin = failure.origin.as_ref().map_or_else(String::new, |origin| {
                format!(
                    "{} at byte {}, key `{}`",
                    origin.file(),
                    origin.offset_bytes,
                    origin.key()
                )
            });
            // The failure has a separate field for the record's origin, so the message omits the origin.
            let message = match failure.origin {
                Some(_) => format!("{}: {}", failure.op, failure.message),
                None => error.to_string(),
            };
            Failure::new(
                blame(error.kind()),
                &message,
                &origin,
                failure.traceback.as_deref().unwrap_or_default(),
            )
            .at_element(failure.element.filter(|_| error.is_passable()).map(named))
        }
        ProduceError::Alloc(error) => Failure::new("resource", &error.to_string(), "", ""),
        error @ (ProduceError::TooLarge { .. } | ProduceError::LargerThanCache { .. }) => {
            Failure::new("caller", &error.to_string(), "", "")
        }
        ProduceError::Full { needed_bytes } => Failure::new(
            "internal",
            &format!("a new pack had no room for {needed_bytes} bytes"),
            "",
            "",
        ),
        ProduceError::Stopped(_) => Failure::new("internal", "the task was stopped", "", ""),
    }
}

/// Returns the report to the dispatcher, which tells clients of the failure if this worker cannot.
fn report_of(failure: &Failure) -> FailureReport {
    let element = failure.element.as_deref();
    FailureReport {
        message: failure.to_string(),
        element: element.map(|element| millstream_control::FailedElement {
            split: element.split,
            id: element.id,
            yielded: element.yielded,
        }),
    }
}

fn named(element: millstream_pipeline::exec::FailedElement) -> FailedElement {
    FailedElement {
        split: element.split,
        id: element.id,
        yielded: element.yielded,
    }
}

/// Returns the code of the party to blame in the data plane.
fn blame(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Caller | ErrorKind::Value => "caller",
        ErrorKind::Precondition => "failed_precondition",
        ErrorKind::UserFunction => "user_function",
        ErrorKind::Data => "data",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Resource => "resource",
        ErrorKind::Peer => "peer",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Internal => "internal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of 256 decoded pictures of 224 by 224 pixels, as a batch for a GPU has.
    const PICTURES_BYTES: usize = 256 * 224 * 224 * 3;

    #[test]
    fn buffers_hold_a_batch_for_each_thread() {
        for threads in [1, 4, 16, 128] {
            assert!(
                budget_bytes(threads) >= threads * PICTURES_BYTES,
                "{threads} threads"
            );
        }
        assert_eq!(budget_bytes(usize::MAX), usize::MAX);
    }
}
