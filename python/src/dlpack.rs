//! Tensors of DLPack, the way by which torch and others take memory over without a copy: in capsules, which
//! every framework takes, or handed to a function of C of those that have one, which costs a third.
//!
//! Versioned (1.0); all may be written. The structures are those of `dlpack.h`. Refuses to know which
//! framework it is.
#![expect(unsafe_code, reason = "DLPack is an interface of C")]

use std::ffi::{CStr, c_int, c_void};

use millstream::element::{Dtype, Slot};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure::raise;
use crate::fork::Here;
use crate::npy::RANK_MAX;

const CAPSULE: &CStr = c"dltensor_versioned";
/// Before versions there were none, as JAX still wants it.
const UNVERSIONED: &CStr = c"dltensor";
const CPU: i32 = 1;

/// The name of the capsules in which frameworks hand out their functions, and the version of them that is
/// known here.
const EXCHANGE: &CStr = c"dlpack_exchange_api";
const EXCHANGE_MAJOR: u32 = 1;

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

/// The tensor of the time before there were versions.
#[repr(C)]
struct Unversioned {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

/// The beginning of a framework's functions, which is the same in every version.
#[repr(C)]
struct TableHead {
    version: Version,
    /// The table of an older version, or null.
    older: *const TableHead,
}

/// The fields that follow in version 1, up to the one that is needed.
#[repr(C)]
struct Table {
    head: TableHead,
    _allocate: *const c_void,
    _of_object: *const c_void,
    to_object: Option<ToObject>,
}

/// Takes the tensor over and makes an object of it. Keeps the tensor for ever if it fails.
type ToObject = unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> c_int;

/// A framework's function of C that makes its tensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    to_object: ToObject,
}

impl Exchange {
    /// The function in a capsule of a framework's functions; `None` if they are of a version that is not
    /// known here. They are the framework's own for as long as the program runs.
    pub(crate) fn of(capsule: &Bound<'_, PyCapsule>) -> Option<Exchange> {
        let mut head: *const TableHead = capsule
            .pointer_checked(Some(EXCHANGE))
            .ok()?
            .as_ptr()
            .cast_const()
            .cast();
        while !head.is_null() {
            // SAFETY: capsules of this name hold such a table, and tables point at older ones or nowhere.
            let here = unsafe { &*head };
            if here.version.major == EXCHANGE_MAJOR {
                // SAFETY: in this version the table goes on so.
                let to_object = unsafe { (*head.cast::<Table>()).to_object }?;
                return Some(Exchange { to_object });
            }
            head = here.older;
        }
        None
    }
}

/// The alignment of memory, which is that of elements.
const ALIGN: usize = 64;

/// The memory of a tensor's items.
#[expect(dead_code, reason = "held, not read")]
enum Memory {
    /// In a forked child it is left alone.
    Slot(Here<Slot>),
    Own(Vec<u8>),
}

/// A tensor and what it points at. The first field is what others see.
#[repr(C)]
struct Owned {
    managed: Managed,
    sizes: [i64; RANK_MAX],
    strides: [i64; RANK_MAX],
    _memory: Memory,
}

/// A tensor that nobody has taken over yet.
pub(crate) struct Exported(Box<Owned>);

impl Exported {
    /// The tensor whose `bytes` lie in `slot`, which it keeps alive.
    ///
    /// # Errors
    /// `TypeError` for strings, which DLPack does not know.
    pub(crate) fn view(dtype: Dtype, dims: &[u64], slot: &Slot, bytes: &[u8]) -> PyResult<Exported> {
        let offset = bytes.as_ptr().addr() - slot.start().as_ptr().addr();
        // SAFETY: `bytes` is a part of the slot, so the offset is within it.
        let data = unsafe { slot.start().add(offset) };
        let memory = Memory::Slot(Here::new(slot.clone()));
        Exported::new(dtype, dims, data.as_ptr().cast(), memory)
    }

    /// A tensor of its own with these bytes.
    ///
    /// # Errors
    /// `TypeError` for strings; `ResourceExhaustedError` if there is no memory for it.
    pub(crate) fn copy(dtype: Dtype, dims: &[u64], bytes: &[u8]) -> PyResult<Exported> {
        // Aligned by hand: to ask for aligned memory costs more than all the rest.
        let mut memory: Vec<u8> = Vec::new();
        memory
            .try_reserve_exact(bytes.len() + ALIGN - 1)
            .map_err(|error| raise("ResourceExhaustedError", error))?;
        let start = memory.as_mut_ptr();
        let offset = start.align_offset(ALIGN).min(ALIGN - 1);
        // SAFETY: there is room for so many bytes behind the first aligned one, in memory that nobody else
        // knows.
        let data = unsafe {
            let data = start.add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
            data
        };
        Exported::new(dtype, dims, data.cast(), Memory::Own(memory))
    }

    fn new(dtype: Dtype, dims: &[u64], data: *mut c_void, memory: Memory) -> PyResult<Exported> {
        let dtype = data_type(dtype)?;
        let (mut sizes, mut strides) = ([0; RANK_MAX], [1; RANK_MAX]);
        // Elements were validated: there are at most so many dimensions, and none exceeds an i64.
        for (size, dim) in sizes.iter_mut().zip(dims) {
            *size = *dim as i64;
        }
        let rank = dims.len().min(RANK_MAX);
        for axis in (1..rank).rev() {
            strides[axis - 1] = i64::saturating_mul(strides[axis], sizes[axis].max(1));
        }
        Ok(Exported(Box::new(Owned {
            managed: Managed {
                version: Version { major: 1, minor: 0 },
                context: std::ptr::null_mut(),
                deleter: Some(delete),
                flags: 0,
                tensor: Tensor {
                    data,
                    device: Device { kind: CPU, id: 0 },
                    ndim: rank as i32,
                    dtype,
                    shape: std::ptr::null_mut(),
                    strides: std::ptr::null_mut(),
                    byte_offset: 0,
                },
            },
            sizes,
            strides,
            _memory: memory,
        })))
    }

    /// For [`delete`], from which nothing moves any more what the tensor points at.
    fn into_raw(self) -> *mut Owned {
        let owned = Box::into_raw(self.0);
        // SAFETY: just taken out of its box, and known to nobody else.
        unsafe {
            (*owned).managed.tensor.shape = (&raw mut (*owned).sizes).cast();
            (*owned).managed.tensor.strides = (&raw mut (*owned).strides).cast();
        }
        owned
    }

    /// A capsule of it, for who takes such.
    pub(crate) fn into_capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let owned = self.into_raw();
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

    /// A capsule without a version of it, for who takes no others.
    pub(crate) fn into_unversioned_capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let owned = self.into_raw();
        // SAFETY: what `into_raw` gave away; its tensor points at what lives until `delete`.
        let tensor = unsafe { std::ptr::read(&raw const (*owned).managed.tensor) };
        let unversioned = Box::into_raw(Box::new(Unversioned {
            tensor,
            context: owned.cast(),
            deleter: Some(delete_unversioned),
        }));
        // SAFETY: the pointer is not null, the name is static, and the destructor takes what the pointer is.
        let capsule = unsafe {
            ffi::PyCapsule_New(
                unversioned.cast(),
                UNVERSIONED.as_ptr(),
                Some(release_unversioned),
            )
        };
        // SAFETY: a new reference, or null with an exception set.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, capsule) };
        if made.is_err() {
            // SAFETY: no capsule has it.
            unsafe { delete_unversioned(unversioned) };
        }
        made
    }

    /// Converts the tensor by the framework's own function. Callers use it only after the framework accepted
    /// such a tensor, because the function leaks a tensor that it rejects.
    pub(crate) fn into_object(self, py: Python<'_>, exchange: Exchange) -> PyResult<Bound<'_, PyAny>> {
        let owned = self.into_raw();
        let mut object = std::ptr::null_mut();
        // SAFETY: the function takes over what begins as its structure says, and whose deleter it calls once;
        // the lock of the interpreter is held.
        let failed = unsafe { (exchange.to_object)(owned.cast(), &raw mut object) };
        if failed != 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a new reference.
        unsafe { Bound::from_owned_ptr_or_err(py, object.cast()) }
    }
}

/// The framework that took the tensor over calls it, perhaps without the interpreter's lock.
unsafe extern "C" fn delete(managed: *mut Managed) {
    if !managed.is_null() {
        // SAFETY: the first field of an `Owned` that was given away, once.
        drop(unsafe { Box::from_raw(managed.cast::<Owned>()) });
    }
}

/// Deletes a tensor without a version, whose context is the `Owned`.
unsafe extern "C" fn delete_unversioned(unversioned: *mut Unversioned) {
    if !unversioned.is_null() {
        // SAFETY: both were given away in `into_unversioned_capsule`, once.
        unsafe {
            let unversioned = Box::from_raw(unversioned);
            delete(unversioned.context.cast());
        }
    }
}

/// Releases a capsule as [`release`] does, for a tensor without a version.
unsafe extern "C" fn release_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule; the name tells whether the tensor is still its own.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) == 1 {
            delete_unversioned(ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()).cast());
        }
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
