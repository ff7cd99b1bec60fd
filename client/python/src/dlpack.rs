//! Tensors as capsules of DLPack, the way by which torch and others take memory over without a copy.
//!
//! Versioned capsules (1.0), so that what may not be written says so. The structures are those of `dlpack.h`.
#![expect(unsafe_code, reason = "DLPack is an interface of C")]

use std::ffi::{CStr, c_void};

use millstream::element::{Dtype, Slot};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::fork::Here;

const CAPSULE: &CStr = c"dltensor_versioned";
const CPU: i32 = 1;
const READ_ONLY: u64 = 1;

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct Managed {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: Tensor,
}

/// A tensor and what it points at. The first field is what others see.
#[repr(C)]
struct Owned {
    managed: Managed,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// In a forked child it is left alone.
    _slot: Here<Slot>,
}

/// A capsule with the tensor whose `bytes` lie in `slot`, which it keeps alive.
///
/// # Errors
/// `TypeError` for strings, which DLPack does not know.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    dtype: Dtype,
    dims: &[u64],
    slot: &Slot,
    bytes: &[u8],
    is_writable: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = data_type(dtype)?;
    // What was validated is in memory: no dimension exceeds an i64.
    let shape: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
    let mut strides = vec![1_i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    let offset = bytes.as_ptr().addr() - slot.start().as_ptr().addr();
    // SAFETY: `bytes` is a part of the slot, so the offset is within it.
    let data = unsafe { slot.start().add(offset) };
    let owned = Box::into_raw(Box::new(Owned {
        managed: Managed {
            version: Version { major: 1, minor: 0 },
            context: std::ptr::null_mut(),
            deleter: Some(delete),
            flags: if is_writable { 0 } else { READ_ONLY },
            tensor: Tensor {
                data: data.as_ptr().cast(),
                device: Device { kind: CPU, id: 0 },
                ndim: shape.len() as i32,
                dtype,
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            },
        },
        shape,
        strides,
        _slot: Here::new(slot.clone()),
    }));
    // SAFETY: just made, and known to nobody else; the vectors stay where they are as long as the box does.
    unsafe {
        (*owned).managed.tensor.shape = (*owned).shape.as_mut_ptr();
        (*owned).managed.tensor.strides = (*owned).strides.as_mut_ptr();
    }
    // SAFETY: the pointer is not null, the name is static, and the destructor takes what the pointer is.
    let capsule = unsafe { ffi::PyCapsule_New(owned.cast(), CAPSULE.as_ptr(), Some(release)) };
    // SAFETY: a new reference, or null with an exception set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, capsule) };
    if made.is_err() {
        // SAFETY: no capsule has it.
        drop(unsafe { Box::from_raw(owned) });
    }
    made
}

/// Called by whoever took the tensor over, perhaps without the interpreter's lock.
unsafe extern "C" fn delete(managed: *mut Managed) {
    if !managed.is_null() {
        // SAFETY: the first field of an `Owned` that was given away, once.
        drop(unsafe { Box::from_raw(managed.cast::<Owned>()) });
    }
}

/// Ends a capsule: one that was taken over has another name by then.
unsafe extern "C" fn release(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule; the name tells whether the tensor is still its own.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, CAPSULE.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast());
        }
    }
}

/// Codes of `dlpack.h`.
fn data_type(dtype: Dtype) -> PyResult<DataType> {
    let (code, bits) = match dtype {
        Dtype::I8 => (0, 8),
        Dtype::I16 => (0, 16),
        Dtype::I32 => (0, 32),
        Dtype::I64 => (0, 64),
        Dtype::U8 => (1, 8),
        Dtype::U16 => (1, 16),
        Dtype::U32 => (1, 32),
        Dtype::U64 => (1, 64),
        Dtype::F16 => (2, 16),
        Dtype::F32 => (2, 32),
        Dtype::F64 => (2, 64),
        Dtype::Bf16 => (4, 16),
        Dtype::C64 => (5, 64),
        Dtype::C128 => (5, 128),
        Dtype::Bool => (6, 8),
        Dtype::F8E4M3 => (10, 8),
        Dtype::F8E5M2 => (12, 8),
        Dtype::String | Dtype::Bytes => {
            return Err(PyTypeError::new_err("strings are no tensors of DLPack"));
        }
    };
    Ok(DataType { code, bits, lanes: 1 })
}
