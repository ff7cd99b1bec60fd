//! The shared-memory yardstick on iceoryx2: publish-subscribe between two processes, one loaned slot an
//! element, with our stamps.
//!
//! The publisher waits where the subscriber's buffer is full, so that nothing is lost; it begins when the
//! subscriber has connected to it, until when it would drop what the buffer does not take. The subscriber
//! looks again and again for what has come and never sleeps, which is the fastest way there is to read it.
#![expect(
    unsafe_code,
    reason = "a loaned slot of which only the stamps are written counts as uninitialised"
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

/// Elements that wait for the subscriber at most.
const BUFFERED: usize = 64;

/// Looks without an element between two looks at the clock.
const LOOKS: u32 = 10_000;

/// How long there may be no element: far longer than a busy machine keeps a process from running.
const SILENCE_MAX: Duration = Duration::from_secs(10);

type Factory = PortFactory<ipc::Service, [u8], ()>;

/// A process's part in the exchange; dropped, it removes what it and dead processes have left.
pub(crate) struct Exchange {
    node: Node<ipc::Service>,
    factory: Factory,
}

impl Exchange {
    /// Opens the exchange of this name, or creates it.
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        // It says that it has no configuration file, of which it needs none.
        set_log_level(LogLevel::Error);
        // Ending on a signal is this program's own affair.
        let node = NodeBuilder::new().signal_handling_mode(SignalHandlingMode::Disabled);
        let node = node.create::<ipc::Service>().map_err(text)?;
        let name = name.try_into().map_err(text)?;
        let builder = node.service_builder(&name).publish_subscribe::<[u8]>();
        let builder = builder.enable_safe_overflow(false).history_size(0);
        let builder = builder.subscriber_max_buffer_size(BUFFERED);
        let factory = builder.open_or_create().map_err(text)?;
        Ok(Self { node, factory })
    }

    /// Publishes elements from the first ring on until the process is ended. `is_ready` is told when there is
    /// a publisher.
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
            // SAFETY: the slot lies in a file that the system filled with zeroes, and a byte has no invalid
            // value.
            let mut slot = unsafe { slot.map_err(text)?.assume_init() };
            stamp::write(slot.payload_mut(), 0, place, produced_ns, false);
            slot.send().map_err(text)?;
        }
        Ok(())
    }

    /// Takes elements until the tally is done. `start` returns when there is a publisher, whom the bell then
    /// tells to begin.
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
                    return Err(format!("nothing was published for {SILENCE_MAX:?}"));
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
        // It is killed, and what it leaves in the file system is ours to remove.
        drop(publisher);
        self.node.blocking_cleanup_dead_nodes(SILENCE_MAX);
        Ok(tallied)
    }
}

fn text(error: impl std::fmt::Debug) -> String {
    format!("iceoryx2: {error:?}")
}
