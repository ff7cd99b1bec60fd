//! Connects a reader to the dispatcher: turns the dispatcher's pushes into events, and the reader's reports
//! into requests.
//!
//! No other file of this crate uses the connection to the dispatcher.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_control::rpc::{IterationHandle, IterationReporter};
use millstream_control::{ClientPush, Code, Error, LeaseRange, RemovalReason, Seen};
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{FailedElement, Failure};
use tokio::sync::{mpsc, watch};

use crate::event::{TaskEvent, TaskSource};
use crate::feed::Feed;
use crate::loss::LostSplits;
use crate::pace::{PaceGauge, PaceMeter};
use crate::place::WorkerPlace;
use crate::report::Report;

/// Maximum number of events in the queue for the reader's lane thread, which never waits for a consumer.
const EVENTS_MAX: usize = 1024;

/// Maximum number of reports in the queue for the dispatcher. A small number suffices, because the reader
/// merges reports that find the queue full.
const REPORTS_MAX: usize = 16;

/// The first pause after a report that did not arrive. Each further failure doubles the pause.
const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// The time between two reports of the reader's pace, equal to the default interval of heartbeats.
const PACE_EVERY: Duration = Duration::from_secs(1);

/// Longest pause between two attempts to send a report.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// The interval at which the reader checks whether its lease is confirmed again, after the lease may have
/// ended.
const LEASE_LOOK: Duration = Duration::from_millis(50);

/// The longest time for which the last reports of a dropped reader are sent, before its client is released
/// (C5.8). The time is long because a released client loses the splits that it has not reported as done. A
/// dispatcher that is out of reach may return within that time.
pub(crate) const LAST_REPORTS_MAX: Duration = Duration::from_secs(120);

/// The longest time for sending the last reports after the service was closed or shut down. The time is short
/// because the process is ending.
const CLOSING_REPORTS_MAX: Duration = Duration::from_millis(500);

/// Connects a reader to the dispatcher, and returns the channels of the connection. Must be called within a
/// tokio runtime, on which the connection's tasks run until the reader is dropped.
///
/// `closing` becomes true, or loses its sender, when the reader's process stops using the service. `held` is
/// dropped after the dispatcher was notified of the reader's end, or cannot be notified.
pub fn discover(handle: IterationHandle, closing: watch::Receiver<bool>, held: impl Send + 'static) -> Feed {
    let (events_sender, events) = mpsc::channel(EVENTS_MAX);
    let (reports, reports_queue) = mpsc::channel(REPORTS_MAX);
    let pace = Arc::new(PaceMeter::default());
    let dispatcher = handle.dispatcher();
    let meter = pace.clone();
    tokio::spawn(async move {
        pass(handle, (events_sender, reports_queue), &meter, closing).await;
        drop(held);
    });
    Feed {
        events,
        reports,
        pace,
        dispatcher,
    }
}

/// Runs the connection until the reader is dropped. Afterwards sends the reader's last reports, and releases
/// the client, which the dispatcher then forgets.
async fn pass(
    mut handle: IterationHandle,
    (events, reports): (mpsc::Sender<TaskEvent>, mpsc::Receiver<Report>),
    pace: &PaceMeter,
    closing: watch::Receiver<bool>,
) {
    let (reporter, paced) = (handle.reporter(), handle.reporter());
    let mut reporting = tokio::spawn(async move { pass_reports(&reporter, reports).await });
    let is_shut_down = tokio::select! {
        is_shut_down = pass_events(&mut handle, &events) => is_shut_down,
        () = pass_pace(&paced, pace) => false,
    };
    tokio::select! {
        _ = &mut reporting => {}
        () = until_reports_are_late(closing, is_shut_down) => reporting.abort(),
    }
    if let Err(error) = handle.release().await {
        tracing::debug!(%error, "the client was not released; the dispatcher will notice its silence");
    }
}

/// Waits until the time allowed for the last reports has passed.
async fn until_reports_are_late(mut closing: watch::Receiver<bool>, is_shut_down: bool) {
    let closed = async {
        if !is_shut_down {
            // A closed channel also means that the process no longer uses the service.
            closing.wait_for(|is_closing| *is_closing).await.ok();
        }
        tokio::time::sleep(CLOSING_REPORTS_MAX).await;
    };
    tokio::time::timeout(LAST_REPORTS_MAX, closed).await.ok();
}

/// Reports once a second how fast the reader's user takes elements, and the reader's links, until the future
/// is dropped.
async fn pass_pace(to: &IterationReporter, meter: &PaceMeter) {
    let mut gauge = PaceGauge::default();
    let mut ticks = tokio::time::interval(PACE_EVERY);
    loop {
        ticks.tick().await;
        if let Some(pace) = gauge.pace(meter, Instant::now()) {
            to.note_pace(pace);
        }
        if let Some(links) = meter.links() {
            to.note_links(links);
        }
    }
}

/// Forwards the dispatcher's pushes to the reader, until the reader is dropped or the service is shut down.
/// Returns whether the service was shut down.
async fn pass_events(handle: &mut IterationHandle, events: &mpsc::Sender<TaskEvent>) -> bool {
    let (mut is_caught_up, mut is_doubted) = (false, false);
    let (mut contact, reporter) = (handle.contact(), handle.reporter());
    loop {
        let push = tokio::select! {
            push = handle.next_push() => push,
            is_up = contact.changed() => {
                if events.send(TaskEvent::Contact { is_up }).await.is_err() {
                    return false;
                }
                continue;
            }
            () = until_lease_is(&reporter, !is_doubted) => {
                is_doubted = !is_doubted;
                if events.send(TaskEvent::LeaseDoubted(is_doubted)).await.is_err() {
                    return false;
                }
                continue;
            }
            () = events.closed() => return false,
        };
        let (event, is_last) = match push {
            Ok(push) => (translate(push), false),
            Err(error) if error.code == Code::Unavailable => {
                (Some(TaskEvent::Unreachable(error.to_string())), true)
            }
            Err(error) => (Some(TaskEvent::Failed(error.to_string())), true),
        };
        // C12.2: after a shutdown the last reports are still sent and the client is released, even if the
        // reader is dropped meanwhile.
        let is_over = matches!(event, Some(TaskEvent::ShutDown { .. }));
        if let Some(event) = event
            && events.send(event).await.is_err()
        {
            return is_over;
        }
        if is_over {
            return true;
        }
        if is_last {
            events.closed().await;
            return false;
        }
        // The first push is a snapshot, which the handle unpacks into several pushes.
        if !is_caught_up && handle.is_all_told() {
            is_caught_up = true;
            if events.send(TaskEvent::CaughtUp).await.is_err() {
                return false;
            }
        }
    }
}

/// Waits until the reader's lease, as far as this process knows, has ended (`ended` is true) or is valid
/// (`ended` is false) (C4.4).
async fn until_lease_is(reporter: &IterationReporter, ended: bool) {
    loop {
        let now = tokio::time::Instant::now();
        let ends = reporter.lease_ends();
        if ends.is_some_and(|ends| ends <= now) == ended {
            return;
        }
        match ends {
            Some(ends) if ended => tokio::time::sleep_until(ends).await,
            Some(_) | None => tokio::time::sleep(LEASE_LOOK).await,
        }
    }
}

pub(crate) fn translate(push: ClientPush) -> Option<TaskEvent> {
    match push {
        ClientPush::TaskAdded(info) => Some(TaskEvent::Added(TaskSource {
            task: TaskId(info.task.0),
            worker: WorkerPlace {
                address: info.worker_address,
                whereabouts: info.whereabouts,
                local_socket: info.local_socket,
            },
            ticket: info.ticket,
            start_round: info.start_round,
        })),
        ClientPush::TaskRemoved(removed) => Some(TaskEvent::Removed {
            task: TaskId(removed.task.0),
            reason: removed.reason.to_string(),
            has_left: removed.reason == RemovalReason::WorkerLeft,
        }),
        ClientPush::SplitsLost {
            splits,
            worker_address,
        } => {
            let splits = splits.iter().map(|range| LostSplits {
                source: range.source,
                repetition: range.repetition,
                first: range.first,
                count: range.count,
            });
            Some(TaskEvent::SplitsLost {
                splits: splits.collect(),
                worker: worker_address,
            })
        }
        ClientPush::IterationFinished { .. } => Some(TaskEvent::IterationFinished),
        ClientPush::WorkersLost { workers } => Some(TaskEvent::WorkersLost { workers }),
        ClientPush::ShutDown { by } => Some(TaskEvent::ShutDown { by }),
        ClientPush::Lapsed => Some(TaskEvent::Lapsed),
        // The worker reports the failure too, after the elements that precede it.
        ClientPush::TaskFailed {
            task,
            worker_address,
            message,
            element,
        } => Some(TaskEvent::TaskFailed {
            task: TaskId(task.0),
            worker: worker_address,
            failure: reported(&message).at_element(element.map(failed_element)),
        }),
        ClientPush::TaskEnded { task } => Some(TaskEvent::Ended { task: TaskId(task.0) }),
        ClientPush::ConsumersLost { consumers } => Some(TaskEvent::ConsumersLost { consumers }),
        ClientPush::TaskScheduled { task, start_round } => {
            let task = TaskId(task.0);
            Some(TaskEvent::Scheduled { task, start_round })
        }
        ClientPush::TaskConcluded(concluded) => Some(TaskEvent::Concluded {
            task: TaskId(concluded.task.0),
            groups: concluded.groups,
        }),
        // Snapshots exist only on the wire: the handle unpacks each snapshot into the other kinds of pushes.
        ClientPush::Snapshot(_) => None,
    }
}

/// Returns the failure of which the dispatcher has the text alone. The text ends with the traceback of a
/// Python function, if there is one.
fn reported(text: &str) -> Failure {
    let (message, traceback) = match text.find("\nTraceback (most recent call last)") {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, ""),
    };
    Failure::new("task", message, "", traceback)
}

fn failed_element(element: millstream_control::FailedElement) -> FailedElement {
    FailedElement {
        split: element.split,
        id: element.id,
        yielded: element.yielded,
    }
}

/// A receiver of reports. Sending a report twice has the same effect as sending it once.
trait ReportTo {
    fn report(&self, report: &Report) -> impl Future<Output = Result<(), Error>> + Send;
}

impl ReportTo for IterationReporter {
    async fn report(&self, report: &Report) -> Result<(), Error> {
        match report {
            Report::Done { task, leases } => self.splits_done(control_id(*task), &lease_ranges(leases)).await,
            Report::Waiting { task, leases } => {
                self.splits_waiting(control_id(*task), &lease_ranges(leases))
                    .await
            }
            Report::Drained { task } => self.task_drained(control_id(*task)).await,
            Report::Suspect { worker } => self.suspect_worker(worker).await,
            Report::Ready { task, earliest } => self.round_ready(control_id(*task), *earliest).await,
            Report::Removed { task, seen } => {
                let seen = Seen {
                    complete: Vec::new(),
                    partial: lease_ranges(&seen.partial),
                    released: seen.released,
                };
                self.acknowledge_removal(control_id(*task), seen).await
            }
        }
    }
}

/// Sends the reports one at a time, and waits for each answer before the next report. The order matters: the
/// dispatcher leases a removed task's splits again unless a report named them before the removal was
/// acknowledged (C6.1, C6.4).
async fn pass_reports(to: &impl ReportTo, mut reports: mpsc::Receiver<Report>) {
    while let Some(report) = reports.recv().await {
        let mut backoff = BACKOFF_MIN;
        while let Err(error) = to.report(&report).await {
            if is_final(error.code) {
                tracing::debug!(%error, ?report, "a report was refused");
                break;
            }
            tracing::debug!(%error, "a report did not reach the dispatcher, trying again");
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }
}

/// Returns whether a retry would fail in the same way. The failure of a session reaches the reader as an
/// event.
pub(crate) fn is_final(code: Code) -> bool {
    match code {
        Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted => false,
        Code::InvalidArgument
        | Code::NotFound
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::Unimplemented
        | Code::Aborted
        | Code::Internal => true,
    }
}

pub(crate) fn control_id(task: TaskId) -> millstream_control::TaskId {
    millstream_control::TaskId(task.0)
}

pub(crate) fn lease_ranges(leases: &[RangeInclusive<u64>]) -> Vec<LeaseRange> {
    let ranges = leases.iter().map(|range| LeaseRange {
        first: *range.start(),
        count: (range.end() - range.start()).saturating_add(1),
    });
    ranges.collect()
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::report::SeenSplits;

    /// A dispatcher whose first requests fail with the given errors.
    #[derive(Default)]
    struct Flaky {
        failures: Mutex<Vec<Error>>,
        heard: Mutex<Vec<Report>>,
    }

    impl ReportTo for Flaky {
        async fn report(&self, report: &Report) -> Result<(), Error> {
            if let Some(error) = self.failures.lock().pop() {
                return Err(error);
            }
            self.heard.lock().push(report.clone());
            Ok(())
        }
    }

    #[test]
    fn a_reported_failure_has_its_traceback() {
        let traceback = "Traceback (most recent call last):\n  File \"a.py\", line 1";
        let failed = |message: &str| ClientPush::TaskFailed {
            task: millstream_control::TaskId(1),
            worker_address: "one:1".to_owned(),
            message: message.to_owned(),
            element: None,
        };
        for (text, expected) in [
            (format!("no 37,\nplease (at a.rec)\n{traceback}"), traceback),
            ("no 37,\nplease (at a.rec)".to_owned(), ""),
        ] {
            let Some(TaskEvent::TaskFailed { failure, .. }) = translate(failed(&text)) else {
                panic!("expected a failure")
            };
            assert_eq!(failure.message, "no 37,\nplease (at a.rec)");
            assert_eq!(failure.traceback, expected);
        }
    }

    fn error(code: Code) -> Error {
        let message = "an error made by the test".to_owned();
        Error { code, message }
    }

    fn reports() -> Vec<Report> {
        let task = TaskId(1);
        let seen = SeenSplits {
            partial: vec![4..=4],
            released: 7,
        };
        vec![
            Report::Done {
                task,
                leases: vec![1..=3],
            },
            Report::Removed { task, seen },
        ]
    }

    async fn heard_after(failures: Vec<Error>) -> Vec<Report> {
        let (sender, queue) = mpsc::channel(REPORTS_MAX);
        for report in reports() {
            sender.send(report).await.unwrap();
        }
        drop(sender);
        let flaky = Flaky {
            failures: Mutex::new(failures),
            ..Flaky::default()
        };
        pass_reports(&flaky, queue).await;
        flaky.heard.into_inner()
    }

    /// C6.1, C6.4: if the removal were acknowledged before the report of the ended splits, these splits would
    /// be read again.
    #[tokio::test]
    async fn an_unanswered_report_is_resent_before_the_next() {
        let failures = vec![error(Code::DeadlineExceeded), error(Code::Unavailable)];
        assert_eq!(heard_after(failures).await, reports());
    }

    #[tokio::test]
    async fn a_refused_report_delays_no_other() {
        let heard = heard_after(vec![error(Code::NotFound)]).await;
        assert_eq!(heard, reports()[1..]);
    }

    #[test]
    fn transient_failures_are_retried_and_refusals_are_not() {
        let passing = [Code::Unavailable, Code::DeadlineExceeded, Code::ResourceExhausted];
        assert!(!passing.into_iter().any(is_final));
        let lasting = [
            Code::InvalidArgument,
            Code::NotFound,
            Code::FailedPrecondition,
            Code::PermissionDenied,
            Code::Unimplemented,
            Code::Aborted,
            Code::Internal,
        ];
        assert!(lasting.into_iter().all(is_final));
    }

    #[test]
    fn all_leases_are_one_range() {
        let everything = lease_ranges(&SeenSplits::everything().partial);
        let count = u64::MAX;
        assert_eq!(everything, [LeaseRange { first: 0, count }]);
    }
}
