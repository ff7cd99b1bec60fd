//! The thread pool that compresses packs, so that threads that serve sockets need not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};
use millstream_element::SlotAlloc;
use tokio::sync::mpsc;

use super::auto::Sample;
use super::bell::Bell;
use crate::proto::message::TaskId;
use crate::proto::send::TaskPack;
use crate::transport::{Body, body};

/// Maximum number of packs that wait for a thread. Each session has only a few packs under compression.
const JOBS_MAX: usize = 1024;

/// A pack to compress, and the session that gets the result.
pub(super) struct Job {
    pub(super) elements: TaskPack,
    pub(super) purpose: Purpose,
    pub(super) done: mpsc::UnboundedSender<Done>,
    pub(super) bell: Arc<Bell>,
}

/// The purpose for which a pack is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The compressed pack will be sent.
    Send,
    /// Only the size of the compressed pack is of interest. The pack itself was sent already.
    Sample,
}

/// The result of a job. The sample is `None` if no memory was available.
#[derive(Debug)]
pub(super) enum Done {
    /// The pack in the form in which it is sent.
    Compressed {
        out: TaskPack<Body>,
        sample: Option<Sample>,
    },
    /// The measured result of compressing the pack.
    Sampled { task: TaskId, sample: Option<Sample> },
}

/// The threads that compress packs. The threads end when the pool is dropped, after the packs that they are
/// compressing.
#[derive(Debug)]
pub(super) struct CompressPool {
    jobs: Option<Sender<Job>>,
    is_closed: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl CompressPool {
    pub(super) fn start(threads: usize, alloc: &Arc<dyn SlotAlloc>) -> std::io::Result<Self> {
        let (jobs, queue) = bounded(JOBS_MAX);
        let is_closed = Arc::new(AtomicBool::new(false));
        let threads = (0..threads.max(1))
            .map(|index| {
                let (queue, alloc, is_closed) = (queue.clone(), alloc.clone(), is_closed.clone());
                std::thread::Builder::new()
                    .name(format!("compress-{index}"))
                    .spawn(move || run(&queue, &*alloc, &is_closed))
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self {
            jobs: Some(jobs),
            is_closed,
            threads,
        })
    }

    /// Queues a pack for compression, or returns it as an error if the queue is full.
    pub(super) fn submit(&self, job: Job) -> Result<(), TaskPack> {
        match &self.jobs {
            Some(jobs) => jobs.try_send(job).map_err(|error| error.into_inner().elements),
            None => Err(job.elements),
        }
    }
}

impl Drop for CompressPool {
    fn drop(&mut self) {
        // Relaxed suffices: a thread that misses the flag compresses one pack too many.
        self.is_closed.store(true, Ordering::Relaxed);
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

fn run(queue: &Receiver<Job>, alloc: &dyn SlotAlloc, is_closed: &AtomicBool) {
    while let Ok(job) = queue.recv() {
        if is_closed.load(Ordering::Relaxed) {
            // The sessions that submitted the job ended before the pool.
            continue;
        }
        let (done, bell) = (job.done.clone(), job.bell.clone());
        // The session may have ended meanwhile, so the result may have no receiver.
        let _ = done.send(work(job, alloc));
        bell.ring();
    }
}

/// Performs a job. Without memory for the compressed form, the pack is sent plain. The session always gets
/// its pack back, even after a panic, because it counts the packs under compression.
fn work(job: Job, alloc: &dyn SlotAlloc) -> Done {
    let (begun, pack) = (Instant::now(), &job.elements.pack);
    let sample = |(plain_bytes, compressed_bytes): (usize, usize)| Sample {
        plain_bytes: plain_bytes as u64,
        compressed_bytes: compressed_bytes as u64,
        took: begun.elapsed(),
    };
    match job.purpose {
        Purpose::Send => {
            let compressed = catch_unwind(AssertUnwindSafe(|| body::compress(pack, alloc)));
            let compressed = compressed.ok().and_then(Result::ok);
            let plain_bytes = pack.region().len();
            let sample = compressed.as_ref().map(|compressed| {
                let block_bytes = compressed.as_ref().map(Body::transferred_bytes);
                sample((plain_bytes, block_bytes.unwrap_or(plain_bytes)))
            });
            let TaskPack { task, first, pack } = job.elements;
            let pack = compressed.flatten().unwrap_or_else(|| pack.into());
            Done::Compressed {
                out: TaskPack { task, first, pack },
                sample,
            }
        }
        Purpose::Sample => {
            let sizes = catch_unwind(AssertUnwindSafe(|| body::sample(pack, alloc)));
            Done::Sampled {
                task: job.elements.task,
                sample: sizes.ok().and_then(Result::ok).map(sample),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as std_mpsc;

    use millstream_element::{AllocError, HeapAlloc, Pack, SlotMut};
    use parking_lot::Mutex;

    use super::*;

    /// An allocator that follows an order at each allocation, and announces each request.
    #[derive(Debug)]
    struct Told {
        asked: std_mpsc::Sender<()>,
        orders: Mutex<std_mpsc::Receiver<Order>>,
    }

    #[derive(Debug)]
    enum Order {
        Alloc,
        Fail,
        Panic,
    }

    impl SlotAlloc for Told {
        fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError> {
            self.asked.send(()).unwrap();
            match self.orders.lock().recv().unwrap() {
                Order::Alloc => HeapAlloc.alloc(size_bytes),
                Order::Fail => Err(AllocError::OutOfMemory { size_bytes }),
                Order::Panic => panic!("on purpose"),
            }
        }
    }

    struct Bench {
        pool: CompressPool,
        asked: std_mpsc::Receiver<()>,
        orders: std_mpsc::Sender<Order>,
        done: mpsc::UnboundedSender<Done>,
        results: mpsc::UnboundedReceiver<Done>,
    }

    fn bench() -> Bench {
        let (say_asked, asked) = std_mpsc::channel();
        let (orders, take_orders) = std_mpsc::channel();
        let alloc: Arc<dyn SlotAlloc> = Arc::new(Told {
            asked: say_asked,
            orders: Mutex::new(take_orders),
        });
        let (done, results) = mpsc::unbounded_channel();
        let pool = CompressPool::start(1, &alloc).unwrap();
        Bench {
            pool,
            asked,
            orders,
            done,
            results,
        }
    }

    impl Bench {
        fn submit(&self, first: u64, purpose: Purpose) {
            let mut slot = HeapAlloc.alloc(4096).unwrap();
            slot.fill(7);
            let job = Job {
                elements: TaskPack {
                    task: TaskId(1),
                    first,
                    pack: Pack::from_parts(slot.freeze(), &[4096]).unwrap(),
                },
                purpose,
                done: self.done.clone(),
                bell: Arc::new(Bell::new(Instant::now())),
            };
            assert!(self.pool.submit(job).is_ok());
        }
    }

    #[test]
    fn every_pack_comes_back_whatever_happens_to_it() {
        let mut bench = bench();
        for (first, order) in [Order::Fail, Order::Panic, Order::Alloc].into_iter().enumerate() {
            let is_compressed = matches!(order, Order::Alloc);
            bench.orders.send(order).unwrap();
            bench.submit(first as u64, Purpose::Send);
            let Some(Done::Compressed { out, sample }) = bench.results.blocking_recv() else {
                panic!("the pool returned no pack");
            };
            assert_eq!(out.first, first as u64);
            assert_eq!(matches!(out.pack, Body::Lz4 { .. }), is_compressed);
            assert_eq!(sample.is_some(), is_compressed);
        }
    }

    #[test]
    fn every_sample_is_answered_whatever_happens_to_it() {
        let mut bench = bench();
        for (first, order) in [Order::Fail, Order::Panic, Order::Alloc].into_iter().enumerate() {
            let is_sampled = matches!(order, Order::Alloc);
            bench.orders.send(order).unwrap();
            bench.submit(first as u64, Purpose::Sample);
            let Some(Done::Sampled { task, sample }) = bench.results.blocking_recv() else {
                panic!("the pool returned no sample");
            };
            assert_eq!(task, TaskId(1));
            let sizes = sample.map(|sample| (sample.plain_bytes, sample.compressed_bytes < 4096));
            assert_eq!(sizes, is_sampled.then_some((4096, true)));
        }
    }

    #[test]
    fn an_ending_pool_drops_its_queue() {
        let bench = bench();
        for first in 0..100 {
            bench.submit(first, Purpose::Send);
        }
        bench.asked.recv().unwrap();
        let is_closed = bench.pool.is_closed.clone();
        let pool = bench.pool;
        let ending = std::thread::spawn(move || drop(pool));
        while !is_closed.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        // The order is for the pack under compression. Any other pack would wait for an order forever.
        bench.orders.send(Order::Alloc).unwrap();
        ending.join().unwrap();
        assert_eq!(bench.results.len(), 1);
    }
}
