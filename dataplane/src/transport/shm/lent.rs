//! Memory that a worker lent to one reader, until it is returned or the reader's process has ended.
//!
//! Packs of a link stay here beyond its end: elements must not change under a reader that still looks at them
//! (D10.7). Refuses to know how packs are announced.

use std::sync::Arc;
use std::time::Duration;

use millstream_element::Pack;
use parking_lot::Mutex;

use super::channel::Channel;
use super::control::Control;
use super::layout::{ControlLayout, LEASES_MAX};
use super::leases::{LeaseNumber, Leases};
use super::returns::ReturnReceiver;
use crate::transport::LinkLost;

/// The time between two looks for returned packs on a link that has ended.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The packs that one reader has; clones share them.
#[derive(Debug, Clone)]
pub(super) struct Lent {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    leases: Leases<Pack>,
    returns: ReturnReceiver<Control>,
}

impl Lent {
    pub(super) fn new(control: &Control) -> Self {
        let returns = ReturnReceiver::new(control.clone(), ControlLayout::STANDARD.returns);
        // The ring has as many places.
        let leases = Leases::new(LEASES_MAX as u32);
        Self {
            shared: Arc::new(Mutex::new(Shared { leases, returns })),
        }
    }

    /// Lends a pack, or gives it back when the reader has as many as it may.
    pub(super) fn lend(&self, pack: Pack) -> Result<LeaseNumber, Pack> {
        let bytes = pack.region().len() as u64;
        self.shared.lock().leases.grant(pack, bytes)
    }

    /// Takes back what the reader returned.
    ///
    /// # Errors
    /// It returned what it does not have; it is to blame, and nothing more is believed of it.
    pub(super) fn collect(&self) -> Result<(), LinkLost> {
        let mut shared = self.shared.lock();
        let Shared { leases, returns } = &mut *shared;
        while let Some(number) = returns.pop() {
            let returned = leases.give_back(number);
            returned.map_err(|error| LinkLost::Misbehaved(error.to_string()))?;
        }
        Ok(())
    }

    /// Returns whether the reader has as many packs as it may.
    pub(super) fn is_full(&self) -> bool {
        self.shared.lock().leases.is_full()
    }

    /// Packs that the reader has.
    pub(super) fn out(&self) -> usize {
        self.shared.lock().leases.out()
    }

    /// Keeps the packs of a link that has ended until all came back, or the reader's process closed its
    /// socket: it does so with the last view, or when it exits. Within a tokio runtime, with which it ends.
    pub(super) fn keep(self, channel: Arc<Channel>) {
        if self.out() == 0 {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            let closed = std::future::poll_fn(|cx| channel.poll_closed(cx));
            let returned = async {
                // A reader that returns what it does not have is not believed; its exit still is.
                while self.collect().is_err() || self.out() > 0 {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            };
            tokio::select! {
                () = closed => {}
                () = returned => {}
            }
        });
    }
}
