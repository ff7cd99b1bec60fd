//! The expected size of a stage's next element: the size from the spec, or else the size of the largest
//! recent element.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_element::{ElementSpec, TensorSpec};

use super::budget::Budget;
use super::item::Item;
use super::value::Tensor;

/// The expected bytes of an element. Clones share the value, which all threads of a stage update.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// The expected bytes, or [`UNKNOWN`] until the first element arrives.
    bytes: Arc<AtomicUsize>,
}

const UNKNOWN: usize = usize::MAX;
/// The number of elements that are assumed to fit into the budget while their size is unknown.
const UNKNOWN_FITTING: usize = 4;
/// The divisor of the expectation by which a smaller element lowers it.
const FORGOTTEN: usize = 16;

impl Expected {
    /// Returns the expectation for elements of `spec`.
    pub(crate) fn of(spec: &ElementSpec) -> Expected {
        let payload = |component: &TensorSpec| usize::try_from(component.payload_bytes()?).ok();
        let sizes = spec.components().iter().map(payload);
        let held = sizes.sum::<Option<usize>>().map(|bytes| {
            let parts = spec.components().len().saturating_mul(size_of::<Tensor>());
            bytes.saturating_add(parts).saturating_add(size_of::<Item>())
        });
        Expected {
            bytes: Arc::new(AtomicUsize::new(held.unwrap_or(UNKNOWN))),
        }
    }

    /// Returns the expectation for elements of unknown size.
    pub(crate) fn unknown() -> Expected {
        Expected {
            bytes: Arc::new(AtomicUsize::new(UNKNOWN)),
        }
    }

    /// Returns whether the size is known, from the spec or from an element.
    pub(crate) fn is_known(&self) -> bool {
        // Relaxed, here and below: no other memory access depends on the order of this estimate.
        self.bytes.load(Ordering::Relaxed) != UNKNOWN
    }

    /// Returns the bytes to reserve for the next element.
    pub(crate) fn bytes(&self, budget: &Budget) -> usize {
        match self.bytes.load(Ordering::Relaxed) {
            UNKNOWN => budget.limit_bytes() / UNKNOWN_FITTING,
            bytes => bytes,
        }
    }

    /// Records an element that holds `bytes`.
    pub(crate) fn note(&self, bytes: usize) {
        let before = match self.bytes.load(Ordering::Relaxed) {
            UNKNOWN => 0,
            before => before - before / FORGOTTEN,
        };
        let bytes = bytes.min(UNKNOWN - 1).max(before);
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use millstream_element::Dtype;

    use super::*;

    #[test]
    fn the_largest_of_late_is_expected() {
        let budget = Budget::new(400);
        let expected = Expected::unknown();
        assert_eq!((expected.is_known(), expected.bytes(&budget)), (false, 100));
        expected.note(160);
        expected.note(1600);
        expected.note(1);
        assert_eq!((expected.is_known(), expected.bytes(&budget)), (true, 1500));
        (0..100).for_each(|_| expected.note(1));
        assert!(expected.bytes(&budget) < 20);
    }

    #[test]
    fn a_specs_size_is_not_measured() {
        let spec = |dims| ElementSpec::single(TensorSpec::with_dims(Dtype::F32, dims)).unwrap();
        assert!(Expected::of(&spec(&[Some(100)])).bytes(&Budget::default()) >= 400);
        assert!(!Expected::of(&spec(&[None])).is_known());
    }
}
