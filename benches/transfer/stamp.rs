//! Elements with stamps, which name their worker and the time of their production. The stamps are the first
//! and the last 8 bytes of each element.
//!
//! The first word contains the worker's number and the element's position in its sequence. The last word is
//! the time of production combined with the first word, so that the reader can check that both ends belong
//! together.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millstream::element::{Dtype, Element, ElementSpec, Layout, PackWriter, TensorSpec, WriteError};
use millstream::pipeline::exec::{
    ErrorKind, ExecError, Filled, Functions, Source, SourceFactory, Stop, Tensor, Value,
};
use millstream::pipeline::graph::{
    Cardinality, Dataset, Params, SourceDeclaration, SourceSignature, SpecField,
};

use crate::payload;

const NAME: &str = "bench.stamped";
/// The name of the finite source, whose elements are numbered by their positions.
const COUNTED: &str = "bench.counted";
/// The number of elements of the finite source: more than a measurement reads.
const COUNT: u64 = 1 << 40;
const WORKER_SHIFT: u32 = 48;

/// The producer of one worker's elements.
#[derive(Debug, Clone)]
pub(crate) struct Stamper {
    /// The number of the worker.
    pub(crate) worker: u32,
    /// The size of an element in bytes.
    pub(crate) element_bytes: u64,
    /// `true` if every byte of an element is written.
    pub(crate) touch: bool,
    /// The block that payloads are cut from, if payloads are written.
    pub(crate) block: Option<Arc<[u8]>>,
    /// `true` if the producer never produces an element.
    pub(crate) is_stuck: bool,
    /// The number of elements per second. `None` produces at full speed.
    pub(crate) rate: Option<u64>,
}

/// Returns the endless dataset of stamped elements.
pub(crate) fn dataset(element_bytes: u64) -> Result<Dataset, String> {
    let spec = SpecField(spec(element_bytes)?);
    let declared = SourceDeclaration {
        spec,
        count: None,
        infinite: true,
        indexable: false,
    };
    Ok(Dataset::declared_source(NAME, Params::none(), declared))
}

/// Returns the dataset of `COUNT` stamped elements, in splits of `split_elements`.
pub(crate) fn counted_dataset(element_bytes: u64, split_elements: u64) -> Result<Dataset, String> {
    let declared = SourceDeclaration {
        spec: SpecField(spec(element_bytes)?),
        count: Some(COUNT),
        infinite: false,
        indexable: true,
    };
    Ok(Dataset::declared_source(COUNTED, Params::none(), declared).split_size(split_elements))
}

/// Returns the functions of a worker that produces stamped elements.
pub(crate) fn functions(stamper: Stamper) -> Functions {
    Functions::new()
        .with_source(COUNTED, Counted(stamper.clone()))
        .with_source(NAME, stamper)
}

/// Returns the nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}

fn spec(element_bytes: u64) -> Result<ElementSpec, String> {
    ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[element_bytes])).map_err(|error| error.to_string())
}

impl SourceFactory for Stamper {
    fn signature(&self, _: &Params) -> Result<SourceSignature, String> {
        let spec = spec(self.element_bytes)?;
        Ok(SourceSignature {
            spec,
            cardinality: Cardinality::Infinite,
            indexable: false,
        })
    }

    fn open(&self, _: &Params, _: std::ops::Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        let failed = |error: String| ExecError::new(ErrorKind::Internal, NAME, error);
        let layout = Layout::new(spec(self.element_bytes).map_err(failed)?)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Box::new(Stamping {
            stamper: self.clone(),
            layout,
            next: 0,
            pace: Pace::new(self.rate),
        }))
    }
}

/// The factory of the finite source. The elements are values, as those of most operations are, and the
/// executor copies them into slots.
#[derive(Debug)]
struct Counted(Stamper);

impl SourceFactory for Counted {
    fn signature(&self, _: &Params) -> Result<SourceSignature, String> {
        Ok(SourceSignature {
            spec: spec(self.0.element_bytes)?,
            cardinality: Cardinality::Finite(COUNT),
            indexable: true,
        })
    }

    fn open(&self, _: &Params, positions: std::ops::Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        Ok(Box::new(CountedStamping {
            stamper: self.0.clone(),
            positions,
        }))
    }
}

struct CountedStamping {
    stamper: Stamper,
    positions: std::ops::Range<u64>,
}

impl Source for CountedStamping {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let Some(position) = self.positions.next() else {
            return Ok(None);
        };
        let Stamper {
            element_bytes, touch, ..
        } = self.stamper;
        let mut bytes = vec![0; element_bytes as usize];
        if let Some(block) = &self.stamper.block {
            payload::fill(&mut bytes, block, position);
        }
        write(&mut bytes, 0, position, now_ns(), touch);
        let tensor = Tensor::fixed(Dtype::U8, &[element_bytes], bytes);
        let tensor = tensor.map_err(|error| ExecError::new(ErrorKind::Internal, COUNTED, error))?;
        Ok(Some(std::iter::once(tensor).collect()))
    }
}

/// The schedule of elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    rate: Option<u64>,
    started_ns: u64,
}

impl Pace {
    /// Returns a pace of `rate` elements a second from now on; `None` does not limit it.
    pub(crate) fn new(rate: Option<u64>) -> Self {
        Self {
            rate,
            started_ns: now_ns(),
        }
    }

    /// Sleeps until the `place`th element is due. Returns `false` without a rate, when all elements are due
    /// at once.
    pub(crate) fn wait(&self, place: u64) -> bool {
        let Some(rate) = self.rate else {
            return false;
        };
        let after_ns = u128::from(place) * 1_000_000_000 / u128::from(rate.max(1));
        let due_ns = self.started_ns.saturating_add(after_ns as u64);
        std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns())));
        true
    }
}

/// Returns the last word of an element: the time of its production combined with its first word.
pub(crate) fn last_word(first: u64, produced_ns: u64) -> u64 {
    produced_ns ^ first.rotate_left(32)
}

/// Writes the stamps of the `place`th element of a worker, and with `touch` also all other bytes.
pub(crate) fn write(bytes: &mut [u8], worker: u32, place: u64, produced_ns: u64, touch: bool) {
    if touch {
        bytes.fill(place as u8);
    }
    let first = u64::from(worker) << WORKER_SHIFT | place;
    let last = bytes.len() - size_of::<u64>();
    bytes[..size_of::<u64>()].copy_from_slice(&first.to_le_bytes());
    bytes[last..].copy_from_slice(&last_word(first, produced_ns).to_le_bytes());
}

struct Stamping {
    stamper: Stamper,
    layout: Arc<Layout>,
    next: u64,
    pace: Pace,
}

impl Stamping {
    /// Waits until the next element is due. Returns the number of elements that may be produced at once.
    fn wait(&self, limit: usize) -> usize {
        if self.stamper.is_stuck {
            loop {
                std::thread::park();
            }
        }
        if self.pace.wait(self.next) { 1 } else { limit }
    }
}

impl Source for Stamping {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        Err(ExecError::new(
            ErrorKind::Internal,
            NAME,
            "stamped elements can only be written in bulk",
        ))
    }

    fn fill_pack(
        &mut self,
        pack: &mut PackWriter,
        sequence: u64,
        limit: usize,
    ) -> Option<Result<Filled, ExecError>> {
        let limit = self.wait(limit);
        let produced_ns = now_ns();
        for count in 0..limit {
            let mut element = match pack.begin(&self.layout, &[], 0) {
                Ok(element) => element,
                Err(WriteError::Full { needed_bytes, .. }) => {
                    return Some(Ok(Filled {
                        count,
                        stop: Stop::Full { needed_bytes },
                    }));
                }
                Err(error) => return Some(Err(ExecError::new(ErrorKind::Internal, NAME, error.to_string()))),
            };
            let bytes = element.component_mut(0);
            if let Some(block) = &self.stamper.block {
                payload::fill(bytes, block, self.next);
            }
            write(
                bytes,
                self.stamper.worker,
                self.next,
                produced_ns,
                self.stamper.touch,
            );
            if let Err(error) = element.finish(sequence + count as u64, &[]) {
                return Some(Err(ExecError::new(ErrorKind::Internal, NAME, error.to_string())));
            }
            self.next += 1;
        }
        Some(Ok(Filled {
            count: limit,
            stop: Stop::Limit,
        }))
    }
}

/// A check of the received elements: each worker's elements must be intact and in order, with none missing.
#[derive(Debug)]
pub(crate) struct Checker {
    next: Vec<u64>,
    touch: bool,
    /// `false` if several workers send parts of one sequence, whose elements arrive in any order.
    is_ordered: bool,
}

impl Checker {
    pub(crate) fn new(workers: u32, touch: bool) -> Self {
        Self {
            next: vec![0; workers.max(1) as usize],
            touch,
            is_ordered: true,
        }
    }

    /// Returns the check of a sequence that several workers send. The elements may arrive in any order.
    pub(crate) fn unordered(touch: bool) -> Self {
        Self {
            is_ordered: false,
            ..Self::new(1, touch)
        }
    }

    /// Checks an element whose bytes are component `index`. Returns the time of its production, in
    /// nanoseconds since 1970.
    pub(crate) fn check(&mut self, element: &Element, index: usize) -> Result<u64, String> {
        let view = element.component(index).ok_or("an element lacks a component")?;
        self.check_bytes(view.bytes())
    }

    /// Checks an element, given its bytes.
    pub(crate) fn check_bytes(&mut self, bytes: &[u8]) -> Result<u64, String> {
        let word = |range: &[u8]| range.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let (first, last) = (word(&bytes[..8]), word(&bytes[bytes.len() - 8..]));
        let produced_ns = self.check_words(first, last)?;
        let fill = first as u8;
        // The loop has no early exit, which would keep the processor from reading many bytes at a time.
        let is_foreign = |bytes: &[u8]| bytes.iter().fold(0, |seen, byte| seen | (byte ^ fill)) != 0;
        if self.touch && is_foreign(&bytes[8..bytes.len() - 8]) {
            return Err(format!(
                "the element with the first word {first:#x} has corrupt bytes"
            ));
        }
        Ok(produced_ns)
    }

    /// Checks an element, given its two stamps.
    pub(crate) fn check_words(&mut self, first: u64, last: u64) -> Result<u64, String> {
        let (worker, place) = (
            (first >> WORKER_SHIFT) as usize,
            first & ((1 << WORKER_SHIFT) - 1),
        );
        let expected = self
            .next
            .get_mut(worker)
            .ok_or_else(|| format!("an element names the unknown worker {worker}"))?;
        if self.is_ordered && place != *expected {
            return Err(format!(
                "element {place} of worker {worker} instead of {expected}"
            ));
        }
        *expected += 1;
        Ok(last ^ first.rotate_left(32))
    }
}
