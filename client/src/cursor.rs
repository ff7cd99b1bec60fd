//! The consumer's position in the received packs: takes a delivery from the intake, and hands over its
//! elements one at a time.
//!
//! The cursor takes the intake's lock once for each pack and once every few elements, never for each element.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millstream_dataplane::TaskId;
use millstream_dataplane::linger::Linger;
use millstream_element::{Element, Layout, Origin, Pack};
use millstream_trace::{AttributeValue, Part, SplitTrace, Tracer};

use crate::error::ReadError;
use crate::reader_core::{Delivery, Handing};
use crate::waiter::Waiter;

/// The result for the consumer: an element, the end of the iteration, or the error that ended reading.
pub(crate) type Handover = Result<Option<Element>, ReadError>;

/// A callback for gauges. The reader calls it for each element that it hands over, before the element's
/// credit is free.
pub type OnHanded = Arc<dyn Fn() + Send + Sync>;

pub(crate) struct Cursor {
    waiter: Arc<Waiter>,
    pack: Option<AtHand>,
    /// The error of an unreadable element. Elements after the unreadable one are not handed over.
    failed: Option<ReadError>,
    settle_every: u64,
    /// Leases of the elements handed over since the intake was last informed.
    leases: Vec<(TaskId, u64)>,
    on_handed: Option<OnHanded>,
    tracer: Tracer,
    linger: Linger,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor")
            .field("pack", &self.pack)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct AtHand {
    task: TaskId,
    pack: Pack,
    layout: Arc<Layout>,
    worker: Arc<str>,
    next: usize,
    /// The index after the last element that may be handed over.
    until: usize,
    handed: u64,
    unsettled: u64,
    last_lease: Option<u64>,
    /// The time when the pack arrived. Unknown for further elements of a pack in a coordinated read.
    arrived: Option<Instant>,
    /// The leases of sampled splits whose elements of this pack have a span.
    traced: BTreeSet<u64>,
}

impl AtHand {
    /// Records the time for which the first element of a split in this pack waited in this reader, if the
    /// split is sampled.
    fn trace(&mut self, tracer: &Tracer, lease: u64) {
        let Some((arrived, split)) = self.arrived.zip(tracer.split(self.task.0, lease)) else {
            return;
        };
        if !self.traced.insert(lease) {
            // The elements of several splits alternate.
            return;
        }
        let worker = AttributeValue::Text(self.worker.to_string());
        split.record(
            Part::Prefetch,
            (arrived, Instant::now()),
            [("millstream.worker", worker)],
        );
    }
}

impl Cursor {
    pub(crate) fn new(waiter: Arc<Waiter>, on_handed: Option<OnHanded>, tracer: Tracer) -> Self {
        Self {
            waiter,
            pack: None,
            failed: None,
            settle_every: 1,
            leases: Vec::new(),
            on_handed,
            tracer,
            linger: Linger::default(),
        }
    }

    /// Returns the next element of the opened pack; `None` if no pack is open or the open pack has no further
    /// element.
    pub(crate) fn next_at_hand(&mut self) -> Option<Handover> {
        let at_hand = self.pack.as_mut()?;
        let is_due = at_hand.next < at_hand.until;
        let Some(slot) = is_due.then(|| at_hand.pack.element_slot(at_hand.next)).flatten() else {
            self.pack = None;
            return None;
        };
        at_hand.next += 1;
        at_hand.handed += 1;
        at_hand.unsettled += 1;
        if let Some(on_handed) = &self.on_handed {
            on_handed();
        }
        self.waiter.intake().count_handed(at_hand.handed);
        // The last element of a pack is settled by the request for the next pack, or by the reader's timer.
        if at_hand.unsettled >= self.settle_every {
            at_hand.unsettled = 0;
            self.waiter.settle();
        }
        let origin = Origin::of(&slot);
        let element = match Element::open(slot, &at_hand.layout, origin) {
            Ok(element) => element,
            Err(error) => {
                let (worker, reason) = (at_hand.worker.to_string(), error.to_string());
                return Some(Err(self.fail(ReadError::Element { worker, reason })));
            }
        };
        for provenance in element.provenance() {
            if at_hand.last_lease != Some(provenance.lease) {
                at_hand.last_lease = Some(provenance.lease);
                self.leases.push((at_hand.task, provenance.lease));
                at_hand.trace(&self.tracer, provenance.lease);
            }
        }
        Some(Ok(Some(element)))
    }

    /// Returns the task of the opened pack, which contains the last element handed over. Returns `None` if no
    /// pack is open.
    pub(crate) fn task_at_hand(&self) -> Option<TaskId> {
        self.pack.as_ref().map(|at_hand| at_hand.task)
    }

    /// Returns the trace of the split of an element of the opened pack, if the split is sampled.
    pub(crate) fn trace_of(&self, element: &Element) -> Option<SplitTrace> {
        if !self.tracer.is_on() {
            return None;
        }
        let lease = element.provenance().first()?.lease;
        self.tracer.split(self.task_at_hand()?.0, lease)
    }

    /// Returns the next element, or registers the waker and returns `Pending`.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Handover> {
        loop {
            if let Some(handover) = self.next_at_hand() {
                return Poll::Ready(handover);
            }
            if let Some(error) = &self.failed {
                return Poll::Ready(Err(error.clone()));
            }
            match std::task::ready!(self.waiter.intake().poll_next(cx)) {
                Ok(Some(handing)) => self.take(handing)?,
                Ok(None) => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Returns the next element. Blocks the thread for at most `timeout`.
    pub(crate) fn wait_next(&mut self, timeout: Duration) -> Poll<Handover> {
        loop {
            if let Some(handover) = self.next_at_hand() {
                return Poll::Ready(handover);
            }
            if let Some(error) = &self.failed {
                return Poll::Ready(Err(error.clone()));
            }
            match std::task::ready!(self.waiter.wait_next(timeout, &mut self.linger)) {
                Ok(Some(handing)) => self.take(handing)?,
                Ok(None) => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Ends reading with an error. Elements after the unreadable one are not handed over, because the gap
    /// would go unnoticed.
    fn fail(&mut self, error: ReadError) -> ReadError {
        self.pack = None;
        self.waiter.intake().fail(error.clone());
        self.failed.insert(error).clone()
    }

    fn take(&mut self, handing: Handing) -> Result<(), ReadError> {
        match handing {
            Handing::Pack(delivery) => self.open(delivery, usize::MAX),
            Handing::First(delivery) => self.open(delivery, 1),
            Handing::Further {
                task,
                worker,
                layout,
                pack,
                index,
            } => {
                self.pack = Some(AtHand {
                    task,
                    pack,
                    layout,
                    worker,
                    next: index,
                    until: index + 1,
                    handed: 0,
                    unsettled: 0,
                    last_lease: None,
                    arrived: None,
                    traced: BTreeSet::new(),
                });
                Ok(())
            }
        }
    }

    /// Opens the pack of a delivery. Each element is validated only when it is handed over (D2.5).
    fn open(&mut self, delivery: Delivery, until: usize) -> Result<(), ReadError> {
        let Delivery {
            task,
            worker,
            layout,
            body,
            arrived,
        } = delivery;
        let copied_bytes = body.copies_when_opened();
        let pack = match body.open(&**self.waiter.intake().alloc()) {
            Ok(pack) => pack,
            Err(error) => {
                let (worker, reason) = (worker.to_string(), error.to_string());
                return Err(self.fail(ReadError::Element { worker, reason }));
            }
        };
        if copied_bytes > 0 {
            self.waiter.intake().copies().add(&worker, copied_bytes);
        }
        let intake = self.waiter.intake();
        self.settle_every = intake.note_at_hand(task, &pack, &mut self.leases);
        self.pack = Some(AtHand {
            task,
            pack,
            layout,
            worker,
            next: 0,
            until,
            handed: 0,
            unsettled: 0,
            last_lease: None,
            arrived: Some(arrived.into_std()),
            traced: BTreeSet::new(),
        });
        Ok(())
    }
}
