//! The view of a reader from other threads. A watch neither delays the reader nor keeps it alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use millstream_dataplane::transport::LinkReport;
use parking_lot::Mutex;

use crate::intake::Intake;
use crate::reader_core::ReaderCore;
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
    /// True if all links are within this host.
    pub is_local: bool,
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
        let last = self.present().map(|view| ReaderView { ready: 0, ..view });
        *self.last.lock() = last;
    }

    /// Returns the state of the reader, or its last state after its end.
    pub fn view(&self) -> Option<ReaderView> {
        let last = self.last.lock().clone();
        last.or_else(|| self.present())
    }

    fn present(&self) -> Option<ReaderView> {
        let intake = self.intake.upgrade()?;
        let (waited_for, is_local) = intake.look(ReaderCore::looks);
        let (ready, reconnects) = intake.look(|core| (core.ready_elements(), core.reconnects()));
        let lost = intake.look(ReaderCore::lost_splits);
        Some(ReaderView {
            waited_for,
            is_local,
            ready,
            reconnects,
            lost_splits: lost.iter().map(|lost| lost.count).sum(),
            links: intake.links(),
        })
    }
}
