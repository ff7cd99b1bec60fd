//! Functions of numpy's C interface, from the function table that numpy exports. The same code works with
//! every version of numpy.
//!
//! The crate `numpy` is not used, because it adds array types that this module does not need.
#![expect(unsafe_code, reason = "numpy exports a table of C functions")]

use std::ffi::{c_char, c_int, c_void};

use pyo3::ffi::{PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;

/// The flags of a read-only array (contiguous and aligned), and of a writable array.
pub(crate) const READ_ONLY: c_int = 0x0001 | 0x0100;
pub(crate) const WRITABLE: c_int = READ_ONLY | 0x0400;

/// The maximum number of dimensions. The library's own limit is lower than numpy's limit.
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

/// The functions from numpy's table.
#[derive(Debug, Clone, Copy)]
struct Table {
    array_type: *mut PyTypeObject,
    new_from_descr: NewFromDescr,
    set_base_object: SetBaseObject,
    scalar: Scalar,
}

// SAFETY: the table contains addresses of functions and of a static type, which any thread may use.
unsafe impl Send for Table {}
// SAFETY: the table contains addresses of functions and of a static type, which any thread may use.
unsafe impl Sync for Table {}

/// The head of an array object, which is equal in all versions of numpy.
#[repr(C)]
struct ArrayHead {
    base: PyObject,
    data: *mut c_char,
}

#[inline]
fn table(py: Python<'_>) -> PyResult<&'static Table> {
    static TABLE: PyOnceLock<Table> = PyOnceLock::new();
    TABLE.get_or_try_init(py, || {
        // numpy 2 renamed the module.
        let module = py
            .import("numpy._core._multiarray_umath")
            .or_else(|_| py.import("numpy.core._multiarray_umath"))?;
        let capsule = module.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
        let entries: *const *mut c_void = capsule.pointer_checked(None)?.as_ptr().cast_const().cast();
        // The table lives as long as numpy, which is never unloaded.
        std::mem::forget(capsule);
        // SAFETY: the table contains these functions and this type at these offsets in every version of
        // numpy.
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

/// Creates an array over `data`. If `data` is null, numpy allocates the memory.
///
/// # Safety
/// `data` is null, or it is aligned for the items of `descr`, has the number of items that `dims` describes,
/// and outlives the array.
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
    // The element was validated, so it has at most `RANK_MAX` dimensions, and the described items are in
    // memory.
    for (size, dim) in sizes.iter_mut().zip(dims) {
        *size = *dim as isize;
    }
    let rank = dims.len().min(RANK_MAX) as c_int;
    // SAFETY: the function takes a reference to the item type, reads `rank` sizes and computes the strides of
    // contiguous items. The function returns a new reference, or null with an exception set. The caller
    // guarantees that `data` is valid.
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

/// Makes a new array keep `base` alive.
#[inline]
pub(crate) fn keep(array: &Bound<'_, PyAny>, base: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = array.py();
    // SAFETY: `array` has no base yet. The function takes over the reference to `base`.
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
    // SAFETY: every array object begins with `ArrayHead`.
    unsafe { (*head).data }
}

/// Creates a scalar from the bytes of one item.
#[inline]
pub(crate) fn scalar<'py>(descr: &Bound<'py, PyAny>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let py = descr.py();
    let data = bytes.as_ptr().cast::<c_void>().cast_mut();
    // SAFETY: `bytes` contains one item of the type, which the function copies. The function keeps no
    // borrowed reference.
    unsafe {
        let made = (table(py)?.scalar)(data, descr.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)
    }
}
