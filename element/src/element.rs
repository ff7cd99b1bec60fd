//! `Element`: one validated element and its views. Refuses to know how it came here.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::dtype::Dtype;
use crate::header::{HeaderError, Layout, Origin, Provenance, Provenances, Table, read_header};
use crate::slot::{AllocError, HeapAlloc, Slot, SlotAlloc};
use crate::spec::ElementSpec;
use crate::view::TensorView;

/// One element. Holds its slot (and with it the pack it came in) and its task's layout, one reference each.
#[derive(Clone)]
pub struct Element {
    slot: Slot,
    layout: Arc<Layout>,
    sequence: u64,
    provenance: Provenances,
    /// `None` for a static spec, whose layout has the table.
    table: Option<Box<Table>>,
}

impl Element {
    /// Validates the element that `slot` is, exactly. Allocates nothing for a static spec with at most one
    /// provenance entry.
    ///
    /// # Errors
    /// [`HeaderError`] for any bytes that are not an element of this layout.
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

    /// The element's position in its task.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the parts of splits that the element comes from; empty when its producer keeps no positions.
    #[must_use]
    pub fn provenance(&self) -> &[Provenance] {
        self.provenance.as_slice()
    }

    /// The spec it was validated against.
    #[must_use]
    pub fn spec(&self) -> &ElementSpec {
        self.layout.spec()
    }

    /// The layout it was validated against.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The whole element, payloads and header.
    #[must_use]
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Returns how many components it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spec().components().len()
    }

    /// Returns whether it has no component at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The component of this index in flatten order.
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

    /// The component at a path such as `image` or `a.b.0`.
    #[must_use]
    pub fn named(&self, path: &str) -> Option<TensorView<'_>> {
        self.component(self.spec().position(path)?)
    }

    /// Every component in flatten order.
    pub fn components(&self) -> impl Iterator<Item = TensorView<'_>> {
        (0..self.len()).filter_map(|index| self.component(index))
    }

    /// The payload of one component as a slot of its own, which keeps the memory alive without the element.
    #[must_use]
    pub fn component_slot(&self, index: usize) -> Option<Slot> {
        let (_, _, range) = self.place(index)?;
        Some(self.slot.slice(range))
    }

    /// A copy on the heap, which keeps nothing of the pack or pool alive: for those who keep elements for
    /// long.
    ///
    /// # Errors
    /// [`AllocError`] when the heap has no room.
    pub fn to_owned_copy(&self) -> Result<Element, AllocError> {
        let mut copy = HeapAlloc.alloc(self.slot.len())?;
        copy.copy_from_slice(&self.slot);
        Ok(Element {
            slot: copy.freeze(),
            ..self.clone()
        })
    }

    /// Validation has put every range inside the slot.
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
