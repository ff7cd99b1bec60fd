//! The last stage: an element written straight into the slot it is sent from. Stacks are copied here, once;
//! deferred tensors are computed here, into their rows.

use millstream_element::{Layout, PackWriter, Provenance, Shape, WriteError, write_strings};
use smallvec::SmallVec;

use super::error::{ErrorKind, ExecError};
use super::item::Item;
use super::token::Marks;
use super::value::Tensor;

/// Outcome of writing an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The element is in the pack.
    Done,
    /// There was no room; nothing of it is in the pack.
    Full {
        /// Bytes that a pack needs to take it.
        needed_bytes: usize,
    },
}

/// Writes `item` as the element `sequence` of a task whose elements are laid out by `layout`. Nothing is
/// allocated for a static spec and an element of one split.
///
/// # Errors
/// What a deferred tensor fails with; of kind `Caller` when the element exceeds what an element may be.
#[inline]
pub fn write_element(
    item: &Item,
    layout: &Layout,
    pack: &mut PackWriter,
    sequence: u64,
) -> Result<Written, ExecError> {
    let provenance = provenance(&item.marks);
    let mut shapes: SmallVec<[Shape<'_>; 4]> = SmallVec::new();
    if !layout.is_static() {
        shapes.extend(item.value.iter().map(shape));
    } else if item.value.len() != layout.spec().components().len() {
        return Err(refused(
            "the element does not have the components of its spec".to_owned(),
        ));
    }
    let mut element = match pack.begin(layout, &shapes, provenance.len()) {
        Ok(element) => element,
        Err(WriteError::Full { needed_bytes, .. }) => return Ok(Written::Full { needed_bytes }),
        Err(error) => return Err(refused(error.to_string())),
    };
    for (component, tensor) in item.value.iter().enumerate() {
        write_tensor(tensor, element.component_mut(component))
            .map_err(|error| error.at(item.origin.as_ref()).at_position(item.position))?;
    }
    element
        .finish(sequence, &provenance)
        .map_err(|error| refused(error.to_string()))?;
    Ok(Written::Done)
}

fn provenance(marks: &Marks) -> SmallVec<[Provenance; 1]> {
    let of = |mark: &super::token::Mark| Provenance {
        lease: mark.token.lease(),
        attempt: mark.token.attempt(),
        from: mark.from,
        upto: mark.upto,
    };
    marks.iter().map(of).collect()
}

fn shape(tensor: &Tensor) -> Shape<'_> {
    match tensor.dtype().item_bytes() {
        Some(_) => Shape::fixed(tensor.dims()),
        None => Shape::variable(tensor.dims(), tensor.size_bytes() as u64),
    }
}

fn write_tensor(tensor: &Tensor, destination: &mut [u8]) -> Result<(), ExecError> {
    if tensor.dtype().item_bytes().is_some() {
        return tensor.write_to(destination);
    }
    let mut items: SmallVec<[&[u8]; 4]> = SmallVec::new();
    tensor.for_each_string(&mut |item| items.push(item));
    write_strings(destination, &items)
        .map_err(|error| ExecError::new(ErrorKind::Internal, "write", error.to_string()))
}

fn refused(message: String) -> ExecError {
    ExecError::new(ErrorKind::Caller, "write", message)
}
