//! Elements that say who made them and when: the first and the last 8 bytes of each.
//!
//! The first word is the worker's number and the element's place in its sequence; the last is the time of its
//! production, mixed with the first, so that the two ends of an element must belong together.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millstream::element::{Dtype, Element, ElementSpec, Layout, PackWriter, TensorSpec, WriteError};
use millstream::pipeline::exec::{
    ErrorKind, ExecError, Filled, Functions, Source, SourceFactory, Stop, Value,
};
use millstream::pipeline::graph::{
    Cardinality, Dataset, Params, SourceDeclaration, SourceSignature, SpecField,
};

use crate::payload;

const NAME: &str = "bench.stamped";
const WORKER_SHIFT: u32 = 48;

/// The producer of one worker's elements.
#[derive(Debug, Clone)]
pub(crate) struct Stamper {
    /// The number.
    pub(crate) worker: u32,
    /// Bytes of an element.
    pub(crate) element_bytes: u64,
    /// Whether every byte is written.
    pub(crate) touch: bool,
    /// Block that payloads are cut from, if payloads are written.
    pub(crate) block: Option<Arc<[u8]>>,
    /// Whether it never makes anything.
    pub(crate) is_stuck: bool,
    /// Elements a second; without it as many as go.
    pub(crate) rate: Option<u64>,
}

/// The dataset of stamped elements, which never ends.
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

/// The functions of a worker that makes stamped elements.
pub(crate) fn functions(stamper: Stamper) -> Functions {
    Functions::new().with_source(NAME, stamper)
}

/// Nanoseconds since 1970.
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

/// When each element is due.
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

    /// Sleeps until the `place`th element is due. False if elements are due at once.
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

/// The last word of an element: when it was produced, mixed with its first word.
pub(crate) fn last_word(first: u64, produced_ns: u64) -> u64 {
    produced_ns ^ first.rotate_left(32)
}

/// Stamps the bytes of the `place`th element of a worker, and writes all others too if it is told to.
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
    /// Waits until the next element is due; returns how many may be made at once.
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
            "stamped elements are written in bulk only",
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

/// Checks what arrives: each worker's elements, whole, in order, none missing.
#[derive(Debug)]
pub(crate) struct Checker {
    next: Vec<u64>,
    touch: bool,
}

impl Checker {
    pub(crate) fn new(workers: u32, touch: bool) -> Self {
        Self {
            next: vec![0; workers.max(1) as usize],
            touch,
        }
    }

    /// Checks one element and returns when it was produced, in nanoseconds since 1970.
    pub(crate) fn check(&mut self, element: &Element) -> Result<u64, String> {
        let view = element.component(0).ok_or("an element without a component")?;
        self.check_bytes(view.bytes())
    }

    /// Checks an element by its bytes.
    pub(crate) fn check_bytes(&mut self, bytes: &[u8]) -> Result<u64, String> {
        let word = |range: &[u8]| range.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let (first, last) = (word(&bytes[..8]), word(&bytes[bytes.len() - 8..]));
        let produced_ns = self.check_words(first, last)?;
        let fill = first as u8;
        // Without an early end, which would keep the processor from reading many bytes at a time.
        let is_foreign = |bytes: &[u8]| bytes.iter().fold(0, |seen, byte| seen | (byte ^ fill)) != 0;
        if self.touch && is_foreign(&bytes[8..bytes.len() - 8]) {
            return Err(format!("the element of first word {first:#x} has foreign bytes"));
        }
        Ok(produced_ns)
    }

    /// Checks an element by its two stamps alone.
    pub(crate) fn check_words(&mut self, first: u64, last: u64) -> Result<u64, String> {
        let (worker, place) = (
            (first >> WORKER_SHIFT) as usize,
            first & ((1 << WORKER_SHIFT) - 1),
        );
        let expected = self
            .next
            .get_mut(worker)
            .ok_or_else(|| format!("an element of worker {worker}"))?;
        if place != *expected {
            return Err(format!(
                "element {place} of worker {worker} instead of {expected}"
            ));
        }
        *expected += 1;
        Ok(last ^ first.rotate_left(32))
    }
}
