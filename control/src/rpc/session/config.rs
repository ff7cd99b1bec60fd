//! How patient a process is with the dispatcher, and where it says that it is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::whereabouts::Whereabouts;

/// Called with a sentence while the dispatcher cannot be reached.
type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// Timeouts of a process that talks to the dispatcher. Start from the default and change what is needed.
#[derive(Clone)]
pub struct SessionConfig {
    /// How long to wait for the dispatcher at first. Default 60 s: in a cluster everything starts at once.
    pub connect_deadline: Duration,
    /// How long one attempt to connect is waited for before another begins beside it. Default 3 s. The first goes on for five times as long:
    /// where everything is slow, handshakes that are given up and begun again would never end.
    pub attempt_deadline: Duration,
    /// Between attempts: from this, doubling, to `backoff_max`. Default 50 ms.
    pub backoff_min: Duration,
    /// Default 2 s.
    pub backoff_max: Duration,
    /// How long a request may take, reconnecting included. Default 120 s: an iteration may have to list millions of files.
    pub request_deadline: Duration,
    /// How long a dispatcher may be out of reach before this process does not look for it any longer. Default 10 min: one that is
    /// moved to another machine is back by then. [`Duration::MAX`]: it is looked for as long as the process lives.
    pub give_up: Duration,
    /// Told while the dispatcher cannot be reached: after the first attempt that failed, then about every `notice_interval`. Without
    /// it that is a warning in the log.
    pub on_waiting: Option<Notice>,
    /// Default 30 s.
    pub notice_interval: Duration,
    /// Where the process is, for readers that choose among workers. Default: nobody knows.
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
