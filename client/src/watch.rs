//! The view of a reader from other threads. A watch neither delays the reader nor keeps it alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use millstream_dataplane::transport::LinkReport;
use parking_lot::Mutex;

use crate::intake::Intake;
use crate::stats::Bottleneck;

/// A callback that receives the watch of each reader that starts. The callback must not block.
pub type OnStarted = Arc<dyn Fn(ReaderWatch) + Send + Sync>;

/// A handle that shows a reader to other threads, also while the reader waits for an element.
#[derive(Debug, Clone)]
pub struct ReaderWatch {
    intake: Weak<Intake>,
    /// The state of the reader at its end.
    last: Arc<Mutex<Option<ReaderView>>>,
}

/// The state of a reader at one moment.
#[derive(Debug, Clone)]
pub struct ReaderView {
    /// The part of the service that the consumer waited for most; `None` if no sample found it waiting.
    pub waited_for: Option<Bottleneck>,
    /// The number of elements that arrived and wait for the consumer. Coordinated reads count none.
    pub ready: u64,
    /// The number of links to workers that had an earlier link.
    pub reconnects: u64,
    /// The number of splits that are known to be lost.
    pub lost_splits: u64,
    /// The latest known properties of the links to the workers, by worker address.
    pub links: BTreeMap<String, LinkReport>,
}

impl ReaderWatch {
    pub(crate) fn new(intake: &Arc<Intake>) -> ReaderWatch {
        ReaderWatch {
            intake: Arc::downgrade(intake),
            last: Arc::default(),
        }
    }

    /// Notes the end of the reader, whose last state remains visible.
    pub(crate) fn end(&self) {
        // Viewers wait for the lock, so that none of them sees a count that the last state lacks.
        let mut last = self.last.lock();
        *last = self.present().map(|view| ReaderView { ready: 0, ..view });
    }

    /// Returns the state of the reader, or its last state after its end.
    pub fn view(&self) -> Option<ReaderView> {
        let last = self.last.lock();
        last.clone().or_else(|| self.present())
    }

    /// Returns whether the reader has ended, so that its state no longer changes.
    pub fn has_ended(&self) -> bool {
        self.last.lock().is_some() || self.intake.strong_count() == 0
    }

    fn present(&self) -> Option<ReaderView> {
        let intake = self.intake.upgrade()?;
        let mut view = intake.look(|core| ReaderView {
            waited_for: core.looks().0,
            ready: core.ready_elements(),
            reconnects: core.reconnects(),
            lost_splits: core.lost_splits().iter().map(|lost| lost.count).sum(),
            links: BTreeMap::new(),
        });
        view.links = intake.links();
        Some(view)
    }
}
