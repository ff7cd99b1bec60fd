//! An established link to a worker. Either the lane thread or the consumer's thread moves frames over the
//! link.
//!
//! While the consumer asks for elements, its own thread carries the links within the host. So no element has
//! to wake the lane thread first. The lane thread takes over when the consumer stays away. This file owns
//! that choice, and does not know the meaning of frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use millstream_dataplane::proto::message::ToClient;
use millstream_dataplane::transport::{ClientLink, Downstream, Doze, LinkLost, LinkReport};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use crate::copies::LinkCopies;
use crate::intake::Intake;
use crate::reader_core::Outgoing;

/// Number of steps of a link between two reports about the link.
const STEPS_PER_REPORT: u64 = 64;

/// The time for which a consumer may stay away before the lane thread carries frames again. Elements that
/// arrive during this time are already in shared memory; only messages wait.
const TAKE_OVER_AFTER: Duration = Duration::from_millis(10);

/// A link to one worker, shared by the lane thread and the consumer's thread.
pub(crate) struct Carrier {
    worker: Arc<str>,
    is_local: bool,
    /// `None` after the link has ended.
    load: Mutex<Option<Load>>,
    /// Waker of the lane thread's task.
    lane: AtomicWaker,
    /// True if the consumer has carried frames since the lane thread last checked.
    is_carried: AtomicBool,
}

struct Load {
    link: Box<ClientLink>,
    /// The reason why the link does not use a better transport.
    not_better: Option<Arc<str>>,
    copies: LinkCopies,
    steps: u64,
    is_greeted: bool,
    /// Waker of the lane thread's task.
    waker: Option<Waker>,
    /// True if the consumer sleeps until a frame arrives over the link.
    is_slept_at: bool,
    /// The time until which the lane thread leaves the link to the consumer.
    until: Option<std::pin::Pin<Box<Sleep>>>,
    /// The error that ended the link, if the consumer's thread found it.
    lost: Option<LinkLost>,
}

impl Carrier {
    pub(crate) fn new(
        worker: Arc<str>,
        link: Box<ClientLink>,
        not_better: Option<Arc<str>>,
        copies: LinkCopies,
    ) -> Self {
        Self {
            worker,
            is_local: !link.is_network(),
            load: Mutex::new(Some(Load {
                link,
                not_better,
                copies,
                steps: 0,
                is_greeted: false,
                waker: None,
                is_slept_at: false,
                until: None,
                lost: None,
            })),
            lane: AtomicWaker::new(),
            is_carried: AtomicBool::new(false),
        }
    }

    /// Returns whether the link connects to a worker on this host.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    // Calls of the lane thread.

    /// Carries frames in both directions. While the consumer's thread receives the frames, this function only
    /// sends waiting messages. Returns `Ready` when the link is lost.
    pub(crate) fn poll(&self, intake: &Intake, cx: &mut Context<'_>) -> Poll<LinkLost> {
        self.lane.register(cx.waker());
        let mut load = self.load.lock();
        let Some(load) = load.as_mut() else {
            return Poll::Ready(LinkLost::Closed("this side closed the link".into()));
        };
        if let Some(lost) = load.lost.take() {
            return Poll::Ready(lost);
        }
        load.note_waker(cx.waker());
        load.report(intake, &self.worker);
        let is_carried = self.is_carried_on(load, cx);
        let carried = if is_carried {
            load.send(intake, &self.worker, cx)
        } else {
            load.carry(intake, &self.worker, cx)
        };
        load.count_copies();
        match carried {
            Ok(()) => Poll::Pending,
            Err(lost) => Poll::Ready(lost),
        }
    }

    /// Returns whether the consumer receives the frames of this link. Unless the consumer sleeps on the link,
    /// sets a timer after which the lane thread checks again.
    fn is_carried_on(&self, load: &mut Load, cx: &mut Context<'_>) -> bool {
        loop {
            if let Some(until) = load.until.as_mut() {
                if until.as_mut().poll(cx).is_pending() {
                    return true;
                }
                load.until = None;
            }
            if !self.is_carried.swap(false, Ordering::Relaxed) {
                // If the consumer sleeps on the link, its next step wakes the lane thread, which then checks
                // again.
                return load.is_slept_at;
            }
            let until = Instant::now() + TAKE_OVER_AFTER;
            load.until = Some(Box::pin(tokio::time::sleep_until(until)));
        }
    }

    /// Ends the link on the lane thread, and returns it.
    pub(crate) fn end(&self) -> Option<Box<ClientLink>> {
        self.load.lock().take().map(|load| load.link)
    }

    // Calls of the consumer's thread.

    /// Carries frames in both directions, as far as possible without the lane thread. Waits for the lane
    /// thread's lock on the link, which is held only briefly.
    pub(crate) fn step(&self, intake: &Intake) {
        let mut load = self.load.lock();
        let Some((load, waker)) = load.as_mut().and_then(|load| {
            let waker = load.waker.clone()?;
            load.lost.is_none().then_some((load, waker))
        }) else {
            return;
        };
        load.is_slept_at = false;
        if !self.is_carried.swap(true, Ordering::Relaxed) && load.until.is_none() {
            // From now on the lane thread checks whether this thread still carries frames.
            waker.wake_by_ref();
        }
        let mut cx = Context::from_waker(&waker);
        let received = load.receive(intake, &self.worker);
        let carried = received.and_then(|()| load.send(intake, &self.worker, &mut cx));
        load.count_copies();
        if let Err(lost) = carried {
            load.lost = Some(lost);
            waker.wake();
        }
    }

    /// Wakes the lane thread to carry frames.
    pub(crate) fn wake_lane(&self) {
        self.lane.wake();
    }

    /// Returns the place where the consumer's thread can sleep until the worker has sent something. Returns
    /// `Doze::Nowhere` if only the lane thread is notified of arrivals; then wakes the lane thread.
    pub(crate) fn doze(&self) -> Doze {
        let mut load = self.load.lock();
        let Some(load) = load.as_mut().filter(|load| load.lost.is_none()) else {
            return Doze::Nowhere;
        };
        let dozes = load.link.doze().unwrap_or_else(|lost| {
            load.lost = Some(lost);
            Doze::Nowhere
        });
        match &dozes {
            Doze::At(_) => load.is_slept_at = true,
            Doze::Awake => {}
            Doze::Nowhere => {
                load.until = None;
                self.is_carried.store(false, Ordering::Relaxed);
                self.lane.wake();
            }
        }
        dozes
    }
}

impl Load {
    fn note_waker(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    fn report(&mut self, intake: &Intake, worker: &str) {
        if self.steps.is_multiple_of(STEPS_PER_REPORT) {
            let not_better = self.not_better.clone();
            let report = self.link.report();
            let report = LinkReport { not_better, ..report };
            intake.act(|core| core.note_link(worker, report));
        }
        self.steps += 1;
    }

    fn count_copies(&mut self) {
        self.copies.note(self.link.bytes_copied());
    }

    /// Carries frames in both directions until no frame can be received and no message can be sent.
    fn carry(&mut self, intake: &Intake, worker: &str, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        while let Poll::Ready(frame) = self.link.poll_recv(cx) {
            self.handle(intake, worker, frame?, false)?;
        }
        self.send(intake, worker, cx)
    }

    /// Receives the frames that have arrived. Does not arrange a wake-up for later frames.
    fn receive(&mut self, intake: &Intake, worker: &str) -> Result<(), LinkLost> {
        while let Some(frame) = self.link.try_recv()? {
            self.handle(intake, worker, frame, true)?;
        }
        Ok(())
    }

    fn handle(
        &mut self,
        intake: &Intake,
        worker: &str,
        frame: Downstream,
        is_consumer: bool,
    ) -> Result<(), LinkLost> {
        check_greeting(&frame, &mut self.is_greeted)?;
        intake.handle(worker, frame, is_consumer)
    }

    fn send(&mut self, intake: &Intake, worker: &str, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        while let Poll::Ready(ready) = self.link.poll_ready(cx) {
            ready?;
            match intake.poll_outbox(worker, cx) {
                Poll::Ready(Outgoing::Message(message)) => self.link.try_send(message)?,
                Poll::Ready(Outgoing::Moved) => {
                    let reason = "the worker was restarted and has a new local socket".to_owned();
                    return Err(LinkLost::Closed(reason));
                }
                Poll::Pending => break,
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrier")
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

/// Checks that the worker's first message is a `Hello` of this protocol version (D1.1). Packs travel on
/// streams of their own and may overtake the `Hello`.
fn check_greeting(frame: &Downstream, is_greeted: &mut bool) -> Result<(), LinkLost> {
    match frame {
        Downstream::Message(ToClient::Hello(hello)) => {
            hello.check()?;
            *is_greeted = true;
        }
        Downstream::Message(_) if !*is_greeted => {
            return Err(LinkLost::Misbehaved(
                "it sent another message before its hello".into(),
            ));
        }
        Downstream::Message(_) | Downstream::Pack(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use millstream_dataplane::proto::message::ToWorker;
    use millstream_dataplane::transport::Transport;
    use millstream_element::HeapAlloc;

    use super::*;
    use crate::notice::Notices;
    use crate::reader_core::credit::{Bounds, MaxOutstanding};
    use crate::reader_core::{AUTO_BYTES_MIN, Reading};

    /// A link that always has frames to receive. The link occupies its lane thread until the test releases
    /// it.
    #[derive(Debug)]
    struct Slow {
        at_it: Arc<Barrier>,
        let_go: Arc<Barrier>,
    }

    impl Transport for Slow {
        type Out = ToWorker;
        type In = Downstream;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
            self.at_it.wait();
            self.let_go.wait();
            Poll::Pending
        }

        fn try_send(&mut self, _: ToWorker) -> Result<(), LinkLost> {
            Ok(())
        }

        fn poll_recv(&mut self, _: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>> {
            Poll::Pending
        }

        fn doze(&mut self) -> Result<Doze, LinkLost> {
            Ok(Doze::Awake)
        }

        fn close(&mut self, _: &LinkLost) {}

        fn is_network(&self) -> bool {
            false
        }

        fn report(&self) -> LinkReport {
            LinkReport::default()
        }
    }

    /// Regression test: a consumer that skipped a link because its lane thread was busy would sleep while
    /// elements arrived.
    #[test]
    fn a_consumer_sleeps_at_its_own_links() {
        let bounds = Bounds {
            max_outstanding: MaxOutstanding::Auto,
            auto_bytes: AUTO_BYTES_MIN,
            shared: None,
            max_outstanding_bytes: 1 << 20,
        };
        let reading = Reading {
            bounds,
            is_coordinated: false,
            trainer_id: None,
            whole_splits: false,
            is_exactly_once: false,
        };
        let intake = Intake::new(reading, Arc::new(HeapAlloc), Notices::default());
        let (at_it, let_go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let link = Box::new(Slow {
            at_it: at_it.clone(),
            let_go: let_go.clone(),
        });
        let carrier = Carrier::new("a".into(), link, None, intake.copies().of_link("a"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                carrier
                    .poll(&intake, &mut Context::from_waker(Waker::noop()))
                    .is_pending()
            });
            at_it.wait();
            let dozing = scope.spawn(|| carrier.doze());
            // Gives the other thread time to call `doze` while the lane thread is busy. The assertion holds
            // in either case.
            for _ in 0..1000 {
                std::thread::yield_now();
            }
            let_go.wait();
            assert!(matches!(dozing.join(), Ok(Doze::Awake)));
        });
    }
}
