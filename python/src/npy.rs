//! The functions of numpy's interface of C that are needed, from the table that numpy itself hands out, of
//! any version.
//!
//! By hand, because the library for it brings types of arrays that nothing here uses.
#![expect(unsafe_code, reason = "numpy hands out a table of functions of C")]

use std::ffi::{c_char, c_int, c_void};

use pyo3::ffi::{PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;

/// Flags of arrays: contiguous, aligned; and what makes them writable.
pub(crate) const READ_ONLY: c_int = 0x0001 | 0x0100;
pub(crate) const WRITABLE: c_int = READ_ONLY | 0x0400;

/// Dimensions that an array may have here: the library's own limit, which is below numpy's.
pub(crate) const RANK_MAX: usize = 16;

type NewFromDescr = unsafe extern "C" fn(
    *mut PyTypeObject,
    *mut PyObject,
    c_int,
    *mut isize,
    *mut isize,
    *mut c_void,
    c_int,
    *mut PyObject,
) -> *mut PyObject;
type SetBaseObject = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> c_int;
type Scalar = unsafe extern "C" fn(*mut c_void, *mut PyObject, *mut PyObject) -> *mut PyObject;

/// Offset of numpy's array type in its table; numpy never reuses an offset.
const ARRAY_TYPE: usize = 2;
const SCALAR: usize = 60;
const NEW_FROM_DESCR: usize = 94;
const SET_BASE_OBJECT: usize = 282;

/// The functions.
#[derive(Debug, Clone, Copy)]
struct Table {
    array_type: *mut PyTypeObject,
    new_from_descr: NewFromDescr,
    set_base_object: SetBaseObject,
    scalar: Scalar,
}

// SAFETY: addresses of functions and of a static type, which any thread may use.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// The beginning of an array, which has been the same since there is numpy.
#[repr(C)]
struct ArrayHead {
    base: PyObject,
    data: *mut c_char,
}

#[inline]
fn table(py: Python<'_>) -> PyResult<&'static Table> {
    static TABLE: PyOnceLock<Table> = PyOnceLock::new();
    TABLE.get_or_try_init(py, || {
        // Renamed in numpy 2.
        let module = py
            .import("numpy._core._multiarray_umath")
            .or_else(|_| py.import("numpy.core._multiarray_umath"))?;
        let capsule = module.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
        let entries: *const *mut c_void = capsule.pointer_checked(None)?.as_ptr().cast_const().cast();
        // The table lives as long as numpy, which is never unloaded.
        std::mem::forget(capsule);
        // SAFETY: the table has these functions and this type at these places, in every version of numpy.
        unsafe {
            Ok(Table {
                array_type: (*entries.add(ARRAY_TYPE)).cast(),
                new_from_descr: std::mem::transmute::<*mut c_void, NewFromDescr>(
                    *entries.add(NEW_FROM_DESCR),
                ),
                set_base_object: std::mem::transmute::<*mut c_void, SetBaseObject>(
                    *entries.add(SET_BASE_OBJECT),
                ),
                scalar: std::mem::transmute::<*mut c_void, Scalar>(*entries.add(SCALAR)),
            })
        }
    })
}

/// An array over `data`, or, if that is null, over memory of numpy's own.
///
/// # Safety
/// `data`, unless null, is aligned for as many items of `descr` as `dims` say, and outlives the array.
#[inline]
pub(crate) unsafe fn array<'py>(
    descr: &Bound<'py, PyAny>,
    dims: &[u64],
    data: *mut c_void,
    flags: c_int,
) -> PyResult<Bound<'py, PyAny>> {
    let py = descr.py();
    let table = table(py)?;
    let mut sizes = [0; RANK_MAX];
    // Elements were validated: there are at most so many dimensions, and what they describe is in memory.
    for (size, dim) in sizes.iter_mut().zip(dims) {
        *size = *dim as isize;
    }
    let rank = dims.len().min(RANK_MAX) as c_int;
    // SAFETY: the function takes a reference to the type of the items, reads the given number of sizes and
    // computes the strides of contiguous items. It returns a new reference, or null with an exception set;
    // the caller answers for `data`.
    unsafe {
        let descr = descr.clone().into_ptr();
        let made = (table.new_from_descr)(
            table.array_type,
            descr,
            rank,
            sizes.as_mut_ptr(),
            std::ptr::null_mut(),
            data,
            flags,
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// Makes `base` live as long as a new array.
#[inline]
pub(crate) fn keep(array: &Bound<'_, PyAny>, base: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = array.py();
    // SAFETY: `array` is one without a base, and the reference to `base` is given away, as the function wants
    // it.
    let failed = unsafe { (table(py)?.set_base_object)(array.as_ptr(), base.clone().into_ptr()) };
    if failed == 0 {
        Ok(())
    } else {
        Err(PyErr::fetch(py))
    }
}

/// Returns the address of a new array's items.
#[inline]
pub(crate) fn data(array: &Bound<'_, PyAny>) -> *mut c_char {
    let head: *mut ArrayHead = array.as_ptr().cast();
    // SAFETY: an array begins so.
    unsafe { (*head).data }
}

/// The scalar that one item is.
#[inline]
pub(crate) fn scalar<'py>(descr: &Bound<'py, PyAny>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let py = descr.py();
    let data = bytes.as_ptr().cast::<c_void>().cast_mut();
    // SAFETY: `bytes` has one item of the type, which the function copies; it keeps no reference that it was
    // not given.
    unsafe {
        let made = (table(py)?.scalar)(data, descr.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)
    }
}
