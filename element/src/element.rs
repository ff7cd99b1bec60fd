//! `Element`: one validated element and its views. This file does not know how the element arrived.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::dtype::Dtype;
use crate::header::{HeaderError, Layout, Origin, Provenance, Provenances, Table, read_header};
use crate::slot::{AllocError, HeapAlloc, Slot, SlotAlloc};
use crate::spec::ElementSpec;
use crate::view::TensorView;

/// One validated element. Holds one reference to its slot, and so to the pack that contains it, and one
/// reference to its task's layout.
#[derive(Clone)]
pub struct Element {
    slot: Slot,
    layout: Arc<Layout>,
    sequence: u64,
    provenance: Provenances,
    /// `None` for a static spec, because its layout already describes the components.
    table: Option<Box<Table>>,
}

impl Element {
    /// Validates that `slot` contains exactly one element, and opens the element. Allocates nothing for a
    /// static spec with at most one provenance entry.
    ///
    /// # Errors
    /// [`HeaderError`] if the bytes are not an element of this layout.
    #[inline]
    pub fn open(slot: Slot, layout: &Arc<Layout>, origin: Origin) -> Result<Element, HeaderError> {
        let parsed = read_header(&slot, layout, origin)?;
        let (sequence, provenance, table) = (parsed.sequence, parsed.provenance, parsed.table);
        Ok(Element {
            slot,
            layout: Arc::clone(layout),
            sequence,
            provenance,
            table,
        })
    }

    /// Returns the position of the element in its task.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the parts of splits from which the element was made; empty if the element's producer records
    /// no positions.
    #[must_use]
    pub fn provenance(&self) -> &[Provenance] {
        self.provenance.as_slice()
    }

    /// Returns the spec against which the element was validated.
    #[must_use]
    pub fn spec(&self) -> &ElementSpec {
        self.layout.spec()
    }

    /// Returns the layout against which the element was validated.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Returns the bytes of the whole element, payloads and header.
    #[must_use]
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Returns the number of components.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spec().components().len()
    }

    /// Returns whether the element has no components.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the component with this index in flatten order; `None` if the index is too large.
    #[must_use]
    #[inline]
    pub fn component(&self, index: usize) -> Option<TensorView<'_>> {
        let (dtype, dims, range) = self.place(index)?;
        Some(TensorView {
            dtype,
            dims,
            bytes: &self.slot[range],
        })
    }

    /// Returns the component at a path such as `image` or `a.b.0`; `None` if no component has this path.
    #[must_use]
    pub fn named(&self, path: &str) -> Option<TensorView<'_>> {
        self.component(self.spec().position(path)?)
    }

    /// Returns every component in flatten order.
    pub fn components(&self) -> impl Iterator<Item = TensorView<'_>> {
        (0..self.len()).filter_map(|index| self.component(index))
    }

    /// Returns the payload of one component as its own slot, which keeps the memory alive without the
    /// element.
    #[must_use]
    pub fn component_slot(&self, index: usize) -> Option<Slot> {
        let (_, _, range) = self.place(index)?;
        Some(self.slot.slice(range))
    }

    /// Copies the element to the heap. Unlike the original, the copy keeps no pack or pool alive, so that it
    /// suits elements that are kept for long.
    ///
    /// # Errors
    /// [`AllocError`] if the heap has no memory.
    pub fn to_owned_copy(&self) -> Result<Element, AllocError> {
        let mut copy = HeapAlloc.alloc(self.slot.len())?;
        copy.copy_from_slice(&self.slot);
        Ok(Element {
            slot: copy.freeze(),
            ..self.clone()
        })
    }

    /// Returns the dtype, the dimensions and the byte range of a component. Validation has ensured that every
    /// range is inside the slot.
    #[inline]
    fn place(&self, index: usize) -> Option<(Dtype, &[u64], Range<usize>)> {
        let dtype = self.spec().components().get(index)?.dtype();
        match &self.table {
            Some(table) => {
                let row = table.rows.get(index)?;
                let dims = table.dims.get(row.dims_at..row.dims_at + row.rank)?;
                Some((dtype, dims, row.offset..row.offset + row.size_bytes))
            }
            None => {
                let part = self.layout.fixed()?.0.get(index)?;
                Some((dtype, &part.dims, part.offset..part.offset + part.size_bytes))
            }
        }
    }
}

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Element(#{}, {} bytes, {})",
            self.sequence,
            self.slot.len(),
            self.spec()
        )
    }
}
