//! The iterator: elements of a service's job or of a dataset in this process, one Python object each.
//!
//! What is at hand is handed over under the interpreter's lock; only to wait it is released, in steps short
//! enough to hear Ctrl-C. Refuses to know what objects elements become.

use std::collections::BTreeMap;
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
use crate::wait::LOOK_EVERY;

/// Elements that are left out between two looks for signals.
const SKIPPED_UNHEARD: u64 = 4096;

/// The source of elements.
#[derive(Debug)]
pub(crate) enum Supply {
    /// The workers of a service.
    Service(Box<Reader>),
    /// A dataset that is executed here.
    Local(LocalElements),
    /// Nothing before the first element is asked for: then what this makes.
    Later(Py<PyAny>),
}

#[derive(Debug)]
enum Stopper {
    Service(Canceller),
    Local(Cancel),
    /// Nothing is open yet.
    Unopened,
    /// The iterator was closed before anything was open.
    Closed,
}

/// Why there are no more elements.
enum Failed {
    Read(ReadError),
    Exec(ExecError),
}

/// Yields one pass of elements. One thread at a time gets the next one; another waits its turn.
#[derive(Debug)]
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct Elements {
    state: Here<Mutex<State>>,
    /// Apart, so that one thread can end it while another waits.
    stopper: Here<Mutex<Stopper>>,
}

#[derive(Debug)]
struct State {
    supply: Supply,
    /// The object that opened this reader; it owns the connection, and is dropped after the reader.
    _opener: Option<Py<PyAny>>,
    /// The dataset of which it is a pass, if there is one.
    dataset: Option<Py<PyAny>>,
    output: Output,
    /// Whether nobody else has its elements.
    exclusive: bool,
    assembly: Option<Assembly>,
    delivered: u64,
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

    fn stopper(&self) -> Stopper {
        match self {
            Supply::Service(reader) => Stopper::Service(reader.canceller()),
            Supply::Local(elements) => Stopper::Local(elements.canceller()),
            Supply::Later(_) => Stopper::Unopened,
        }
    }
}

impl Elements {
    /// An iterator over what `supply` yields. `exclusive` elements nobody else has: they may be written.
    pub(crate) fn new(supply: Supply, output: Output, exclusive: bool) -> Elements {
        Elements {
            stopper: Here::new(Mutex::new(supply.stopper())),
            state: Here::new(Mutex::new(State {
                supply,
                _opener: None,
                dataset: None,
                output,
                exclusive,
                assembly: None,
                delivered: 0,
                is_done: false,
            })),
        }
    }
}

impl State {
    /// The element that came; `None` at the end.
    #[inline]
    fn taken(&mut self, came: Result<Option<Element>, Failed>) -> PyResult<Option<Element>> {
        match came {
            Ok(Some(element)) => {
                self.delivered += 1;
                Ok(Some(element))
            }
            Ok(None) => {
                self.is_done = true;
                Ok(None)
            }
            Err(Failed::Read(error)) => Err(failure::read(&error)),
            Err(Failed::Exec(error)) => Err(failure::execution(&error)),
        }
    }

    /// The element as an object.
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

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = PyDict::new(py);
        stats.set_item("delivered", self.delivered)?;
        if let Supply::Service(reader) = &self.supply {
            describe(&reader.stats(), &stats)?;
        }
        Ok(stats)
    }
}

impl Elements {
    /// The next element, waited for with the interpreter's lock released; `None` at the end.
    #[inline]
    fn next_element(&self, py: Python<'_>, state: &mut State) -> PyResult<Option<Element>> {
        loop {
            if let Poll::Ready(next) = self.element_by(py, state, None)? {
                return Ok(next);
            }
        }
    }

    /// The next element as `next_element` yields it, or `Pending` if none comes before the deadline.
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
        self.open(py, state)?;
        loop {
            let supply = &mut state.supply;
            let came = py.detach(|| supply.wait_element());
            // What was said before the end is said before it here.
            notices::say(py)?;
            if let Poll::Ready(came) = came {
                return state.taken(came).map(Poll::Ready);
            }
            py.check_signals()?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Poll::Pending);
            }
        }
    }

    /// Opens what is not open yet.
    fn open(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        let Supply::Later(opener) = &state.supply else {
            return Ok(());
        };
        let opened = opener.bind(py).call0()?.cast_into::<Elements>()?;
        let taken = {
            let mut of_opened = lock(py, opened.get().state.get("iterator")?)?;
            // What was opened is nobody else's: it is an empty shell from here on.
            let output = std::mem::replace(&mut of_opened.output, Output::Numpy);
            let supply = std::mem::replace(&mut of_opened.supply, Supply::Later(py.None()));
            (supply, output, of_opened.exclusive)
        };
        let later = std::mem::replace(&mut state.supply, taken.0);
        (state.output, state.exclusive) = (taken.1, taken.2);
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
    /// An iterator that calls `opener` for another one when its first element is asked for: a pass of
    /// `dataset`.
    #[staticmethod]
    fn lazy(py: Python<'_>, opener: Py<PyAny>, dataset: Py<PyAny>) -> PyResult<Elements> {
        let elements = Elements::new(Supply::Later(opener), Output::Numpy, false);
        lock(py, elements.state.get("iterator")?)?.dataset = Some(dataset);
        Ok(elements)
    }

    /// Returns the specs of elements, nested as elements.
    #[getter]
    fn element_spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &lock(py, self.state.get("iterator")?)?.dataset {
            Some(dataset) => dataset.bind(py).getattr("element_spec"),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// The next element. Raises `OutOfRangeError` at the end.
    fn get_next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.__next__(py)?
            .ok_or_else(|| failure::raise("OutOfRangeError", "the iterator is at its end"))
    }

    /// The next element, or that there is none, as an `Optional`.
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

    /// The next element if it is at hand, else `otherwise`. Never waits; the end, too, is `otherwise`.
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

    /// The next element if it comes within `timeout_s` seconds, rounded up to how often signals are looked
    /// for, else `otherwise`. Raises `StopIteration` at the end.
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

    /// The next element, or `otherwise` once nothing is at hand and more splits than `lost` are known to be
    /// lost: then the element that the user waits for may be one of theirs. Raises `StopIteration` at the
    /// end.
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
        self.open(py, &mut state)?;
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
                return Ok(otherwise);
            }
            py.check_signals()?;
        }
    }

    /// The splits that are known to be lost: of which source and pass, the first index and how many.
    fn lost(&self, py: Python<'_>) -> PyResult<Vec<(u32, u64, u64, u64)>> {
        let state = lock(py, self.state.get("iterator")?)?;
        let lost = state.lost_splits().into_iter();
        Ok(lost
            .map(|lost| (lost.source, lost.repetition, lost.first, lost.count))
            .collect())
    }

    /// Leaves out so many elements, of which no objects are made. Returns how many there were.
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

    /// Has the element that was handed over last count as outstanding still, since the user keeps it until
    /// others come: workers that are ahead wait. Returns what to say to `let_go`.
    fn keep(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let state = lock(py, self.state.get("iterator")?)?;
        let Supply::Service(reader) = &state.supply else {
            return Ok(None);
        };
        Ok(reader.keep().map(|task| task.0))
    }

    /// The user has used an element that it kept.
    fn let_go(&self, py: Python<'_>, task: u64) -> PyResult<()> {
        let state = lock(py, self.state.get("iterator")?)?;
        if let Supply::Service(reader) = &state.supply {
            reader.let_go(TaskId(task));
        }
        Ok(())
    }

    /// Ends it: a caller that waits for an element gets `CancelledError`.
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

    /// Returns the measurements so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        lock(py, self.state.get("iterator")?)?.stats(py)
    }

    /// Elements handed over.
    #[getter]
    fn delivered(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(lock(py, self.state.get("iterator")?)?.delivered)
    }
}

/// The state, once no other thread has it: waited for as an element is.
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
    into.set_item("elements", stats.elements)?;
    into.set_item("bytes", stats.bytes)?;
    into.set_item("elapsed_s", stats.elapsed.as_secs_f64())?;
    into.set_item("waited_s", stats.waited.as_secs_f64())?;
    into.set_item("wait_share", stats.wait_share())?;
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
