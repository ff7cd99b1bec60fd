//! A congestion controller whose window never exceeds the receiver's socket buffer.
//!
//! CUBIC fills the path until packets are lost. On fast links and on loopback, the receiver's socket buffer
//! overflows first, and each overflow loses a whole window. The cap keeps the window just below that size.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig};

/// The factory of CUBIC controllers with a window of at most `window_bytes_max`.
#[derive(Clone, Debug)]
pub(crate) struct CappedCubicConfig {
    /// The window of a new connection, in bytes.
    pub(crate) window_bytes_initial: u64,
    /// Maximum number of bytes in flight.
    pub(crate) window_bytes_max: u64,
}

impl ControllerFactory for CappedCubicConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let mut cubic = CubicConfig::default();
        cubic.initial_window(self.window_bytes_initial.min(self.window_bytes_max));
        let inner = Arc::new(cubic).build(now, current_mtu);
        Box::new(CappedCubic {
            inner,
            window_bytes_max: self.window_bytes_max,
            mtu_bytes: u64::from(current_mtu),
        })
    }
}

struct CappedCubic {
    inner: Box<dyn Controller>,
    window_bytes_max: u64,
    mtu_bytes: u64,
}

impl CappedCubic {
    /// Returns the cap of the window. The cap has room for at least two packets, as in CUBIC itself, because
    /// otherwise nothing could be sent.
    fn cap(&self) -> u64 {
        self.window_bytes_max.max(2 * self.mtu_bytes)
    }
}

impl Controller for CappedCubic {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        // At the cap, the controller treats the sender as limited by its application. Otherwise the inner
        // window would grow beyond the cap, and a loss would shrink only the unused part.
        let capped = self.inner.window() >= self.cap();
        self.inner.on_ack(now, sent, bytes, app_limited || capped, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_acked: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.inner
            .on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu_bytes = u64::from(new_mtu);
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window().min(self.cap())
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        metrics.congestion_window = self.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(CappedCubic {
            inner: self.inner.clone_box(),
            window_bytes_max: self.window_bytes_max,
            mtu_bytes: self.mtu_bytes,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window().min(self.cap())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_window_respects_its_cap_and_losses() {
        let config = CappedCubicConfig {
            window_bytes_initial: 1_000_000,
            window_bytes_max: 700_000,
        };
        let start = Instant::now();
        let mut controller = Arc::new(config).build(start, 1200);
        assert_eq!(
            (controller.initial_window(), controller.window()),
            (700_000, 700_000)
        );
        let later = start + Duration::from_secs(1);
        controller.on_congestion_event(later, later, false, 1200);
        assert!(
            controller.window() < 500_000,
            "a loss must shrink the window below the cap"
        );
        assert_eq!(controller.clone_box().window(), controller.window());
        assert_eq!(controller.metrics().congestion_window, controller.window());
    }

    #[test]
    fn two_packets_always_fit() {
        let config = CappedCubicConfig {
            window_bytes_initial: 100_000,
            window_bytes_max: 2_000,
        };
        let mut controller = Arc::new(config).build(Instant::now(), 1200);
        assert_eq!(controller.initial_window(), 2_000);
        controller.on_mtu_update(65_495);
        assert_eq!(controller.window(), 2 * 65_495);
    }
}
