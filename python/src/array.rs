//! Tensors as numpy arrays. An array is a view of a slot, which the array keeps alive, or a copy of a small
//! tensor.
//!
//! The base of every view is a capsule that holds the slot; each element has one capsule. Does not know
//! structures.
#![expect(
    unsafe_code,
    reason = "arrays over borrowed memory, and capsules that own the memory"
)]

use std::ffi::CStr;

use millstream::element::Slot;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::fork::Here;
use crate::npy;

/// The name of the capsules. The name distinguishes these capsules from capsules of other libraries.
const CAPSULE: &CStr = c"millstream.slot";

/// Creates an object that keeps a slot alive. In a forked child, the object does not release the slot.
pub(crate) fn keeper(py: Python<'_>, slot: Slot) -> PyResult<Bound<'_, PyAny>> {
    let held = Box::into_raw(Box::new(Here::new(slot)));
    // SAFETY: the pointer is not null, the name is static, and the destructor expects a pointer of this type.
    let capsule = unsafe { ffi::PyCapsule_New(held.cast(), CAPSULE.as_ptr(), Some(release)) };
    // SAFETY: the pointer is a new reference, or null with an exception set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, capsule) };
    if made.is_err() {
        // SAFETY: no capsule owns the pointer.
        drop(unsafe { Box::from_raw(held) });
    }
    made
}

/// Releases the slot of a capsule that [`keeper`] created.
unsafe extern "C" fn release(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls the destructor once, with a capsule that was created with this name.
    let held = unsafe { ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()) };
    if !held.is_null() {
        // SAFETY: the pointer comes from `Box::into_raw` in `keeper`.
        drop(unsafe { Box::from_raw(held.cast::<Here<Slot>>()) });
    }
}

/// Creates a view of `bytes`, which are a part of `slot`. `keeper` keeps the slot alive. `dims` and `descr`
/// describe exactly these bytes.
#[inline]
pub(crate) fn view<'py>(
    descr: &Bound<'py, PyAny>,
    dims: &[u64],
    slot: &Slot,
    bytes: &[u8],
    is_writable: bool,
    keeper: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // The address derives from the slot's own pointer. A pointer derived from the slice would permit only
    // reads.
    let offset = bytes.as_ptr().addr() - slot.start().as_ptr().addr();
    let flags = if is_writable {
        npy::WRITABLE
    } else {
        npy::READ_ONLY
    };
    // SAFETY: `bytes` is a part of the slot, so the offset is within the slot. Components are aligned to 64
    // bytes. The array gets the keeper, which holds the slot, as its base.
    let array = unsafe {
        let start = slot.start().add(offset);
        npy::array(descr, dims, start.as_ptr().cast(), flags)?
    };
    npy::keep(&array, keeper)?;
    Ok(array)
}

/// Creates an array with its own copy of these bytes, which `dims` and `descr` describe exactly.
#[inline]
pub(crate) fn copy<'py>(
    descr: &Bound<'py, PyAny>,
    dims: &[u64],
    bytes: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: without data, numpy allocates the memory. The copy goes to a new contiguous array of the same
    // number of bytes, which no other code can access yet.
    unsafe {
        let array = npy::array(descr, dims, std::ptr::null_mut(), 0)?;
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), npy::data(&array).cast(), bytes.len());
        Ok(array)
    }
}
