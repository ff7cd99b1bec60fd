//! One task, on a thread of its own: computes elements and writes them to the task's buffer until a client stops wanting
//! them, they end, or the task is stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_control::{Policy, TaskDef};
use millstream_dataplane::proto::message::Failure;
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::worker::{ProduceError, Producer};
use millstream_pipeline::exec::{
    Budget, Cancel, ErrorKind, ExecContext, ExecError, Executor, Functions, Pool, Stop,
};
use millstream_pipeline::graph::Graph;

use super::feed::TaskFeed;
use crate::planner::to_pipeline;

/// Elements written at most before the thread looks whether there is room for more and whether a client is hungry.
const RUN_ELEMENTS_MAX: usize = 64;

/// A run that took longer than this is followed by a run of one element: slow elements leave one by one.
const RUN_TIME_MAX: Duration = Duration::from_micros(200);

/// What a task runs with.
pub(super) struct TaskRun {
    pub(super) definition: TaskDef,
    pub(super) graph: Graph,
    pub(super) functions: Arc<Functions>,
    pub(super) pool: Arc<Pool>,
    pub(super) feed: Option<TaskFeed>,
    pub(super) cancel: Cancel,
}

/// How a task ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Its last element is written.
    Exhausted,
    /// It cannot go on; the text is for its user.
    Failed(String),
    /// It was stopped.
    Stopped,
}

/// Runs a task to its end. Blocks the thread.
pub(super) fn run(task: TaskRun, mut producer: Producer) -> Outcome {
    // Nothing is opened, leased or computed before a client wants an element (D4.5).
    if producer.wait_started().is_err() {
        return Outcome::Stopped;
    }
    let cancel = task.cancel.clone();
    let ending = match produce(task, &mut producer) {
        Ok(()) => Ending::Exhausted,
        Err(ProduceError::Stopped(_)) => return Outcome::Stopped,
        Err(_) if cancel.is_cancelled() => return Outcome::Stopped,
        Err(error) => Ending::Failed(explain(error)),
    };
    let outcome = match &ending {
        Ending::Exhausted => Outcome::Exhausted,
        Ending::Failed(failure) => Outcome::Failed(failure.to_string()),
    };
    producer.finish(ending);
    outcome
}

fn produce(task: TaskRun, producer: &mut Producer) -> Result<(), ProduceError<ExecError>> {
    let TaskRun {
        definition,
        graph,
        functions,
        pool,
        feed,
        cancel,
    } = task;
    let context = ExecContext {
        task_id: definition.task.0,
        epoch: definition.repetition,
        seed: None,
        plan: (definition.policy == Policy::Off).then(|| to_pipeline(&definition.plan)),
        splits: feed.map(|feed| Box::new(feed) as _),
        functions,
        pool,
        budget: Budget::default(),
        cancel,
    };
    let opened = Executor::open(&graph, context);
    let mut executor = opened.map_err(|error| {
        ProduceError::Compute(ExecError::new(ErrorKind::Caller, "open", error.to_string()))
    })?;
    let mut finished = Vec::new();
    let mut run_elements = 1;
    loop {
        producer.wait_room()?;
        let begun = Instant::now();
        let mut has_ended = false;
        producer.write(|pack, layout| {
            let filled = executor
                .write(layout, pack, run_elements)
                .map_err(ProduceError::Compute)?;
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
            producer.split_done(split.lease, split.attempt);
        }
        if has_ended {
            return Ok(());
        }
        run_elements = if begun.elapsed() > RUN_TIME_MAX {
            1
        } else {
            (2 * run_elements).min(RUN_ELEMENTS_MAX)
        };
    }
}

fn explain(error: ProduceError<ExecError>) -> Failure {
    match error {
        ProduceError::Compute(error) => {
            let failure = error.failure();
            let origin = failure.origin.as_ref().map_or_else(String::new, |origin| {
                format!(
                    "{} at byte {}, key `{}`",
                    origin.file, origin.offset_bytes, origin.key
                )
            });
            // The record has a place of its own beside the message.
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
        }
        ProduceError::Alloc(error) => Failure::new("resource", &error.to_string(), "", ""),
        ProduceError::Full { needed_bytes } => Failure::new(
            "internal",
            &format!("a new pack did not take {needed_bytes} bytes"),
            "",
            "",
        ),
        ProduceError::Stopped(_) => Failure::new("internal", "the task was stopped", "", ""),
    }
}

/// Who is to blame, in the data plane's words.
fn blame(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Caller => "caller",
        ErrorKind::UserFunction => "user_function",
        ErrorKind::Data => "data",
        ErrorKind::Resource => "resource",
        ErrorKind::Peer => "peer",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Internal => "internal",
    }
}
