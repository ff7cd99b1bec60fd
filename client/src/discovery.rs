//! Connects a reader's feed to the dispatcher: pushes become events, reports become requests.
//!
//! The only place in this crate that speaks with the control plane.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_control::rpc::{IterationHandle, IterationReporter};
use millstream_control::{ClientPush, Code, Error, LeaseRange, RemovalReason, Seen};
use millstream_dataplane::TaskId;
use tokio::sync::{mpsc, watch};

use crate::event::{TaskEvent, TaskSource};
use crate::feed::Feed;
use crate::loss::LostSplits;
use crate::pace::{PaceGauge, PaceMeter};
use crate::place::WorkerPlace;
use crate::report::Report;

/// Events that wait for the reader's lane, which never waits for a consumer.
const EVENTS_MAX: usize = 1024;

/// Reports that wait for the dispatcher: few, since the reader joins those that find no room here.
const REPORTS_MAX: usize = 16;

/// First wait after a report that did not arrive; doubled each time.
const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// The time between two reports of the reader's pace: that of heartbeats at their default.
const PACE_EVERY: Duration = Duration::from_secs(1);

/// Longest wait between two attempts at a report.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// The time between two looks whether the dispatcher was heard of again, once the reader's lease may have
/// ended.
const LEASE_LOOK: Duration = Duration::from_millis(50);

/// The longest time that the last reports of a reader that is gone may take, before its client is released
/// (C5.8). A released client loses the splits that it has not reported as done, so a dispatcher that is away
/// is waited for.
pub(crate) const LAST_REPORTS_MAX: Duration = Duration::from_secs(120);

/// The time that they may take once the service is closed or shut down: a process that ends waits for nobody.
const CLOSING_REPORTS_MAX: Duration = Duration::from_millis(500);

/// Connects the feed of an iteration. Must be called within a tokio runtime, which then carries it; the feed
/// ends with the reader. `closing` becomes true, or loses its sender, when the reader's process stops to use
/// the service. `held` is dropped when the dispatcher knows that the reader is gone, or cannot be told.
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

/// Ends when the reader is dropped: passes on its last reports, then releases the client, which is unknown
/// from then on.
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

/// Waits as long as the last reports may take.
async fn until_reports_are_late(mut closing: watch::Receiver<bool>, is_shut_down: bool) {
    let closed = async {
        if !is_shut_down {
            // Without its sender, too, nobody uses the service any more.
            closing.wait_for(|is_closing| *is_closing).await.ok();
        }
        tokio::time::sleep(CLOSING_REPORTS_MAX).await;
    };
    tokio::time::timeout(LAST_REPORTS_MAX, closed).await.ok();
}

/// Says how fast the reader's user goes, for as long as it is asked.
async fn pass_pace(to: &IterationReporter, meter: &PaceMeter) {
    let mut gauge = PaceGauge::default();
    let mut ticks = tokio::time::interval(PACE_EVERY);
    loop {
        ticks.tick().await;
        if let Some(pace) = gauge.pace(meter, Instant::now()) {
            to.note_pace(pace);
        }
    }
}

/// Passes on what the dispatcher tells, until the reader is gone or the service was shut down. Returns
/// whether the latter is known.
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
        // C12.2: what is known is reported, and the client is released, whatever becomes of its reader.
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
        // The first thing told is a snapshot, which stands for several.
        if !is_caught_up && handle.is_all_told() {
            is_caught_up = true;
            if events.send(TaskEvent::CaughtUp).await.is_err() {
                return false;
            }
        }
    }
}

/// Waits until the lease has ended as far as is known here, or until it has not (C4.4).
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
        // Only told apart on the wire: the handle turns it into the others.
        ClientPush::Snapshot(_) => None,
    }
}

/// A receiver of reports. Repeating a report changes nothing.
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

/// One at a time, each until it was answered: the dispatcher takes splits that a removal does not name for
/// splits that nobody has seen, unless it heard of them before (C6.1, C6.4).
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

/// Returns whether asking again would end the same way. Of a session that failed the reader hears as an
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

    /// A dispatcher that is out of reach for a while.
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

    fn error(code: Code) -> Error {
        let message = "the test says so".to_owned();
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

    /// C6.1, C6.4: a removal that is acknowledged before the splits that ended would have them read again.
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
