//! Keeps memory that a worker lent to one reader, until the reader returns it or exits.
//!
//! Lent packs stay here after the end of their link, because elements must not change while a reader still
//! views them (D10.7). The announcement of packs is unknown to this module.

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

/// The time between two checks for returned packs on a link that has ended.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The packs that one reader holds. Clones share the packs.
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
        // The return ring has the same number of places.
        let leases = Leases::new(LEASES_MAX as u32);
        Self {
            shared: Arc::new(Mutex::new(Shared { leases, returns })),
        }
    }

    /// Lends a pack, or returns the pack as an error if the reader holds the maximum number of packs.
    pub(super) fn lend(&self, pack: Pack) -> Result<LeaseNumber, Pack> {
        let bytes = pack.region().len() as u64;
        self.shared.lock().leases.grant(pack, bytes)
    }

    /// Takes back all packs that the reader returned.
    ///
    /// # Errors
    /// Returns an error if the reader returned a lease that it does not hold. The reader is at fault, and its
    /// further returns are not trusted.
    pub(super) fn collect(&self) -> Result<(), LinkLost> {
        let mut shared = self.shared.lock();
        let Shared { leases, returns } = &mut *shared;
        while let Some(number) = returns.pop() {
            let returned = leases.give_back(number);
            returned.map_err(|error| LinkLost::Misbehaved(error.to_string()))?;
        }
        Ok(())
    }

    /// Returns whether the reader holds the maximum number of packs.
    pub(super) fn is_full(&self) -> bool {
        self.shared.lock().leases.is_full()
    }

    /// Returns the number of packs that the reader holds.
    pub(super) fn out(&self) -> usize {
        self.shared.lock().leases.out()
    }

    /// Keeps the packs of a link that has ended until the reader has returned all packs or closed its socket.
    /// The reader closes the socket with its last view, or by exiting. A task of the tokio runtime waits for
    /// either, and ends with the runtime.
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
                // A reader that returned an invalid lease is no longer trusted, but the end of its socket
                // still counts.
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
