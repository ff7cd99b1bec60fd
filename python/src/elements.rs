//! The iterator over the elements of a service's job, or of a dataset in this process. Each element becomes
//! one Python object.
//!
//! The iterator returns elements that have arrived without releasing the interpreter's lock. The iterator
//! releases the lock only to wait, in steps short enough to react to Ctrl-C. Does not know the objects that
//! elements become.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use millstream::client::{Canceller, LostSplits, ReadError, Reader};
use millstream::dataplane::TaskId;
use millstream::element::Element;
use millstream::pipeline::exec::{Cancel, ExecError};
use millstream::{LocalElements, client::ReaderStats};
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::assembly::{Assembly, Output};
use crate::failure;
use crate::fork::Here;
use crate::notices;
use crate::probe::{Measurements, Probe, SharedProbe, Wait};
use crate::wait::LOOK_EVERY;

/// The number of skipped elements between two checks for signals.
const SKIPPED_UNHEARD: u64 = 4096;

/// The source of elements.
#[derive(Debug)]
pub(crate) enum Supply {
    /// The workers of a service.
    Service(Box<Reader>),
    /// A dataset that is executed in this process.
    Local(LocalElements),
    /// A function that opens the source when the first element is requested.
    Later(Py<PyAny>),
}

#[derive(Debug)]
enum Stopper {
    Service(Canceller),
    Local(Cancel),
    /// The source is not open yet.
    Unopened,
    /// The iterator was closed before its source was opened.
    Closed,
}

/// The reason why no more elements follow.
enum Failed {
    Read(ReadError),
    Exec(ExecError),
}

/// The iterator over the elements of one pass. Only one thread at a time requests an element; other threads
/// wait for their turn.
#[derive(Debug)]
#[pyclass(frozen, weakref, module = "millstream._millstream")]
pub(crate) struct Elements {
    state: Here<Mutex<State>>,
    /// The handle that ends the iterator. The handle has its own lock, so that one thread can close the
    /// iterator while another thread waits for an element.
    stopper: Here<Mutex<Stopper>>,
    /// The measurements for other threads. The iterator takes over those of the source that it opens.
    probe: SharedProbe,
}

#[derive(Debug)]
struct State {
    supply: Supply,
    /// The object that opened this reader. The object owns the connection, so it is dropped after the reader.
    _opener: Option<Py<PyAny>>,
    /// The dataset whose pass the iterator yields, if there is one.
    dataset: Option<Py<PyAny>>,
    output: Output,
    /// `true` if no other reader has the elements.
    exclusive: bool,
    assembly: Option<Assembly>,
    probe: Arc<Probe>,
    is_done: bool,
}

impl Supply {
    #[inline]
    fn try_element(&mut self) -> Option<Result<Option<Element>, Failed>> {
        match self {
            Supply::Service(reader) => Some(reader.try_element()?.map_err(Failed::Read)),
            Supply::Local(elements) => elements.try_element().map(|element| Ok(Some(element))),
            Supply::Later(_) => None,
        }
    }

    fn wait_element(&mut self) -> Poll<Result<Option<Element>, Failed>> {
        match self {
            Supply::Service(reader) => reader
                .wait_element(LOOK_EVERY)
                .map(|next| next.map_err(Failed::Read)),
            Supply::Local(elements) => elements
                .wait_element(LOOK_EVERY)
                .map(|next| next.map_err(Failed::Exec)),
            Supply::Later(_) => Poll::Pending,
        }
    }

    /// Ends a wait that the caller has given up.
    fn end_wait(&mut self) {
        match self {
            Supply::Service(reader) => reader.end_wait(),
            Supply::Local(elements) => elements.end_wait(),
            Supply::Later(_) => {}
        }
    }

    fn stopper(&self) -> Stopper {
        match self {
            Supply::Service(reader) => Stopper::Service(reader.canceller()),
            Supply::Local(elements) => Stopper::Local(elements.canceller()),
            Supply::Later(_) => Stopper::Unopened,
        }
    }
}

impl Elements {
    /// Creates an iterator over the elements of `supply`. `exclusive` elements are visible to no other
    /// reader, so their arrays are writable. `probe` receives the measurements.
    pub(crate) fn new(supply: Supply, output: Output, exclusive: bool, probe: Arc<Probe>) -> Elements {
        if let Supply::Local(elements) = &supply {
            probe.note_stages(elements.stage_costs());
        }
        Elements {
            probe: Arc::new(Here::new(Mutex::new(Arc::clone(&probe)))),
            stopper: Here::new(Mutex::new(supply.stopper())),
            state: Here::new(Mutex::new(State {
                supply,
                _opener: None,
                dataset: None,
                output,
                exclusive,
                assembly: None,
                probe,
                is_done: false,
            })),
        }
    }
}

impl State {
    /// Returns the element that arrived, or `None` at the end.
    #[inline]
    fn taken(&mut self, came: Result<Option<Element>, Failed>) -> PyResult<Option<Element>> {
        match came {
            Ok(Some(element)) => {
                self.probe.note_element(element.slot().len());
                Ok(Some(element))
            }
            Ok(None) => {
                if !std::mem::replace(&mut self.is_done, true) {
                    self.probe.note_end();
                }
                Ok(None)
            }
            Err(Failed::Read(error)) => Err(failure::read(&error)),
            Err(Failed::Exec(error)) => Err(failure::execution(&error)),
        }
    }

    /// Returns the element as a Python object.
    #[inline]
    fn build<'py>(&mut self, py: Python<'py>, element: &Element) -> PyResult<Bound<'py, PyAny>> {
        let assembly = match &self.assembly {
            Some(assembly) if assembly.suits(element) => assembly,
            Some(_) | None => self.assembly.insert(Assembly::new(py, element.layout())?),
        };
        assembly.build(py, element, &self.output, self.exclusive)
    }

    fn lost_splits(&self) -> Vec<LostSplits> {
        match &self.supply {
            Supply::Service(reader) => reader.lost_splits(),
            Supply::Local(_) | Supply::Later(_) => Vec::new(),
        }
    }

    fn measured(&self) -> (Arc<Probe>, Option<ReaderStats>) {
        let read = match &self.supply {
            Supply::Service(reader) => Some(reader.stats()),
            Supply::Local(_) | Supply::Later(_) => None,
        };
        (Arc::clone(&self.probe), read)
    }
}

impl Elements {
    /// Returns the next element, or `None` at the end. Waits with the interpreter's lock released.
    #[inline]
    fn next_element(&self, py: Python<'_>, state: &mut State) -> PyResult<Option<Element>> {
        loop {
            if let Poll::Ready(next) = self.element_by(py, state, None)? {
                return Ok(next);
            }
        }
    }

    /// Returns the next element as `next_element` does, or `Pending` if none arrives before the deadline.
    #[inline]
    fn element_by(
        &self,
        py: Python<'_>,
        state: &mut State,
        deadline: Option<Instant>,
    ) -> PyResult<Poll<Option<Element>>> {
        if let Some(came) = state.supply.try_element() {
            return state.taken(came).map(Poll::Ready);
        }
        if state.is_done {
            return Ok(Poll::Ready(None));
        }
        let mut wait = state.probe.wait();
        self.open(py, state, &mut wait)?;
        loop {
            let supply = &mut state.supply;
            let came = py.detach(|| supply.wait_element());
            // Notices from before the element or the end are emitted first.
            let said = notices::say(py);
            if said.is_err() && came.is_pending() {
                state.supply.end_wait();
            }
            said?;
            if let Poll::Ready(came) = came {
                return state.taken(came).map(Poll::Ready);
            }
            let signal = py.check_signals();
            if signal.is_err() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                state.supply.end_wait();
                return signal.map(|()| Poll::Pending);
            }
        }
    }

    /// Opens the source if it is not open yet. The caller's wait continues in the measurements of the source.
    fn open(&self, py: Python<'_>, state: &mut State, wait: &mut Wait) -> PyResult<()> {
        let Supply::Later(opener) = &state.supply else {
            return Ok(());
        };
        wait.opens();
        let opened = opener.bind(py).call0()?.cast_into::<Elements>()?;
        let taken = {
            let mut of_opened = lock(py, opened.get().state.get("iterator")?)?;
            // No other code has the opened iterator. The parts of the opened iterator move into this
            // iterator, and the opened iterator stays behind empty.
            let output = std::mem::replace(&mut of_opened.output, Output::Numpy);
            let supply = std::mem::replace(&mut of_opened.supply, Supply::Later(py.None()));
            (supply, output, of_opened.exclusive, Arc::clone(&of_opened.probe))
        };
        let later = std::mem::replace(&mut state.supply, taken.0);
        (state.output, state.exclusive) = (taken.1, taken.2);
        wait.opened(&taken.3);
        state.probe = Arc::clone(&taken.3);
        *self.probe.get("iterator")?.lock() = taken.3;
        if let Supply::Later(opener) = later {
            state._opener = Some(opener);
        }
        let mut stopper = self.stopper.get("iterator")?.lock();
        let is_closed = matches!(*stopper, Stopper::Closed);
        *stopper = state.supply.stopper();
        drop(stopper);
        if is_closed {
            self.close();
        }
        Ok(())
    }
}

#[pymethods]
impl Elements {
    /// Returns an iterator over a pass of `dataset`. The iterator calls `opener` for the actual iterator when
    /// the first element is requested.
    #[staticmethod]
    fn lazy(py: Python<'_>, opener: Py<PyAny>, dataset: Py<PyAny>) -> PyResult<Elements> {
        let elements = Elements::new(Supply::Later(opener), Output::Numpy, false, Arc::default());
        lock(py, elements.state.get("iterator")?)?.dataset = Some(dataset);
        Ok(elements)
    }

    /// Returns the specs of the elements, nested in the same way as the elements.
    #[getter]
    fn element_spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &lock(py, self.state.get("iterator")?)?.dataset {
            Some(dataset) => dataset.bind(py).getattr("element_spec"),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Returns the next element. Raises `OutOfRangeError` at the end.
    fn get_next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.__next__(py)?
            .ok_or_else(|| failure::raise("OutOfRangeError", "the iterator has no more elements"))
    }

    /// Returns the next element as an `Optional`, which is empty at the end.
    fn get_next_as_optional<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let optional = py.import("millstream._optional")?.getattr("Optional")?;
        match self.__next__(py)? {
            Some(element) => optional.call_method1("from_value", (element,)),
            None => optional.call_method0("empty"),
        }
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[inline]
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut state = lock(py, self.state.get("iterator")?)?;
        match self.next_element(py, &mut state)? {
            Some(element) => Ok(Some(state.build(py, &element)?)),
            None => Ok(None),
        }
    }

    /// Returns the next element if it has arrived, else `otherwise`. Never blocks. Returns `otherwise` also
    /// at the end.
    fn ready<'py>(&self, py: Python<'py>, otherwise: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = lock(py, self.state.get("iterator")?)?;
        let Some(element) = state.supply.try_element() else {
            return Ok(otherwise);
        };
        match state.taken(element)? {
            Some(element) => state.build(py, &element),
            None => Ok(otherwise),
        }
    }

    /// Returns the next element if it arrives within `timeout_s` seconds, else `otherwise`. The time is
    /// rounded up to the interval of checks for signals. Raises `StopIteration` at the end.
    fn within<'py>(
        &self,
        py: Python<'py>,
        timeout_s: f64,
        otherwise: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let patience = Duration::try_from_secs_f64(timeout_s).map_err(|error| {
            failure::raise("InvalidArgumentError", format!("timeout_s={timeout_s}: {error}"))
        })?;
        let deadline = Instant::now().checked_add(patience);
        let mut state = lock(py, self.state.get("iterator")?)?;
        match self.element_by(py, &mut state, deadline)? {
            Poll::Ready(Some(element)) => state.build(py, &element),
            Poll::Ready(None) => Err(PyStopIteration::new_err(())),
            Poll::Pending => Ok(otherwise),
        }
    }

    /// Returns the next element. Returns `otherwise` if no element has arrived and more than `lost` splits
    /// are known to be lost: the awaited element may then belong to a lost split. Raises `StopIteration` at
    /// the end.
    fn next_unless_lost<'py>(
        &self,
        py: Python<'py>,
        lost: u64,
        otherwise: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut state = lock(py, self.state.get("iterator")?)?;
        if state.is_done {
            return Err(PyStopIteration::new_err(()));
        }
        let mut wait = state.probe.wait();
        self.open(py, &mut state, &mut wait)?;
        loop {
            let supply = &mut state.supply;
            let came = py.detach(|| supply.wait_element());
            notices::say(py)?;
            if let Poll::Ready(came) = came {
                return match state.taken(came)? {
                    Some(element) => state.build(py, &element),
                    None => Err(PyStopIteration::new_err(())),
                };
            }
            if state.lost_splits().iter().map(|lost| lost.count).sum::<u64>() > lost {
                state.supply.end_wait();
                return Ok(otherwise);
            }
            if let Err(signal) = py.check_signals() {
                state.supply.end_wait();
                return Err(signal);
            }
        }
    }

    /// Returns the ranges of splits that are known to be lost: source, pass, first index and count.
    fn lost(&self, py: Python<'_>) -> PyResult<Vec<(u32, u64, u64, u64)>> {
        let state = lock(py, self.state.get("iterator")?)?;
        let lost = state.lost_splits().into_iter();
        Ok(lost
            .map(|lost| (lost.source, lost.repetition, lost.first, lost.count))
            .collect())
    }

    /// Skips `count` elements without creating objects. Returns the number of skipped elements, which is
    /// lower at the end.
    fn skip(&self, py: Python<'_>, count: u64) -> PyResult<u64> {
        let mut guard = lock(py, self.state.get("iterator")?)?;
        for passed in 0..count {
            if passed % SKIPPED_UNHEARD == 0 {
                py.check_signals()?;
            }
            if self.next_element(py, &mut guard)?.is_none() {
                return Ok(passed);
            }
        }
        Ok(count)
    }

    /// Makes the last returned element count as outstanding until the user releases it with `let_go`. The
    /// worker that sent the element thus sends fewer further elements. Returns the argument for `let_go`, or
    /// `None` for a local dataset.
    fn keep(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let state = lock(py, self.state.get("iterator")?)?;
        let Supply::Service(reader) = &state.supply else {
            return Ok(None);
        };
        Ok(reader.keep().map(|task| task.0))
    }

    /// Releases an element that the user has kept with `keep`.
    fn let_go(&self, py: Python<'_>, task: u64) -> PyResult<()> {
        let state = lock(py, self.state.get("iterator")?)?;
        if let Supply::Service(reader) = &state.supply {
            reader.let_go(TaskId(task));
        }
        Ok(())
    }

    /// Records that the caller buffers this number of returned elements for its user, so that the service
    /// learns the pace of the user. Has no effect for a local dataset.
    fn note_buffered(&self, py: Python<'_>, elements: usize) -> PyResult<()> {
        let state = lock(py, self.state.get("iterator")?)?;
        if let Supply::Service(reader) = &state.supply {
            reader.note_buffered(elements);
        }
        Ok(())
    }

    /// Closes the iterator: a thread that waits for an element gets `CancelledError`.
    fn close(&self) {
        let Ok(stopper) = self.stopper.get("iterator") else {
            return;
        };
        let mut stopper = stopper.lock();
        match &*stopper {
            Stopper::Service(canceller) => canceller.cancel(),
            Stopper::Local(cancel) => cancel.cancel(),
            Stopper::Unopened | Stopper::Closed => *stopper = Stopper::Closed,
        }
    }

    /// Returns the measurements that need no lock of the iterator, also while another thread waits for an
    /// element.
    fn glance<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.measurements().glance(py)
    }

    /// Returns the object that shows the measurements, also after the end of the iterator.
    fn measurements(&self) -> Measurements {
        Measurements::new(&self.probe)
    }

    /// Returns the measurements so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // A collection that starts while objects are made may measure as well, so the state is free by then.
        let (probe, read) = lock(py, self.state.get("iterator")?)?.measured();
        let stats = PyDict::new(py);
        probe.describe(&stats)?;
        if let Some(read) = read {
            describe(&read, &stats)?;
        }
        Ok(stats)
    }

    /// Returns the number of elements that the iterator has returned.
    #[getter]
    fn delivered(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(lock(py, self.state.get("iterator")?)?.probe.delivered())
    }
}

/// Locks the state. Waits for other threads with the interpreter's lock released, and checks for signals.
#[inline]
fn lock<'a>(py: Python<'_>, state: &'a Mutex<State>) -> PyResult<MutexGuard<'a, State>> {
    if let Some(state) = state.try_lock() {
        return Ok(state);
    }
    loop {
        if let Some(state) = py.detach(|| state.try_lock_for(LOOK_EVERY)) {
            return Ok(state);
        }
        py.check_signals()?;
    }
}

fn describe(stats: &ReaderStats, into: &Bound<'_, PyDict>) -> PyResult<()> {
    into.set_item("bottleneck", stats.bottleneck.name())?;
    let transports: BTreeMap<&str, &str> = stats
        .links
        .iter()
        .map(|(worker, link)| (worker.as_str(), link.transport))
        .collect();
    into.set_item("transports", transports)?;
    let lost: u64 = stats.lost_splits.iter().map(|lost| lost.count).sum();
    into.set_item("lost_splits", lost)
}
