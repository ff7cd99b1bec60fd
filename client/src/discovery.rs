//! Connects a reader's feed to the dispatcher: pushes become events, reports become requests.
//!
//! The only place in this crate that speaks with the control plane.

use std::collections::BTreeMap;

use millstream_control::rpc::{IterationHandle, IterationReporter};
use millstream_control::{ClientPush, LeaseRange, Seen};
use millstream_dataplane::TaskId;
use tokio::sync::mpsc;

use crate::follow::{Feed, LostSplits, Report, TaskEvent};
use crate::intake::{DoneSplit, TaskSource};

/// Events that wait for the reader's lane, which never waits for a consumer.
const EVENTS_MAX: usize = 1024;

/// Reports that wait for the dispatcher.
const REPORTS_MAX: usize = 1024;

/// The feed of an iteration. Must be called within a tokio runtime, which then carries it; it ends with the reader.
/// `held` is dropped when the dispatcher knows that the reader is gone, or cannot be told.
pub fn discover(handle: IterationHandle, held: impl Send + 'static) -> Feed {
    let (events_sender, events) = mpsc::channel(EVENTS_MAX);
    let (reports, reports_queue) = mpsc::channel(REPORTS_MAX);
    let reporter = handle.reporter();
    tokio::spawn(async move {
        pass_events(handle, events_sender).await;
        drop(held);
    });
    tokio::spawn(pass_reports(reporter, reports_queue));
    Feed { events, reports }
}

/// Ends when the reader is dropped, which releases the client.
async fn pass_events(mut handle: IterationHandle, events: mpsc::Sender<TaskEvent>) {
    loop {
        let push = tokio::select! {
            push = handle.next_push() => push,
            () = events.closed() => break,
        };
        let (event, is_last) = match push {
            Ok(push) => (translate(push), false),
            Err(error) => (Some(TaskEvent::Failed(error.to_string())), true),
        };
        if let Some(event) = event
            && events.send(event).await.is_err()
        {
            break;
        }
        if is_last {
            return events.closed().await;
        }
    }
    if let Err(error) = handle.release().await {
        tracing::debug!(%error, "the client was not released; the dispatcher will notice its silence");
    }
}

fn translate(push: ClientPush) -> Option<TaskEvent> {
    match push {
        ClientPush::TaskAdded(info) => Some(TaskEvent::Added(TaskSource {
            task: TaskId(info.task.0),
            worker: info.worker_address,
            ticket: info.ticket,
        })),
        ClientPush::TaskRemoved(removed) => Some(TaskEvent::Removed {
            task: TaskId(removed.task.0),
            reason: removed.reason.to_string(),
        }),
        ClientPush::SplitsLost { splits, .. } => {
            let splits = splits.iter().map(|range| LostSplits {
                source: range.source,
                repetition: range.repetition,
                first: range.first,
                count: range.count,
            });
            Some(TaskEvent::SplitsLost {
                splits: splits.collect(),
            })
        }
        ClientPush::IterationFinished { .. } => Some(TaskEvent::IterationFinished),
        ClientPush::WorkersLost { workers } => Some(TaskEvent::WorkersLost { workers }),
        ClientPush::Lapsed => Some(TaskEvent::Failed(
            "it no longer knows this reader, which was silent for too long".to_owned(),
        )),
        // The worker itself says so too, behind the elements before the failure.
        ClientPush::TaskFailed {
            task,
            worker_address,
            message,
        } => Some(TaskEvent::TaskFailed {
            task: TaskId(task.0),
            worker: worker_address,
            message,
        }),
        // Only told apart on the wire: the handle turns it into the others.
        ClientPush::TaskEnded { .. } | ClientPush::Snapshot(_) => None,
    }
}

async fn pass_reports(reporter: IterationReporter, mut reports: mpsc::Receiver<Report>) {
    while let Some(report) = reports.recv().await {
        let outcome = match report {
            Report::Done(done) => report_done(&reporter, &done).await,
            Report::Drained { task } => reporter.task_drained(millstream_control::TaskId(task.0)).await,
            Report::Removed { task, seen } => {
                let partial = LeaseRange::collect(seen.partial);
                let seen = Seen {
                    complete: Vec::new(),
                    partial,
                };
                reporter
                    .acknowledge_removal(millstream_control::TaskId(task.0), seen)
                    .await
            }
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "a report did not reach the dispatcher");
        }
    }
}

async fn report_done(
    reporter: &IterationReporter,
    done: &[DoneSplit],
) -> Result<(), millstream_control::Error> {
    let mut by_task: BTreeMap<TaskId, Vec<u64>> = BTreeMap::new();
    for split in done {
        by_task.entry(split.task).or_default().push(split.lease);
    }
    for (task, leases) in by_task {
        reporter
            .splits_done(millstream_control::TaskId(task.0), &LeaseRange::collect(leases))
            .await?;
    }
    Ok(())
}
