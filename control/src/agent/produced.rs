//! The reports of the splits that a task has produced, for tasks whose splits no reader confirms.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::error::Code;
use crate::id::TaskId;
use crate::rpc::session::Session;
use crate::rpc::wire::WireRequest;
use crate::split::LeaseRange;

/// Maximum number of ranges in one report: at 19 bytes each they fit in a small request.
const RANGES_MAX: usize = 1024;

/// The shortest and the longest pause before a report that did not arrive is repeated. The pause doubles
/// each time.
const PAUSE: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// The reporter of a task's produced splits, which runs in the background. The reporter sends one report at
/// a time, each with all splits noted since the previous report. The reporter holds no more splits than the
/// task does (C5.2), and ends with the incarnation.
#[derive(Debug)]
pub struct ProducedSplits {
    runtime: Handle,
    reporting: Arc<Reporting>,
}

#[derive(Debug)]
struct Reporting {
    session: Weak<Session>,
    task: TaskId,
    deadline: Duration,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    leases: Vec<LeaseRange>,
    is_reporting: bool,
}

impl ProducedSplits {
    pub(super) fn new(session: &Arc<Session>, runtime: Handle, task: TaskId, deadline: Duration) -> Self {
        let reporting = Reporting {
            session: Arc::downgrade(session),
            task,
            deadline,
            noted: Mutex::default(),
        };
        Self {
            runtime,
            reporting: Arc::new(reporting),
        }
    }

    /// Notes that a split has been produced. Never blocks.
    pub fn note(&self, lease: u64) {
        let mut noted = self.reporting.noted.lock();
        noted.add(lease);
        if !std::mem::replace(&mut noted.is_reporting, true) {
            self.runtime.spawn(report(self.reporting.clone()));
        }
    }
}

impl Noted {
    /// Adds a lease. Most leases directly follow the latest lease.
    fn add(&mut self, lease: u64) {
        match self.leases.last_mut() {
            Some(last) if last.first + last.count == lease => last.count += 1,
            Some(_) | None => self.leases.push(LeaseRange {
                first: lease,
                count: 1,
            }),
        }
    }

    /// Returns the leases of the next report. An empty report ends the reporting, because every lease was
    /// reported.
    fn next(&mut self) -> Vec<LeaseRange> {
        let count = self.leases.len().min(RANGES_MAX);
        self.is_reporting = count > 0;
        self.leases.drain(..count).collect()
    }
}

async fn report(reporting: Arc<Reporting>) {
    loop {
        let leases = reporting.noted.lock().next();
        if leases.is_empty() {
            return;
        }
        let [mut pause, longest] = PAUSE;
        let task = reporting.task;
        let request = WireRequest::SplitsProduced { task, leases };
        loop {
            // Without the incarnation, its leases are gone as well.
            let Some(session) = reporting.session.upgrade() else {
                return;
            };
            match session.call(request.clone(), reporting.deadline).await {
                Err(error) if matches!(error.code, Code::Unavailable | Code::DeadlineExceeded) => {
                    tracing::debug!(%task, %error, "repeats a report of produced splits");
                }
                Err(error) => {
                    tracing::debug!(%task, %error, "a report of produced splits was refused");
                    break;
                }
                Ok(_) => break,
            }
            drop(session);
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_splits_form_one_range_reported_once() {
        let mut noted = Noted::default();
        for lease in [3, 4, 5, 9, 10, 1] {
            noted.add(lease);
        }
        let range = |first, count| LeaseRange { first, count };
        assert_eq!(noted.next(), [range(3, 3), range(9, 2), range(1, 1)]);
        assert!(noted.is_reporting, "the first report is still in progress");
        noted.add(2);
        assert_eq!(
            noted.next(),
            [range(2, 1)],
            "reported leases are not joined with unreported leases"
        );
        assert_eq!(noted.next(), []);
        assert!(!noted.is_reporting);
        (0..3000).for_each(|lease| noted.add(2 * lease));
        assert_eq!([noted.next().len(), noted.next().len()], [1024, 1024]);
    }
}
