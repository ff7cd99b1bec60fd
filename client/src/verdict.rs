//! What a consumer that waits is waiting for, looked at from time to time, and the verdict over all of that.
//!
//! The one sign of a slow network is that elements are on their way: a pack whose header has arrived and whose end has not, or
//! credits so fresh that no answer can be here. Where neither is so, whoever has the credits has no elements.

use std::time::Duration;

use tokio::time::Instant;

use crate::entry::{Entry, Outbox};
use crate::intake::Intake;
use crate::state::State;
use crate::stats::Bottleneck;

/// What an answer takes besides the round trip: time slices of busy hosts.
const SLACK: Duration = Duration::from_millis(1);

/// The round trip of a network of which nothing is known yet.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(10);

/// How often each part was what the consumer waited for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Looks {
    workers: u64,
    network: u64,
    dispatcher: u64,
    no_workers: u64,
}

impl Looks {
    fn note(&mut self, what: Bottleneck) {
        match what {
            Bottleneck::Workers => self.workers += 1,
            Bottleneck::Network => self.network += 1,
            Bottleneck::Dispatcher => self.dispatcher += 1,
            Bottleneck::NoWorkers => self.no_workers += 1,
            Bottleneck::Trainer | Bottleneck::Unmeasured => {}
        }
    }

    /// What was waited for most; `None` if nobody looked while the consumer waited.
    pub(crate) fn verdict(&self) -> Option<Bottleneck> {
        let counts = [
            (self.workers, Bottleneck::Workers),
            (self.network, Bottleneck::Network),
            (self.dispatcher, Bottleneck::Dispatcher),
            (self.no_workers, Bottleneck::NoWorkers),
        ];
        let most = counts.into_iter().max_by_key(|(count, _)| *count)?;
        (most.0 > 0).then_some(most.1)
    }
}

impl State {
    /// What a consumer waits for now. Nothing if there is something for it.
    fn waits_for(&self, now: Instant) -> Option<Bottleneck> {
        if !self.is_open || self.has_something() {
            return None;
        }
        let is_on_way = |outbox: &Outbox| outbox.packs_on_way > 0 && !outbox.is_local;
        if self.links.values().any(is_on_way) {
            return Some(Bottleneck::Network);
        }
        if self.outages.is_open() {
            return Some(Bottleneck::Dispatcher);
        }
        let mut wanted = self.tasks.values().filter(|entry| entry.is_wanted()).peekable();
        if wanted.peek().is_none() {
            return Some(if self.tasks.is_empty() {
                Bottleneck::NoWorkers
            } else {
                Bottleneck::Dispatcher
            });
        }
        let is_at_worker = wanted.any(|entry| self.is_at_worker(entry, now));
        Some(if is_at_worker {
            Bottleneck::Workers
        } else {
            Bottleneck::Network
        })
    }

    /// Whether a task's worker is what is waited for: it had credits for so long that an element would be here, or gave them back
    /// for want of elements.
    fn is_at_worker(&self, entry: &Entry, now: Instant) -> bool {
        let Some(outbox) = self.links.get(&entry.worker).filter(|outbox| outbox.is_up) else {
            return false;
        };
        if !entry.is_subscribed {
            return false;
        }
        if outbox.is_local {
            // Nothing lies between.
            return true;
        }
        let report = self.reports.get(&*entry.worker);
        let round_trip = report.and_then(|report| report.round_trip);
        let round_trip = round_trip.unwrap_or(ROUND_TRIP_UNKNOWN);
        let is_old = |at: Instant| now.saturating_duration_since(at) > 2 * round_trip + SLACK;
        entry.has_yielded || (entry.half.outstanding() > 0 && outbox.stirred_at.is_none_or(is_old))
    }
}

impl Intake {
    /// Looks what the consumer waits for, if it does.
    pub(crate) fn note_wait(&self) {
        let mut state = self.state.lock();
        if let Some(what) = state.waits_for(Instant::now()) {
            state.looks.note(what);
        }
    }

    /// What was waited for most, and whether all links are within this host.
    pub(crate) fn looks(&self) -> (Option<Bottleneck>, bool) {
        let state = self.state.lock();
        // Links are forgotten when nothing of them is wanted, what they were like is not.
        let mut links = state.reports.values();
        (state.looks.verdict(), links.all(|link| link.transport != "quic"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millstream_dataplane::TaskId;
    use millstream_dataplane::proto::message::{Accepted, ToClient};
    use millstream_dataplane::transport::{Admission, Downstream};
    use millstream_element::{Dtype, ElementSpec, HeapAlloc, TensorSpec};

    use super::*;
    use crate::credit::{Bounds, MaxOutstanding};
    use crate::intake::TaskSource;
    use crate::notice::Notices;
    use crate::place::WorkerPlace;

    const TASK: TaskId = TaskId(1);

    fn intake() -> Intake {
        let bounds = Bounds {
            max_outstanding: MaxOutstanding::Elements(4),
            auto_bytes: 0,
            max_outstanding_bytes: 1 << 20,
            shared: None,
        };
        Intake::new(bounds, Arc::new(HeapAlloc), false, None, Notices::default())
    }

    /// Has a worker of another host accept the reader of a task.
    fn subscribe(intake: &Intake) {
        let worker = WorkerPlace::at("a");
        intake.add_task(TaskSource {
            task: TASK,
            worker: worker.clone(),
            ticket: Vec::new(),
            start_round: Some(0),
        });
        intake.handle_link_up("a", &worker, false);
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::U64, &[1])).unwrap();
        let accepted = ToClient::Accepted(Accepted {
            task: TASK,
            spec: spec.to_bytes(),
            element_bytes: 64,
        });
        let mut state = intake.state.lock();
        intake
            .handle(&mut state, "a", Downstream::Message(accepted))
            .unwrap();
    }

    #[test]
    fn each_part_can_be_what_is_waited_for() {
        let intake = intake();
        let waits_for = |after_ms| {
            let now = Instant::now() + Duration::from_millis(after_ms);
            intake.state.lock().waits_for(now)
        };
        assert_eq!(waits_for(0), None, "nothing was asked for");
        assert!(intake.try_next().is_pending());
        assert_eq!(waits_for(0), Some(Bottleneck::NoWorkers));
        subscribe(&intake);
        // Credits have just left, and the round trip is taken for 10 ms.
        assert_eq!(waits_for(0), Some(Bottleneck::Network));
        assert_eq!(waits_for(100), Some(Bottleneck::Workers));
        intake.admit(TASK, 0, 1, 64).unwrap();
        assert_eq!(waits_for(100), Some(Bottleneck::Network), "a pack is on its way");
        intake.note_contact(false);
        assert_eq!(
            waits_for(100),
            Some(Bottleneck::Network),
            "which needs no dispatcher"
        );
        intake.handle_link_lost("a");
        assert_eq!(waits_for(100), Some(Bottleneck::Dispatcher));
        intake.note_contact(true);
        assert_eq!(waits_for(100), Some(Bottleneck::Network), "there is no link");
        intake.cancel();
        assert_eq!(waits_for(100), None, "there is an error to hand over");
    }

    #[test]
    fn the_verdict_is_what_was_seen_most() {
        let mut looks = Looks::default();
        assert_eq!(looks.verdict(), None);
        for what in [Bottleneck::Network, Bottleneck::Workers, Bottleneck::Network] {
            looks.note(what);
        }
        assert_eq!(looks.verdict(), Some(Bottleneck::Network));
    }
}
