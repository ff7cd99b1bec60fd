//! The pool that compresses packs, so that no thread that serves sockets does.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use millstream_element::SlotAlloc;
use tokio::sync::mpsc;

use super::session::Bell;
use crate::proto::send::TaskPack;
use crate::transport::{OutPack, body};

/// Packs that wait for a thread; each session has only a few under way.
const JOBS_MAX: usize = 1024;

/// One pack to compress, and where it goes.
pub(super) struct Job {
    pub(super) elements: TaskPack,
    pub(super) done: mpsc::UnboundedSender<OutPack>,
    pub(super) bell: Arc<Bell>,
}

/// Threads that compress; they end with the pool.
#[derive(Debug)]
pub(super) struct CompressPool {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl CompressPool {
    pub(super) fn start(threads: usize, alloc: &Arc<dyn SlotAlloc>) -> std::io::Result<Self> {
        let (jobs, queue) = bounded(JOBS_MAX);
        let threads = (0..threads.max(1))
            .map(|index| {
                let (queue, alloc) = (queue.clone(), alloc.clone());
                std::thread::Builder::new()
                    .name(format!("compress-{index}"))
                    .spawn(move || run(&queue, &*alloc))
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self {
            jobs: Some(jobs),
            threads,
        })
    }

    /// Queues a pack; gives it back when the queue is full.
    pub(super) fn submit(&self, job: Job) -> Result<(), TaskPack> {
        match &self.jobs {
            Some(jobs) => jobs.try_send(job).map_err(|error| error.into_inner().elements),
            None => Err(job.elements),
        }
    }
}

impl Drop for CompressPool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic there was reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

fn run(queue: &Receiver<Job>, alloc: &dyn SlotAlloc) {
    while let Ok(Job { elements, done, bell }) = queue.recv() {
        // Without memory for the compressed form the plain one travels.
        let compressed = body::compress(&elements.pack, alloc).ok().flatten();
        // The session may have ended meanwhile.
        let _ = done.send(OutPack { elements, compressed });
        bell.ring();
    }
}
