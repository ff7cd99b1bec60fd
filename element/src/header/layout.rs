//! The layout of an element's payloads and header. A static spec has one layout for each task; other specs
//! have one for each element. This file does not access the bytes of elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use super::archive::{ComponentEntry, MAX_PROVENANCE, header_bytes};
use crate::slot::{MAX_SLOT_BYTES, SLOT_ALIGN};
use crate::spec::{ElementSpec, TensorSpec, items_in};

/// A spec with everything that can be computed from the spec in advance. All elements of a task share one
/// layout.
#[derive(Debug)]
pub struct Layout {
    spec: ElementSpec,
    fixed: Option<Fixed>,
}

/// The part of a layout that a static spec determines.
#[derive(Debug)]
struct Fixed {
    parts: Box<[Part]>,
    header_at: usize,
}

/// One component of a static spec.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) offset: usize,
    pub(crate) size_bytes: usize,
    pub(crate) dims: Box<[u64]>,
}

/// The shape of one component, which varies between the elements of a spec that is not static.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape<'a> {
    /// The dimensions, at most [`MAX_RANK`](crate::MAX_RANK).
    pub dims: &'a [u64],
    /// Total size of all items in bytes. Used for `string` and `bytes` only; ignored for other dtypes.
    pub data_bytes: u64,
}

impl<'a> Shape<'a> {
    /// Returns the shape of a tensor whose items have a fixed length.
    #[must_use]
    pub fn fixed(dims: &'a [u64]) -> Shape<'a> {
        Shape { dims, data_bytes: 0 }
    }

    /// Returns the shape of a tensor of strings whose total size is `data_bytes` bytes.
    #[must_use]
    pub fn variable(dims: &'a [u64], data_bytes: u64) -> Shape<'a> {
        Shape { dims, data_bytes }
    }
}

/// The error for an element that cannot be laid out. All variants mean that the caller passed wrong shapes or
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The number of shapes differs from the number of the spec's components.
    #[error("expected {wanted} shapes, one for each component, found {given}")]
    Count {
        /// The number of shapes passed by the caller.
        given: usize,
        /// The number of components in the spec.
        wanted: usize,
    },
    /// The dtype or shape of a component does not match the spec.
    #[error("the dtype or shape of component {component} does not match its spec")]
    Refused {
        /// The index of the component.
        component: usize,
    },
    /// The element would exceed the size limit of slots.
    #[error("an element with this shape exceeds the limit of {MAX_SLOT_BYTES} bytes")]
    TooLarge,
    /// The element has too many provenance entries.
    #[error("{count} provenance entries exceed the limit of {MAX_PROVENANCE}")]
    TooManyProvenance {
        /// The requested number of entries.
        count: usize,
    },
}

impl Layout {
    /// Computes the layout of a spec.
    ///
    /// # Errors
    /// [`ShapeError::TooLarge`] if a static spec describes an element above the size limit of slots.
    pub fn new(spec: ElementSpec) -> Result<Arc<Layout>, ShapeError> {
        let fixed = if spec.is_static() {
            Some(Fixed::of(&spec)?)
        } else {
            None
        };
        Ok(Arc::new(Layout { spec, fixed }))
    }

    /// Returns the spec of this layout.
    #[must_use]
    pub fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    /// Returns whether every element has the same layout.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.fixed.is_some()
    }

    /// Returns the exact size in bytes of an element with these shapes and this number of provenance entries.
    /// `shapes` may be empty for a static spec.
    ///
    /// # Errors
    /// [`ShapeError`] if the shapes or the number of provenance entries are invalid.
    pub fn element_bytes(&self, shapes: &[Shape<'_>], provenance: usize) -> Result<usize, ShapeError> {
        check_provenance(provenance)?;
        if let Some(fixed) = &self.fixed {
            self.check_fixed(shapes)?;
            return Ok(fixed.header_at + header_bytes(0, 0, provenance));
        }
        let mut dims = 0;
        let header_at = self.place(shapes, |_, shape| dims += shape.dims.len())?;
        Ok(header_at + header_bytes(shapes.len(), dims, provenance))
    }

    /// Returns the components of a static spec, and the offset of the header; `None` for other specs.
    #[inline]
    pub(crate) fn fixed(&self) -> Option<(&[Part], usize)> {
        self.fixed.as_ref().map(|fixed| (&*fixed.parts, fixed.header_at))
    }

    /// Checks shapes that the caller passed although the spec is static. Accepts an empty list.
    pub(crate) fn check_fixed(&self, shapes: &[Shape<'_>]) -> Result<(), ShapeError> {
        if shapes.is_empty() {
            return Ok(());
        }
        self.check_count(shapes)?;
        let specs = self.spec.components().iter();
        match specs
            .zip(shapes)
            .position(|(spec, shape)| !spec.accepts_dims(shape.dims))
        {
            Some(component) => Err(ShapeError::Refused { component }),
            None => Ok(()),
        }
    }

    /// Lays out the components of an element whose spec is not static, and calls `each` for each component.
    /// Returns the offset of the header.
    pub(crate) fn place(
        &self,
        shapes: &[Shape<'_>],
        mut each: impl FnMut(ComponentEntry, &Shape<'_>),
    ) -> Result<usize, ShapeError> {
        self.check_count(shapes)?;
        let mut end = 0;
        for (component, (spec, shape)) in self.spec.components().iter().zip(shapes).enumerate() {
            if !spec.accepts_dims(shape.dims) {
                return Err(ShapeError::Refused { component });
            }
            let size_bytes = payload_bytes(spec, shape).ok_or(ShapeError::TooLarge)?;
            let offset = align_up(end, SLOT_ALIGN);
            end = end_of(offset, size_bytes)?;
            // The rank is at most 16, and the offset at most 64 GiB.
            each(
                ComponentEntry {
                    offset: offset as u64,
                    size_bytes,
                    rank: shape.dims.len() as u32,
                },
                shape,
            );
        }
        Ok(align_up(end, HEADER_ALIGN))
    }

    fn check_count(&self, shapes: &[Shape<'_>]) -> Result<(), ShapeError> {
        let (given, wanted) = (shapes.len(), self.spec.components().len());
        if given == wanted {
            Ok(())
        } else {
            Err(ShapeError::Count { given, wanted })
        }
    }
}

impl Fixed {
    fn of(spec: &ElementSpec) -> Result<Fixed, ShapeError> {
        let mut end = 0;
        let mut parts = Vec::with_capacity(spec.components().len());
        for tensor in spec.components() {
            let size_bytes = tensor.payload_bytes().ok_or(ShapeError::TooLarge)?;
            let offset = align_up(end, SLOT_ALIGN);
            end = end_of(offset, size_bytes)?;
            let dims = tensor
                .dims()
                .unwrap_or_default()
                .iter()
                .copied()
                .flatten()
                .collect();
            // `end_of` has just checked that the size fits into usize.
            parts.push(Part {
                offset,
                size_bytes: size_bytes as usize,
                dims,
            });
        }
        Ok(Fixed {
            parts: parts.into(),
            header_at: align_up(end, HEADER_ALIGN),
        })
    }
}

pub(crate) fn check_provenance(count: usize) -> Result<(), ShapeError> {
    if count <= MAX_PROVENANCE {
        Ok(())
    } else {
        Err(ShapeError::TooManyProvenance { count })
    }
}

/// Rounds up to a multiple of `align`, a power of two. Cannot overflow, because `n` is at most the size limit
/// of slots.
#[inline]
pub(crate) const fn align_up(n: usize, align: usize) -> usize {
    (n + align - 1) & !(align - 1)
}

fn end_of(offset: usize, size_bytes: u64) -> Result<usize, ShapeError> {
    let end = (offset as u64)
        .checked_add(size_bytes)
        .filter(|end| *end <= PAYLOAD_END_MAX as u64);
    end.map(|end| end as usize).ok_or(ShapeError::TooLarge)
}

/// Returns the size of one payload in bytes. Fixed-size items are stored side by side. Variable-size items
/// have one u64 more than items, followed by the data.
fn payload_bytes(spec: &TensorSpec, shape: &Shape<'_>) -> Option<u64> {
    let items = items_in(shape.dims.iter().copied().map(Some))?;
    match spec.dtype().item_bytes() {
        Some(item_bytes) => items.checked_mul(item_bytes as u64),
        None => items
            .checked_add(1)?
            .checked_mul(8)?
            .checked_add(shape.data_bytes),
    }
}

/// Maximum end of the payloads, so that the largest header still fits into the slot.
const PAYLOAD_END_MAX: usize = MAX_SLOT_BYTES - super::MAX_HEADER_BYTES;
/// The strictest alignment in the archive.
pub(super) const HEADER_ALIGN: usize = 8;
// Sizes and offsets are u64 in the wire format and usize in memory.
const _: () = assert!(usize::BITS == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    #[test]
    fn static_elements_cost_payload_and_small_header() {
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[64])).unwrap();
        let layout = Layout::new(spec).unwrap();
        assert_eq!(layout.element_bytes(&[], 0), Ok(64 + 40));
        assert_eq!(layout.element_bytes(&[Shape::fixed(&[64])], 1), Ok(64 + 40 + 32));
        assert_eq!(
            layout.element_bytes(&[Shape::fixed(&[63])], 0),
            Err(ShapeError::Refused { component: 0 })
        );
    }

    #[test]
    fn payloads_are_aligned_and_the_header_follows() {
        let spec = ElementSpec::tuple([
            TensorSpec::with_dims(Dtype::U8, &[None]),
            TensorSpec::unknown_rank(Dtype::String),
            TensorSpec::scalar(Dtype::F32),
        ]);
        let layout = Layout::new(spec.unwrap()).unwrap();
        let shapes = [
            Shape::fixed(&[65]),
            Shape::variable(&[1, 2], 3),
            Shape::fixed(&[]),
        ];
        let mut offsets = Vec::new();
        let header_at = layout.place(&shapes, |entry, _| offsets.push((entry.offset, entry.size_bytes)));
        assert_eq!(offsets, [(0, 65), (128, 27), (192, 4)]);
        assert_eq!(header_at, Ok(200));
        assert_eq!(layout.element_bytes(&shapes, 0), Ok(200 + 40 + 3 * 24 + 3 * 8));
        assert_eq!(
            layout.element_bytes(&[], 0),
            Err(ShapeError::Count { given: 0, wanted: 3 })
        );
    }

    #[test]
    fn absurd_shapes_are_refused_not_overflowed() {
        let spec = ElementSpec::single(TensorSpec::unknown_rank(Dtype::F64)).unwrap();
        let layout = Layout::new(spec).unwrap();
        for dims in [&[u64::MAX][..], &[u64::MAX, u64::MAX], &[1 << 40], &[1 << 33, 1]] {
            assert_eq!(
                layout.element_bytes(&[Shape::fixed(dims)], 0),
                Err(ShapeError::TooLarge)
            );
        }
        let fixed = ElementSpec::single(TensorSpec::fixed(Dtype::F64, &[1 << 60])).unwrap();
        assert_eq!(Layout::new(fixed).unwrap_err(), ShapeError::TooLarge);
        let many = layout.element_bytes(&[Shape::fixed(&[])], MAX_PROVENANCE + 1);
        assert_eq!(
            many,
            Err(ShapeError::TooManyProvenance {
                count: MAX_PROVENANCE + 1
            })
        );
    }
}
