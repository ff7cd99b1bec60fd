//! The last stage, which writes an element straight into the slot that is sent. Stacks are copied here once,
//! and deferred tensors are computed here, straight into their rows.

use millstream_element::{Layout, PackWriter, Provenance, Shape, WriteError, write_strings};
use smallvec::SmallVec;

use super::error::{ErrorKind, ExecError};
use super::item::Item;
use super::split_numbers::SplitNumbers;
use super::token::Marks;
use super::value::Tensor;

/// The outcome of writing an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The whole element is in the pack.
    Done,
    /// The pack had no space, and holds no part of the element.
    Full {
        /// The number of bytes that a pack needs to hold the element.
        needed_bytes: usize,
    },
}

/// Writes `item` as element `sequence` of a task whose elements have the layout `layout`. Allocates no memory
/// if the spec is static and the element belongs to one split.
///
/// # Errors
/// The error of a deferred tensor, or an error of kind `Caller` if the element exceeds the limits of an
/// element.
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
        let numbers = item.numbers.map(|_| Shape::fixed(&SplitNumbers::DIMS));
        shapes.extend(numbers.into_iter().chain(item.value.iter().map(shape)));
    } else if item.component_count() != layout.spec().components().len() {
        return Err(refused(
            "the number of components differs from the spec".to_owned(),
        ));
    }
    let mut element = match pack.begin(layout, &shapes, provenance.len()) {
        Ok(element) => element,
        Err(WriteError::Full { needed_bytes, .. }) => return Ok(Written::Full { needed_bytes }),
        Err(error) => return Err(refused(error.to_string())),
    };
    let mut component = 0;
    if let Some(numbers) = item.numbers {
        // A tensor of the numbers would cost as much as a cheap operation.
        let destination = element.component_mut(component).first_chunk_mut();
        *destination
            .ok_or_else(|| refused("the spec has no place for the numbers of splits".to_owned()))? =
            numbers.to_bytes();
        component += 1;
    }
    for tensor in &item.value {
        write_tensor(tensor, element.component_mut(component)).map_err(|error| failed(error, item))?;
        component += 1;
    }
    element
        .finish(sequence, &provenance)
        .map_err(|error| refused(error.to_string()))?;
    Ok(Written::Done)
}

fn failed(error: ExecError, item: &Item) -> ExecError {
    error
        .at(item.origin.as_ref())
        .at_position(item.position)
        .of_element()
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
