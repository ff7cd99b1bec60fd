//! The patience of a process with the dispatcher, and its own whereabouts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::whereabouts::Whereabouts;

/// Called with a sentence while the dispatcher cannot be reached.
type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// Timeouts of a process that talks to the dispatcher. Start from the default and change what is needed.
#[derive(Clone)]
pub struct SessionConfig {
    /// The time for which a new process waits for the dispatcher. Default 60 s: in a cluster everything
    /// starts at once.
    pub connect_deadline: Duration,
    /// The time after which another attempt to connect begins beside the first. Default 3 s. The first
    /// continues for five times as long: where everything is slow, handshakes that are given up and begun
    /// again would never end.
    pub attempt_deadline: Duration,
    /// Between attempts: from this, doubling, to `backoff_max`. Default 50 ms.
    pub backoff_min: Duration,
    /// Default 2 s.
    pub backoff_max: Duration,
    /// The time for a request, with reconnecting. Default 120 s: an iteration may have to list millions of
    /// files.
    pub request_deadline: Duration,
    /// The time for which this process looks for a dispatcher that is out of reach. Default 10 min: a
    /// dispatcher that is moved to another machine is back by then. [`Duration::MAX`]: for as long as the
    /// process lives.
    pub give_up: Duration,
    /// Told while the dispatcher cannot be reached: after the first attempt that failed, then about every
    /// `notice_interval`. Without it that is a warning in the log.
    pub on_waiting: Option<Notice>,
    /// Default 30 s.
    pub notice_interval: Duration,
    /// The host and process, for readers that choose among workers. Default: unknown.
    pub whereabouts: Whereabouts,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            connect_deadline: Duration::from_secs(60),
            attempt_deadline: Duration::from_secs(3),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            request_deadline: Duration::from_secs(120),
            give_up: Duration::from_secs(600),
            on_waiting: None,
            notice_interval: Duration::from_secs(30),
            whereabouts: Whereabouts::default(),
        }
    }
}

impl fmt::Debug for SessionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionConfig")
            .field("connect_deadline", &self.connect_deadline)
            .field("request_deadline", &self.request_deadline)
            .finish_non_exhaustive()
    }
}
