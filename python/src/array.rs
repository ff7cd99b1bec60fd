//! Tensors as numpy arrays: views of a slot that the array keeps alive, or copies of what is small.
//!
//! Every view has as its base a capsule that holds the slot, one for each element. Refuses to know
//! structures.
#![expect(
    unsafe_code,
    reason = "arrays over memory that is not theirs, and capsules that hold it"
)]

use std::ffi::CStr;

use millstream::element::Slot;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::fork::Here;
use crate::npy;

/// The name of the capsules, by which they are told from those of others.
const CAPSULE: &CStr = c"millstream.slot";

/// An object that keeps a slot alive. In a forked child it leaves the slot alone.
pub(crate) fn keeper(py: Python<'_>, slot: Slot) -> PyResult<Bound<'_, PyAny>> {
    let held = Box::into_raw(Box::new(Here::new(slot)));
    // SAFETY: the pointer is not null, the name is static, and the destructor takes what the pointer is.
    let capsule = unsafe { ffi::PyCapsule_New(held.cast(), CAPSULE.as_ptr(), Some(release)) };
    // SAFETY: a new reference, or null with an exception set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, capsule) };
    if made.is_err() {
        // SAFETY: no capsule has it.
        drop(unsafe { Box::from_raw(held) });
    }
    made
}

/// Ends a capsule of [`keeper`].
unsafe extern "C" fn release(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this once, with a capsule that was made with this name.
    let held = unsafe { ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()) };
    if !held.is_null() {
        // SAFETY: the pointer comes from `Box::into_raw` in `keeper`.
        drop(unsafe { Box::from_raw(held.cast::<Here<Slot>>()) });
    }
}

/// A view of `bytes`, which lie in `slot`, kept alive by `keeper`. `dims` and `descr` describe exactly these
/// bytes.
#[inline]
pub(crate) fn view<'py>(
    descr: &Bound<'py, PyAny>,
    dims: &[u64],
    slot: &Slot,
    bytes: &[u8],
    is_writable: bool,
    keeper: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // From the slot's own pointer, not the slice's: that one may only be read through.
    let offset = bytes.as_ptr().addr() - slot.start().as_ptr().addr();
    let flags = if is_writable {
        npy::WRITABLE
    } else {
        npy::READ_ONLY
    };
    // SAFETY: `bytes` is a part of the slot, so the offset is within it; components are aligned to 64 bytes;
    // the keeper, which the array gets as its base, has the slot.
    let array = unsafe {
        let start = slot.start().add(offset);
        npy::array(descr, dims, start.as_ptr().cast(), flags)?
    };
    npy::keep(&array, keeper)?;
    Ok(array)
}

/// An array of its own with these bytes, which `dims` and `descr` describe exactly.
#[inline]
pub(crate) fn copy<'py>(
    descr: &Bound<'py, PyAny>,
    dims: &[u64],
    bytes: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: without data it is numpy's own; the copy goes to a new contiguous array of as many bytes, of
    // which nobody else knows.
    unsafe {
        let array = npy::array(descr, dims, std::ptr::null_mut(), 0)?;
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), npy::data(&array).cast(), bytes.len());
        Ok(array)
    }
}
