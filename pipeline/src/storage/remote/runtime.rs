//! The thread on which storage requests run. The single thread is independent of the callers' runtimes.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{bounded, select};
use futures_util::future::Future;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::exec::Cancel;

/// The timeout for unfinished disk work when the thread ends.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// The number of threads for blocking disk work of the cache.
const DISK_THREADS: usize = 4;

/// The handle of the storage thread. Dropping the handle stops the thread and cancels its requests.
#[derive(Debug)]
pub(super) struct Runtime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The reason why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// The caller was cancelled.
    Cancelled,
    /// The request panicked, or the thread is ending.
    Lost,
}

impl Runtime {
    /// Starts the thread. Before the thread ends, it waits for `goodbye` for a limited time.
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
                    // An error also means that the handle was dropped.
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

    /// Starts `work` on the thread, without waiting for it.
    pub(super) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.handle.spawn(work).abort_handle()
    }

    /// Runs `work` on the thread and waits for its result, or until `cancel` is raised. `work` must have its
    /// own deadline. Blocks.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        cancel: Option<&Cancel>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Unanswered> {
        let (answer, answered) = bounded(1);
        let task = self.begin(async move {
            // Sending fails if the caller was cancelled.
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
            tracing::error!("the storage thread panicked");
        }
    }
}
