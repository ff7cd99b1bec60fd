//! The capture of one thread's log lines, without an interpretation of the lines.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

/// The warnings of this thread, captured for as long as the guard lives. A single-threaded runtime logs all
/// its warnings on this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn of_this_thread() -> (Log, tracing::subscriber::DefaultGuard) {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::WARN)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Makes sure that a log receives the lines of all places that have logged before. A place that another
    /// thread reached first while the log began may be switched off otherwise.
    pub(crate) fn listen_again() {
        tracing::callsite::rebuild_interest_cache();
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Log {
        self.clone()
    }
}
