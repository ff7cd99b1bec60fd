//! The thread on which requests are made: one, of its own, whatever runtime the callers have.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{bounded, select};
use futures_util::future::Future;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::exec::Cancel;

/// How long the end of work on a local disk is waited for when the thread ends.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Threads for work on a local disk: the cache's.
const DISK_THREADS: usize = 4;

/// The thread. Dropping it ends it: what it was asked for is given up.
#[derive(Debug)]
pub(super) struct Runtime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Nobody waits any more.
    Cancelled,
    /// The work panicked, or the thread is ending.
    Lost,
}

impl Runtime {
    /// Starts it. At its end it waits a moment for `goodbye`.
    pub(super) fn start(goodbye: impl Future<Output = ()> + Send + 'static) -> io::Result<Runtime> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(DISK_THREADS)
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("storage".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    // An error is as good: its owner, which could stop it, is gone.
                    let _ = stopped.await;
                    let _ = tokio::time::timeout(STOP_GRACE, goodbye).await;
                });
                runtime.shutdown_timeout(STOP_GRACE);
            })?;
        Ok(Runtime {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Begins `work`, which ends by itself.
    pub(super) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.handle.spawn(work).abort_handle()
    }

    /// Waits for `work`, which has a deadline of its own, until `cancel` is raised. Blocks.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        cancel: Option<&Cancel>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Unanswered> {
        let (answer, answered) = bounded(1);
        let task = self.begin(async move {
            // Nobody may wait any more.
            let _ = answer.send(work.await);
        });
        let outcome = match cancel {
            None => answered.recv().map_err(|_| Unanswered::Lost),
            Some(cancel) => select! {
                recv(answered) -> answer => answer.map_err(|_| Unanswered::Lost),
                recv(cancel.signal()) -> _ => Err(Unanswered::Cancelled),
            },
        };
        if outcome.is_err() {
            task.abort();
        }
        outcome
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of storage panicked");
        }
    }
}
