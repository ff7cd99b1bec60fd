//! `PackWriter`: writes elements, one after another, directly into the slot from which they are sent. The
//! writer neither waits nor allocates for each element. If an element does not fit, the caller opens the next
//! pack.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::ends::Ends;
use super::open::OpenPack;
use crate::dtype::Dtype;
use crate::header::{
    ComponentEntry, HeaderParts, Layout, Provenance, ROOT_BYTES, Shape, ShapeError, align_up,
    check_provenance, header_bytes, write_header,
};
use crate::slot::{AllocError, SLOT_ALIGN, SlotAlloc, SlotTail};
use crate::strings::{StringsError, data_bytes, write_strings};

/// The writing side of a pack. Dropping the writer closes the pack.
pub struct PackWriter {
    tail: SlotTail,
    shared: Arc<OpenPack>,
    /// The component table of the current element, whose memory is reused; empty for a static spec.
    entries: Vec<ComponentEntry>,
    dims: Vec<u64>,
}

/// One element that is being written. Dropping the writer before `finish` discards the element.
#[must_use = "an element that is not finished is not sent"]
pub struct ElementWriter<'a> {
    pack: &'a mut PackWriter,
    layout: &'a Layout,
    /// The gap between the end of the last element and the start of this element.
    gap: usize,
    /// The offset of the header from the element's start.
    header_at: usize,
    provenance_max: usize,
}

/// A tensor that is copied into a pack.
#[derive(Debug, Clone, Copy)]
pub struct TensorRef<'a> {
    /// The dtype of the tensor.
    pub dtype: Dtype,
    /// The dimensions of the tensor.
    pub dims: &'a [u64],
    /// The items of the tensor.
    pub data: TensorBytes<'a>,
}

/// The items of a tensor that is copied.
#[derive(Debug, Clone, Copy)]
pub enum TensorBytes<'a> {
    /// The payload in its stored form: items side by side, or offsets and data.
    Raw(&'a [u8]),
    /// Items of variable length.
    Strings(&'a [&'a [u8]]),
}

/// The error for an element that was not written. The pack contains no part of the element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The pack is full. The caller must open the next pack, with at least `needed_bytes`.
    #[error(
        "the pack has {spare_bytes} bytes left and the element needs {needed_bytes}, or its table is full; open the next pack"
    )]
    Full {
        /// The bytes that the element needs.
        needed_bytes: usize,
        /// The bytes that are left in the pack.
        spare_bytes: usize,
    },
    /// The caller's shapes do not match the spec.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The size of the caller's data does not match its dtype and shape.
    #[error(
        "expected {wanted_bytes} bytes for component {component} by its dtype and shape, found {given_bytes}"
    )]
    Size {
        /// The index of the component.
        component: usize,
        /// Size of the caller's data in bytes.
        given_bytes: usize,
        /// Size of the payload in bytes.
        wanted_bytes: usize,
    },
    /// The caller's strings do not match their shape.
    #[error(transparent)]
    Strings(#[from] StringsError),
    /// The header's size differs from the computed size, which is a bug of this crate.
    #[error("the header was not written with its computed size; please report this bug")]
    Bug,
}

impl WriteError {
    /// Returns whether the element would fit into the next pack.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, WriteError::Full { .. })
    }
}

impl PackWriter {
    /// Allocates a slot of `capacity_bytes` and a table for at most `max_elements`, and returns the writing
    /// side and the taking side. An element larger than the usual pack needs a pack of exactly its size
    /// ([`Layout::element_bytes`]).
    ///
    /// # Errors
    /// [`AllocError`] if the allocator fails.
    pub fn open(
        alloc: &dyn SlotAlloc,
        capacity_bytes: usize,
        max_elements: usize,
    ) -> Result<(PackWriter, Arc<OpenPack>), AllocError> {
        let (tail, head) = alloc.alloc(capacity_bytes)?.into_tail();
        let possible = capacity_bytes.div_ceil(align_up(ROOT_BYTES, SLOT_ALIGN));
        let shared = Arc::new(OpenPack::new(
            head,
            Ends::with_capacity(max_elements.min(possible)),
        ));
        let writer = PackWriter {
            tail,
            shared: Arc::clone(&shared),
            entries: Vec::new(),
            dims: Vec::new(),
        };
        Ok((writer, shared))
    }

    /// Begins an element: lays out its components, with room for up to `provenance_max` provenance entries.
    /// `shapes` may be empty for a static spec.
    ///
    /// # Errors
    /// [`WriteError::Full`] if the element does not fit; [`WriteError::Shape`] if the shapes do not match the
    /// spec.
    #[inline]
    pub fn begin<'a>(
        &'a mut self,
        layout: &'a Layout,
        shapes: &[Shape<'_>],
        provenance_max: usize,
    ) -> Result<ElementWriter<'a>, WriteError> {
        check_provenance(provenance_max)?;
        self.entries.clear();
        self.dims.clear();
        let header_at = match layout.fixed() {
            Some((_, header_at)) => {
                layout.check_fixed(shapes)?;
                header_at
            }
            None => layout.place(shapes, |entry, shape| {
                self.entries.push(entry);
                self.dims.extend_from_slice(shape.dims);
            })?,
        };
        let committed = self.tail.committed();
        let gap = align_up(committed, SLOT_ALIGN) - committed;
        let needed_bytes = header_at + header_bytes(self.entries.len(), self.dims.len(), provenance_max);
        let spare_bytes = (self.tail.capacity() - committed).saturating_sub(gap);
        let ends = self.shared.ends();
        if needed_bytes > spare_bytes || ends.len() >= ends.capacity() {
            return Err(WriteError::Full {
                needed_bytes,
                spare_bytes,
            });
        }
        Ok(ElementWriter {
            pack: self,
            layout,
            gap,
            header_at,
            provenance_max,
        })
    }

    /// Copies an element into the pack.
    ///
    /// # Errors
    /// [`WriteError`] if the element was not written; the pack is unchanged.
    pub fn push(
        &mut self,
        layout: &Layout,
        tensors: &[TensorRef<'_>],
        sequence: u64,
        provenance: &[Provenance],
    ) -> Result<(), WriteError> {
        let shapes: SmallVec<[Shape<'_>; 4]> = tensors.iter().map(TensorRef::shape).collect();
        let specs = layout.spec().components().iter();
        if let Some(component) = specs
            .zip(tensors)
            .position(|(spec, tensor)| spec.dtype() != tensor.dtype)
        {
            return Err(ShapeError::Refused { component }.into());
        }
        if tensors.len() != layout.spec().components().len() {
            let (given, wanted) = (tensors.len(), layout.spec().components().len());
            return Err(ShapeError::Count { given, wanted }.into());
        }
        let mut element = self.begin(layout, &shapes, provenance.len())?;
        for (component, tensor) in tensors.iter().enumerate() {
            let place = element.component_mut(component);
            match tensor.data {
                TensorBytes::Raw(bytes) if bytes.len() == place.len() => place.copy_from_slice(bytes),
                TensorBytes::Raw(bytes) => {
                    let (given_bytes, wanted_bytes) = (bytes.len(), place.len());
                    return Err(WriteError::Size {
                        component,
                        given_bytes,
                        wanted_bytes,
                    });
                }
                TensorBytes::Strings(items) => write_strings(place, items)?,
            }
        }
        element.finish(sequence, provenance)
    }

    /// Returns the number of written elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.ends().len()
    }

    /// Returns whether no element was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes written, gaps included.
    #[must_use]
    pub fn committed_bytes(&self) -> usize {
        self.tail.committed()
    }

    /// Returns the size of the whole slot in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.tail.capacity()
    }
}

impl ElementWriter<'_> {
    /// Returns the payload of one component, which the caller must fill completely, because it contains old
    /// data of the memory. Empty if the index is too large.
    #[inline]
    pub fn component_mut(&mut self, index: usize) -> &mut [u8] {
        let Some((offset, size_bytes)) = self.place(index) else {
            return &mut [];
        };
        let start = self.gap + offset;
        &mut self.pack.tail.spare()[start..start + size_bytes]
    }

    /// Writes the header and publishes the element. Allocates no memory.
    ///
    /// # Errors
    /// [`WriteError::Shape`] if `provenance` has more entries than the `provenance_max` passed to
    /// [`PackWriter::begin`].
    #[inline]
    pub fn finish(mut self, sequence: u64, provenance: &[Provenance]) -> Result<(), WriteError> {
        if provenance.len() > self.provenance_max {
            return Err(ShapeError::TooManyProvenance {
                count: provenance.len(),
            }
            .into());
        }
        self.clear_gaps();
        let PackWriter {
            tail,
            entries,
            dims,
            shared,
        } = self.pack;
        let header_start = self.gap + self.header_at;
        let end = header_start + header_bytes(entries.len(), dims.len(), provenance.len());
        let parts = HeaderParts {
            sequence,
            components: entries,
            dims,
            provenance,
        };
        write_header(&parts, &mut tail.spare()[header_start..end]).map_err(|_| WriteError::Bug)?;
        tail.commit(end);
        // `begin` has checked that the table has room, and this is its only writer.
        if shared.ends().push(tail.committed()) {
            Ok(())
        } else {
            Err(WriteError::Bug)
        }
    }

    fn place(&self, index: usize) -> Option<(usize, usize)> {
        match self.layout.fixed() {
            Some((parts, _)) => parts.get(index).map(|part| (part.offset, part.size_bytes)),
            // `layout.place` has limited both values to the largest slot.
            None => self
                .pack
                .entries
                .get(index)
                .map(|entry| (entry.offset as usize, entry.size_bytes as usize)),
        }
    }

    /// Zeroes the bytes outside all payloads, so that old contents of the memory are never sent.
    #[inline]
    fn clear_gaps(&mut self) {
        let mut from = 0;
        for index in 0..self.layout.spec().components().len() {
            let Some((offset, size_bytes)) = self.place(index) else {
                break;
            };
            self.clear(from, self.gap + offset);
            from = self.gap + offset + size_bytes;
        }
        self.clear(from, self.gap + self.header_at);
    }

    #[inline]
    fn clear(&mut self, from: usize, upto: usize) {
        if from < upto {
            self.pack.tail.spare()[from..upto].fill(0);
        }
    }
}

impl<'a> TensorRef<'a> {
    fn shape(&self) -> Shape<'a> {
        let data_bytes = match self.data {
            TensorBytes::Strings(items) => data_bytes(items),
            TensorBytes::Raw(bytes) => {
                let items = self
                    .dims
                    .iter()
                    .fold(1u64, |items, dim| items.saturating_mul(*dim));
                let offsets_bytes = items.saturating_add(1).saturating_mul(8);
                (bytes.len() as u64).saturating_sub(offsets_bytes)
            }
        };
        Shape::variable(self.dims, data_bytes)
    }
}

impl fmt::Debug for PackWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackWriter({} elements, {:?})", self.len(), self.tail)
    }
}

impl fmt::Debug for ElementWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ElementWriter({} components)",
            self.layout.spec().components().len()
        )
    }
}
