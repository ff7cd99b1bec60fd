//! The shared-memory yardstick with iceoryx2: publish-subscribe between two processes, with one loaned slot
//! per element and this program's stamps.
//!
//! The publisher waits while the subscriber's buffer is full, so that no element is lost. The publisher
//! begins after the subscriber has connected, because an earlier publisher would drop elements beyond its
//! buffer. The subscriber polls without sleeping, which is the fastest way of reading.
#![expect(
    unsafe_code,
    reason = "only the stamps of a loaned slot are written, so its type counts as uninitialised"
)]

use std::time::{Duration, Instant};

use iceoryx2::node::{Node, NodeBuilder};
use iceoryx2::port::backpressure_strategy::BackpressureStrategy;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::{LogLevel, SignalHandlingMode, ipc, set_log_level};
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use super::shared::area::Bell;
use crate::stamp::{self, Checker, Pace};
use crate::tally::{Tallied, Tally, look_every};

/// The maximum number of elements that wait for the subscriber.
const BUFFERED: usize = 64;

/// The number of polls without an element between two clock readings.
const LOOKS: u32 = 10_000;

/// The time without an element after which reading fails. The time is far longer than a busy machine delays a
/// process.
const SILENCE_MAX: Duration = Duration::from_secs(10);

type Factory = PortFactory<ipc::Service, [u8], ()>;

/// A process's end of the exchange. Dropping the exchange removes the files of this process and of dead
/// processes.
pub(crate) struct Exchange {
    node: Node<ipc::Service>,
    factory: Factory,
}

impl Exchange {
    /// Opens the exchange of this name, or creates it.
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        // The lower log level suppresses the warning about a missing configuration file, which is not needed.
        set_log_level(LogLevel::Error);
        // This program handles signals itself.
        let node = NodeBuilder::new().signal_handling_mode(SignalHandlingMode::Disabled);
        let node = node.create::<ipc::Service>().map_err(text)?;
        let name = name.try_into().map_err(text)?;
        let builder = node.service_builder(&name).publish_subscribe::<[u8]>();
        let builder = builder.enable_safe_overflow(false).history_size(0);
        let builder = builder.subscriber_max_buffer_size(BUFFERED);
        let factory = builder.open_or_create().map_err(text)?;
        Ok(Self { node, factory })
    }

    /// Publishes elements until the process is killed. Calls `is_ready` once the publisher exists, and starts
    /// at the first ring of the bell.
    pub(crate) fn send(
        &self,
        element_bytes: u64,
        rate: Option<u64>,
        bell: Bell<'_>,
        is_ready: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let builder = self.factory.publisher_builder();
        let builder = builder.initial_max_slice_len(element_bytes as usize);
        let builder = builder.backpressure_strategy(BackpressureStrategy::RetryUntilDelivered);
        let publisher = builder.create().map_err(text)?;
        is_ready()?;
        bell.wait(0)?;
        let (pace, look_every) = (Pace::new(rate), look_every(element_bytes, rate));
        let mut produced_ns = 0;
        for place in 0.. {
            pace.wait(place);
            if place % look_every == 0 {
                produced_ns = stamp::now_ns();
            }
            let slot = publisher.loan_slice_uninit(element_bytes as usize);
            // SAFETY: the slot is in a file that the system filled with zeros, and every value of a byte is
            // valid.
            let mut slot = unsafe { slot.map_err(text)?.assume_init() };
            stamp::write(slot.payload_mut(), 0, place, produced_ns, false);
            slot.send().map_err(text)?;
        }
        Ok(())
    }

    /// Takes elements until the tally is complete. `start` returns once the publisher exists; the bell then
    /// makes the publisher begin.
    pub(crate) fn receive<P>(
        &self,
        bell: Bell<'_>,
        start: impl FnOnce() -> Result<(P, Tally), String>,
    ) -> Result<Tallied, String> {
        let subscriber = self.factory.subscriber_builder().buffer_size(BUFFERED);
        let subscriber = subscriber.create().map_err(text)?;
        let (publisher, mut tally) = start()?;
        subscriber.update_connections().map_err(text)?;
        bell.ring()?;
        let mut checker = Checker::new(1, false);
        let (mut looks, mut heard) = (0, Instant::now());
        let tallied = loop {
            let Some(element) = subscriber.receive().map_err(text)? else {
                looks += 1;
                if looks % LOOKS == 0 && heard.elapsed() > SILENCE_MAX {
                    return Err(format!("no element arrived for {SILENCE_MAX:?}"));
                }
                std::hint::spin_loop();
                continue;
            };
            if std::mem::take(&mut looks) >= LOOKS {
                heard = Instant::now();
            }
            if let Some(tallied) = tally.count(checker.check_bytes(element.payload())?) {
                break tallied;
            }
        };
        // Dropping kills the publisher, whose files in the file system must then be removed.
        drop(publisher);
        self.node.blocking_cleanup_dead_nodes(SILENCE_MAX);
        Ok(tallied)
    }
}

fn text(error: impl std::fmt::Debug) -> String {
    format!("iceoryx2: {error:?}")
}
