//! Executes a dataset in this process on its own thread, for callers that must not block for long.
//!
//! The thread writes elements once, into packs, as a worker does. At most [`PACKS_AHEAD`] packs are queued,
//! and the first pack has one element, so that little is computed before the caller asks. If other readers
//! share the job, only the next pack is prefetched, and it is at most as large as the elements taken before.
//! Does not know the caller.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_client::WaitClock;
use millstream_element::{
    AllocError, Element, HeapAlloc, Layout, Origin, Pack, PackWriter, Pool as Memory, SlotAlloc, SlotMut,
};
use millstream_pipeline::exec::{
    Caches, Cancel, ErrorKind, ExecContext, ExecError, Executor, Functions, OpenError, Pool, StageWatch,
    Stats, Stop,
};
use millstream_pipeline::graph::Graph;
use parking_lot::Mutex;

use crate::pack_size::{PACK_ELEMENTS_MAX, PackSize};
use crate::service_reader;

/// The maximum number of packs in the queue.
const PACKS_AHEAD: usize = 2;

/// The bytes of reused memory. Packs beyond this limit are allocated on the heap.
const POOL_BYTES: usize = 256 << 20;

/// The time for which dropping waits for the thread, which may be blocked in a call to the file system.
const END_GRACE: Duration = Duration::from_secs(2);

/// An iterator over the elements of one pass over a dataset. Dropping the value ends the execution.
#[derive(Debug)]
pub struct LocalElements {
    packs: Option<Receiver<Result<Ready, ExecError>>>,
    /// The requests for single elements. `None` if the thread may prefetch.
    asks: Option<SyncSender<()>>,
    /// `true` if a requested element has not arrived yet.
    is_asked: bool,
    at_hand: VecDeque<Element>,
    waits: Option<Arc<WaitClock>>,
    /// The end of the execution, or its error.
    ended: Option<Result<(), ExecError>>,
    cancel: Cancel,
    costs: StageCosts,
    thread: Option<JoinHandle<()>>,
}

/// The costs of an execution's stages, for viewers on other threads. The costs are computed when a viewer
/// asks.
#[derive(Debug, Clone, Default)]
pub struct StageCosts {
    state: Arc<Mutex<Costs>>,
}

#[derive(Debug, Default)]
enum Costs {
    /// The dataset is not open.
    #[default]
    Unopened,
    Running(StageWatch),
    /// The costs at the end of the execution.
    Ended(Stats),
}

impl StageCosts {
    /// Returns the present costs, or the costs at the end of the execution. Returns `None` before the dataset
    /// is open.
    pub fn latest(&self) -> Option<Stats> {
        match &*self.state.lock() {
            Costs::Unopened => None,
            Costs::Running(watch) => Some(watch.stats()),
            Costs::Ended(stats) => Some(stats.clone()),
        }
    }

    /// Shows the stages of an executor until the returned guard is dropped, and their last costs afterwards.
    fn follow(&self, executor: &Executor) -> Following<'_> {
        if let Some(watch) = executor.watch() {
            *self.state.lock() = Costs::Running(watch);
        }
        Following { costs: self }
    }
}

/// The time in which an executor runs.
struct Following<'c> {
    costs: &'c StageCosts,
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        let mut state = self.costs.state.lock();
        if let Costs::Running(watch) = &*state {
            *state = Costs::Ended(watch.stats());
        }
    }
}

/// A pack of elements that the thread has computed.
#[derive(Debug)]
struct Ready {
    pack: Pack,
    layout: Arc<Layout>,
}

/// The graph to execute, with the settings of the execution.
#[derive(Debug, Clone)]
pub struct LocalRun {
    /// The dataset to execute.
    pub graph: Graph,
    /// The registered functions and sources.
    pub functions: Arc<Functions>,
    /// The number of threads for parallel maps.
    pub threads: usize,
    /// The number of the pass over the dataset.
    pub epoch: u64,
    /// The number that seeds operations without a seed of their own. Another number leads to other random
    /// draws.
    pub task_id: u64,
    /// `true` if an element is computed only while the caller waits for it. The caller's code and the
    /// pipeline then never run at the same time.
    pub on_demand: bool,
    /// The contents of memory caches from earlier executions. Later executions may use the same value.
    pub caches: Option<Caches>,
    /// The clock that counts the waits of the caller. Readers of services report the caller's pace with the
    /// same clock: see [`Hooks::user_waits`](service_reader::Hooks::user_waits).
    pub user_waits: Option<Arc<WaitClock>>,
}

impl LocalElements {
    /// Starts the execution. The thread also opens the dataset, so a failure to open it is returned in place
    /// of the first element.
    ///
    /// # Errors
    /// The system refused to start a thread.
    pub fn start(run: LocalRun) -> Result<Self, ExecError> {
        let (cancel, waits) = (Cancel::new(), run.user_waits.clone());
        let (ready, packs) = sync_channel(packs_ahead(&run.graph));
        let (flag, costs) = (cancel.clone(), StageCosts::default());
        let recorded = costs.clone();
        let (asks, asked) = run.on_demand.then(|| sync_channel(1)).unzip();
        let thread = std::thread::Builder::new()
            .name("millstream-local".to_owned())
            .spawn(move || {
                if let Err(error) = produce(run, flag, asked.as_ref(), &ready, &recorded) {
                    // Sending fails only after the caller dropped the value, and then the error is not
                    // needed.
                    let _ = ready.send(Err(error));
                }
            })
            .map_err(|error| ExecError::new(ErrorKind::Resource, "local", error.to_string()))?;
        Ok(Self {
            packs: Some(packs),
            asks,
            is_asked: false,
            at_hand: VecDeque::new(),
            waits,
            ended: None,
            cancel,
            costs,
            thread: Some(thread),
        })
    }

    /// Returns the next element if it has arrived, without blocking. `None` does not mean the end.
    pub fn try_element(&mut self) -> Option<Element> {
        self.at_hand.pop_front()
    }

    /// Returns the next element, or `None` at the end. Blocks for `patience` at most, and then returns
    /// [`Poll::Pending`]; the caller may call again, or [end its wait](LocalElements::end_wait).
    ///
    /// After the end, every further call returns `None`.
    ///
    /// # Errors
    /// An element failed, or the execution did. The next call returns the element after a failed element.
    /// After the failure of the execution, every further call returns the same error.
    pub fn wait_element(&mut self, patience: Duration) -> Poll<Result<Option<Element>, ExecError>> {
        if let Some(waits) = &self.waits
            && self.at_hand.is_empty()
        {
            waits.begin(Instant::now());
        }
        let came = self.received_within(patience);
        if came.is_ready() {
            self.end_wait();
        }
        came
    }

    /// Ends a wait in [`LocalElements::wait_element`] that the caller has given up.
    pub fn end_wait(&self) {
        if let Some(waits) = &self.waits {
            waits.end(Instant::now());
        }
    }

    fn received_within(&mut self, patience: Duration) -> Poll<Result<Option<Element>, ExecError>> {
        loop {
            if let Some(element) = self.try_element() {
                return Poll::Ready(Ok(Some(element)));
            }
            if let Some(ended) = &self.ended {
                return Poll::Ready(ended.clone().map(|()| None));
            }
            self.ask();
            let received = self.packs.as_ref().map(|packs| packs.recv_timeout(patience));
            self.is_asked &= matches!(received, Some(Err(RecvTimeoutError::Timeout)));
            match received {
                Some(Ok(Ok(ready))) => {
                    if let Err(error) = self.open(&ready) {
                        self.ended = Some(Err(error));
                    }
                }
                Some(Ok(Err(error))) if error.is_passable() => return Poll::Ready(Err(error)),
                Some(Ok(Err(error))) => self.ended = Some(Err(error)),
                Some(Err(RecvTimeoutError::Timeout)) => return Poll::Pending,
                Some(Err(RecvTimeoutError::Disconnected)) | None => self.ended = Some(self.outcome()),
            }
        }
    }

    /// Returns a handle that ends the execution from another thread. Elements that have arrived are still
    /// returned afterwards.
    pub fn canceller(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Returns the view of the stages' costs for other threads.
    pub fn stage_costs(&self) -> StageCosts {
        self.costs.clone()
    }

    /// Requests one element, unless a request is outstanding or the thread prefetches.
    fn ask(&mut self) {
        if let Some(asks) = &self.asks
            && !self.is_asked
        {
            // A thread that has ended reports its end through the channel of packs.
            self.is_asked = asks.try_send(()).is_ok();
        }
    }

    fn open(&mut self, ready: &Ready) -> Result<(), ExecError> {
        for index in 0..ready.pack.len() {
            let Some(slot) = ready.pack.element_slot(index) else {
                break;
            };
            let origin = Origin::of(&slot);
            let element = Element::open(slot, &ready.layout, origin).map_err(internal)?;
            self.at_hand.push_back(element);
        }
        Ok(())
    }

    /// Returns the outcome of the thread after its last pack.
    fn outcome(&mut self) -> Result<(), ExecError> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(internal(
                "a part of the pipeline panicked; the panic's message is in the log above",
            )),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

impl Drop for LocalElements {
    fn drop(&mut self) {
        self.cancel.cancel();
        // Closing the channels wakes a thread that waits for room or for a request.
        (self.packs, self.asks) = (None, None);
        let Some(thread) = self.thread.take() else { return };
        let until = Instant::now() + END_GRACE;
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            // The caller no longer needs the panic's message.
            let _ = thread.join();
        }
    }
}

/// Returns the maximum number of packs in the queue. The maximum is 0 for a job that other readers share,
/// because prefetched elements would be missing for these readers.
fn packs_ahead(graph: &Graph) -> usize {
    let mut nodes = graph.nodes().iter();
    let is_shared = nodes.any(|node| node.op.of().is_some_and(service_reader::is_shared));
    if is_shared { 0 } else { PACKS_AHEAD }
}

/// Executes the dataset until its end, or until the receiver is dropped.
fn produce(
    run: LocalRun,
    cancel: Cancel,
    asked: Option<&Receiver<()>>,
    ready: &SyncSender<Result<Ready, ExecError>>,
    costs: &StageCosts,
) -> Result<(), ExecError> {
    let is_wanted = || asked.is_none_or(|asked| asked.recv().is_ok());
    if !is_wanted() {
        return Ok(());
    }
    let pool = Arc::new(Pool::new(run.threads)?);
    let context = ExecContext {
        epoch: run.epoch,
        caches: run.caches,
        cancel,
        continues: true,
        measured: true,
        ..ExecContext::new(run.task_id, run.functions, pool)
    };
    let mut executor = Executor::open(&run.graph, context).map_err(opening)?;
    let _following = costs.follow(&executor);
    let layout = Layout::new(executor.spec().clone())
        .map_err(|error| ExecError::new(ErrorKind::Caller, "local", error.to_string()))?;
    let memory = Spill(Memory::new(POOL_BYTES));
    let mut size = PackSize::first(&layout);
    loop {
        let (mut writer, open) = PackWriter::open(&memory, size.bytes, size.elements)
            .map_err(|error: AllocError| ExecError::new(ErrorKind::Resource, "local", error.to_string()))?;
        let begun = Instant::now();
        let written = executor.write(&layout, &mut writer, size.elements);
        let took = begun.elapsed();
        let begun = Instant::now();
        // The elements before a failure are sent before the failure.
        if let Some(pack) = open.take(PACK_ELEMENTS_MAX, u64::MAX) {
            let layout = layout.clone();
            if ready.send(Ok(Ready { pack, layout })).is_err() {
                return Ok(());
            }
            // A failure after these elements is sent without a request.
            if written.is_ok() && !is_wanted() {
                return Ok(());
            }
        }
        let waited = begun.elapsed();
        match written.map(|filled| filled.stop) {
            Ok(Stop::End) => return Ok(()),
            Ok(Stop::Full { needed_bytes }) => {
                size.bytes = size.bytes.max(needed_bytes);
                size.adapt(took, waited, false);
            }
            Ok(Stop::Limit) if asked.is_some() => {}
            Ok(Stop::Limit) => size.adapt(took, waited, true),
            Err(error) if executor.continues_after(&error) => {
                if ready.send(Err(error)).is_err() || !is_wanted() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Memory that is reused, with the heap as the fallback when all of it is in use.
#[derive(Debug)]
struct Spill(Memory);

impl SlotAlloc for Spill {
    fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError> {
        self.0.alloc(size_bytes).or_else(|_| HeapAlloc.alloc(size_bytes))
    }
}

fn opening(error: OpenError) -> ExecError {
    if let OpenError::Exec(error) = error {
        return error;
    }
    let message = if let OpenError::Plan(error) = error {
        error.by("this process")
    } else {
        error.to_string()
    };
    ExecError::new(ErrorKind::Caller, "open", message)
}

fn internal(reason: impl ToString) -> ExecError {
    ExecError::new(ErrorKind::Internal, "local", reason.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use millstream_pipeline::exec::{BoxError, PreparedMap, Value};
    use millstream_pipeline::graph::{Dataset, Params, col};

    use super::*;

    fn start(dataset: Dataset) -> LocalElements {
        LocalElements::start(LocalRun {
            threads: 2,
            ..run(dataset, Functions::new())
        })
        .unwrap()
    }

    /// Returns a run on one thread.
    fn run(dataset: Dataset, functions: Functions) -> LocalRun {
        LocalRun {
            graph: dataset.graph().unwrap(),
            functions: Arc::new(functions),
            threads: 1,
            epoch: 0,
            task_id: 1,
            on_demand: false,
            caches: None,
            user_waits: None,
        }
    }

    /// Returns functions with one map.
    fn with_map(
        name: &str,
        call: impl Fn(Value) -> Result<Value, BoxError> + Send + Sync + Clone + 'static,
    ) -> Functions {
        Functions::new().with_map(name, move |_, input| {
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call.clone()),
            })
        })
    }

    fn next(elements: &mut LocalElements) -> Result<Option<Element>, ExecError> {
        loop {
            if let Poll::Ready(next) = elements.wait_element(Duration::from_secs(1)) {
                return next;
            }
        }
    }

    #[test]
    fn elements_come_in_order_before_the_end() {
        let mut elements = start(Dataset::range(0, 1000, 1).batch(3, false));
        let mut seen = Vec::new();
        while let Some(element) = next(&mut elements).unwrap() {
            seen.extend_from_slice(element.component(0).unwrap().as_slice::<i64>().unwrap());
        }
        assert_eq!(seen, (0..1000).collect::<Vec<i64>>());
        assert!(next(&mut elements).unwrap().is_none());
    }

    #[test]
    fn costs_of_stages_stay_visible() {
        let mut elements = start(Dataset::range(0, 1000, 1).batch(3, false));
        let costs = elements.stage_costs();
        while next(&mut elements).unwrap().is_some() {}
        drop(elements);
        let stages = costs.latest().unwrap().stages;
        let found: Vec<(&str, u64)> = stages
            .iter()
            .map(|stage| (&stage.label[..5], stage.elements))
            .collect();
        assert_eq!(found, [("batch", 334), ("range", 1000)]);
    }

    #[test]
    fn costs_are_current_while_a_stage_works() {
        let (entered, started) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new((Mutex::new(entered), Mutex::new(released)));
        let gated = move |value: Value| -> Result<Value, BoxError> {
            // The receiver of a finished test is gone.
            let _ = gate.0.lock().send(());
            let _ = gate.1.lock().recv();
            Ok(value)
        };
        let dataset = Dataset::range(0, 3, 1).map("gated", Params::default());
        let mut elements = LocalElements::start(run(dataset, with_map("gated", gated))).unwrap();
        started.recv().unwrap();
        let costs = elements.stage_costs();
        let earlier = costs.latest().unwrap().elapsed;
        assert!(costs.latest().unwrap().elapsed > earlier);
        drop(release);
        while next(&mut elements).unwrap().is_some() {}
        drop(elements);
        let ended = costs.latest().unwrap();
        assert_eq!(ended.stages[0].elements, 3);
        let functions: Vec<Option<&str>> = ended
            .stages
            .iter()
            .map(|stage| stage.function.as_deref())
            .collect();
        assert_eq!(functions, [Some("gated"), None]);
        assert_eq!(costs.latest().unwrap().elapsed, ended.elapsed);
    }

    #[test]
    fn elements_follow_a_failed_element() {
        let divided =
            Dataset::range(-2, 3, 1).map_expr(millstream_pipeline::graph::lit(10).floor_div(col("")));
        let mut elements = start(divided);
        let mut seen = Vec::new();
        for _ in 0..5 {
            let element = next(&mut elements).map(|element| {
                let element = element.unwrap();
                element.component(0).unwrap().as_slice::<i64>().unwrap()[0]
            });
            seen.push(element.map_err(|error| error.failure().position));
        }
        assert_eq!(seen, [Ok(-5), Ok(-10), Err(Some(2)), Ok(10), Ok(5)]);
        assert!(next(&mut elements).unwrap().is_none());
    }

    #[test]
    fn the_failure_of_a_whole_execution_stays() {
        let mut elements = start(Dataset::files("/nowhere/at/all/*.txt").text_lines());
        let error = next(&mut elements).unwrap_err();
        assert_eq!(next(&mut elements).unwrap_err().to_string(), error.to_string());
    }

    #[test]
    fn elements_of_any_size_find_room() {
        let mut elements = start(Dataset::range(0, 300_000, 1).batch(100_000, false));
        let sizes: Vec<usize> = std::iter::from_fn(|| next(&mut elements).unwrap())
            .map(|element| element.component(0).unwrap().items())
            .collect();
        assert_eq!(sizes, [100_000; 3]);
    }

    #[test]
    fn dropping_ends_an_endless_dataset() {
        let mut elements = start(Dataset::counter(0, 1));
        assert!(next(&mut elements).unwrap().is_some());
        drop(elements);
    }

    #[test]
    fn on_demand_nothing_is_computed_unasked() {
        let computed = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&computed);
        let counted = move |value: Value| -> Result<Value, BoxError> {
            counts.fetch_add(1, Ordering::SeqCst);
            Ok(value)
        };
        let dataset = Dataset::range(0, 5, 1).map("counted", Params::default());
        let mut elements = LocalElements::start(LocalRun {
            on_demand: true,
            ..run(dataset, with_map("counted", counted))
        })
        .unwrap();
        for asked in 1..=5 {
            assert!(next(&mut elements).unwrap().is_some());
            assert_eq!(computed.load(Ordering::SeqCst), asked);
        }
        assert!(next(&mut elements).unwrap().is_none());
    }

    #[test]
    fn an_opening_error_comes_with_the_first_element() {
        let mut elements = start(Dataset::files("/nowhere/at/all/*.txt").text_lines());
        assert!(next(&mut elements).unwrap_err().to_string().contains("/nowhere"));
    }
}
