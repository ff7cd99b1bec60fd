//! DLPack tensors, by which torch and other frameworks take over memory without a copy. Every framework takes
//! a tensor in a capsule. Some frameworks also have a C function for the tensor itself, which costs a third
//! of the time.
//!
//! Tensors are versioned (1.0) and writable. The structures are those of `dlpack.h`. Does not know the
//! framework.
#![expect(unsafe_code, reason = "DLPack is a C interface")]

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
/// The name of capsules without a version, from the time before DLPack had versions. JAX still needs them.
const UNVERSIONED: &CStr = c"dltensor";
const CPU: i32 = 1;

/// The name of the capsules in which frameworks export their C functions, and the supported major version of
/// these functions.
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

/// The unversioned tensor, from the time before DLPack had versions.
#[repr(C)]
struct Unversioned {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

/// The head of a framework's function table, which is equal in all versions.
#[repr(C)]
struct TableHead {
    version: Version,
    /// The table of an older version, or null.
    older: *const TableHead,
}

/// The fields after the head in version 1, up to the function that this module needs.
#[repr(C)]
struct Table {
    head: TableHead,
    _allocate: *const c_void,
    _of_object: *const c_void,
    to_object: Option<ToObject>,
}

/// Takes over the tensor and creates an object from it. Leaks the tensor on failure.
type ToObject = unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> c_int;

/// The C function with which a framework creates its tensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    to_object: ToObject,
}

impl Exchange {
    /// Returns the function from a capsule of a framework's functions, or `None` if their version is not
    /// supported. The framework keeps the functions until the program ends.
    pub(crate) fn of(capsule: &Bound<'_, PyCapsule>) -> Option<Exchange> {
        let mut head: *const TableHead = capsule
            .pointer_checked(Some(EXCHANGE))
            .ok()?
            .as_ptr()
            .cast_const()
            .cast();
        while !head.is_null() {
            // SAFETY: a capsule of this name holds a function table. A table points to the table of an older
            // version, or to null.
            let here = unsafe { &*head };
            if here.version.major == EXCHANGE_MAJOR {
                // SAFETY: in this version, the fields of `Table` follow the head.
                let to_object = unsafe { (*head.cast::<Table>()).to_object }?;
                return Some(Exchange { to_object });
            }
            head = here.older;
        }
        None
    }
}

/// The alignment of the memory in bytes, which is the alignment of components.
const ALIGN: usize = 64;

/// The owner of a tensor's memory.
#[expect(dead_code, reason = "the field only keeps the memory alive")]
enum Memory {
    /// A slot of an element. In a forked child, the slot is not released.
    Slot(Here<Slot>),
    Own(Vec<u8>),
}

/// A tensor together with the data that it points to. The framework sees only the first field.
#[repr(C)]
struct Owned {
    managed: Managed,
    sizes: [i64; RANK_MAX],
    strides: [i64; RANK_MAX],
    _memory: Memory,
}

/// A tensor that no framework has taken over yet.
pub(crate) struct Exported(Box<Owned>);

impl Exported {
    /// Returns the tensor over `bytes`, which are a part of `slot`. The tensor keeps the slot alive.
    ///
    /// # Errors
    /// `TypeError` for strings, which DLPack does not support.
    pub(crate) fn view(dtype: Dtype, dims: &[u64], slot: &Slot, bytes: &[u8]) -> PyResult<Exported> {
        let offset = bytes.as_ptr().addr() - slot.start().as_ptr().addr();
        // SAFETY: `bytes` is a part of the slot, so the offset is within the slot.
        let data = unsafe { slot.start().add(offset) };
        let memory = Memory::Slot(Here::new(slot.clone()));
        Exported::new(dtype, dims, data.as_ptr().cast(), memory)
    }

    /// Returns a tensor with its own copy of these bytes.
    ///
    /// # Errors
    /// `TypeError` for strings, or `ResourceExhaustedError` if there is not enough memory.
    pub(crate) fn copy(dtype: Dtype, dims: &[u64], bytes: &[u8]) -> PyResult<Exported> {
        // The memory is aligned by hand: an aligned allocation would cost more than the rest of the function.
        let mut memory: Vec<u8> = Vec::new();
        memory
            .try_reserve_exact(bytes.len() + ALIGN - 1)
            .map_err(|error| raise("ResourceExhaustedError", error))?;
        let start = memory.as_mut_ptr();
        let offset = start.align_offset(ALIGN).min(ALIGN - 1);
        // SAFETY: the memory has room for `bytes.len()` bytes after the first aligned address, and no other
        // code can access it yet.
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
        // The element was validated, so it has at most `RANK_MAX` dimensions, and each dimension fits an i64.
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

    /// Converts the tensor to a pointer for [`delete`]. From now on the data does not move, so the tensor may
    /// point to it.
    fn into_raw(self) -> *mut Owned {
        let owned = Box::into_raw(self.0);
        // SAFETY: the pointer was just taken from its box, and no other code has it.
        unsafe {
            (*owned).managed.tensor.shape = (&raw mut (*owned).sizes).cast();
            (*owned).managed.tensor.strides = (&raw mut (*owned).strides).cast();
        }
        owned
    }

    /// Converts the tensor to a versioned capsule.
    pub(crate) fn into_capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let owned = self.into_raw();
        // SAFETY: the pointer is not null, the name is static, and the destructor expects a pointer of this
        // type.
        let capsule = unsafe { ffi::PyCapsule_New(owned.cast(), CAPSULE.as_ptr(), Some(release)) };
        // SAFETY: the pointer is a new reference, or null with an exception set.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, capsule) };
        if made.is_err() {
            // SAFETY: no capsule owns the pointer.
            drop(unsafe { Box::from_raw(owned) });
        }
        made
    }

    /// Converts the tensor to an unversioned capsule, for frameworks that take no other kind.
    pub(crate) fn into_unversioned_capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let owned = self.into_raw();
        // SAFETY: the pointer comes from `into_raw`, and the data of its tensor lives until `delete`.
        let tensor = unsafe { std::ptr::read(&raw const (*owned).managed.tensor) };
        let unversioned = Box::into_raw(Box::new(Unversioned {
            tensor,
            context: owned.cast(),
            deleter: Some(delete_unversioned),
        }));
        // SAFETY: the pointer is not null, the name is static, and the destructor expects a pointer of this
        // type.
        let capsule = unsafe {
            ffi::PyCapsule_New(
                unversioned.cast(),
                UNVERSIONED.as_ptr(),
                Some(release_unversioned),
            )
        };
        // SAFETY: the pointer is a new reference, or null with an exception set.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, capsule) };
        if made.is_err() {
            // SAFETY: no capsule owns the pointer.
            unsafe { delete_unversioned(unversioned) };
        }
        made
    }

    /// Converts the tensor with the framework's own function. The function leaks a tensor that it rejects, so
    /// callers use it only after the framework has accepted such a tensor.
    pub(crate) fn into_object(self, py: Python<'_>, exchange: Exchange) -> PyResult<Bound<'_, PyAny>> {
        let owned = self.into_raw();
        let mut object = std::ptr::null_mut();
        // SAFETY: the function takes over a structure that begins with `Managed`, and calls its deleter once.
        // The caller holds the interpreter's lock.
        let failed = unsafe { (exchange.to_object)(owned.cast(), &raw mut object) };
        if failed != 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: the pointer is a new reference.
        unsafe { Bound::from_owned_ptr_or_err(py, object.cast()) }
    }
}

/// Frees a tensor. The framework that took the tensor over calls this function, possibly without the
/// interpreter's lock.
unsafe extern "C" fn delete(managed: *mut Managed) {
    if !managed.is_null() {
        // SAFETY: `managed` is the first field of an `Owned` that `into_raw` returned. The framework calls
        // the deleter once.
        drop(unsafe { Box::from_raw(managed.cast::<Owned>()) });
    }
}

/// Frees an unversioned tensor, whose context is the `Owned`.
unsafe extern "C" fn delete_unversioned(unversioned: *mut Unversioned) {
    if !unversioned.is_null() {
        // SAFETY: `into_unversioned_capsule` passed on both pointers, and the framework calls the deleter
        // once.
        unsafe {
            let unversioned = Box::from_raw(unversioned);
            delete(unversioned.context.cast());
        }
    }
}

/// Frees the unversioned tensor of a capsule, unless a framework has taken the tensor over.
unsafe extern "C" fn release_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls the destructor with the capsule. A framework that takes the tensor over renames
    // the capsule.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) == 1 {
            delete_unversioned(ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()).cast());
        }
    }
}

/// Frees the tensor of a capsule, unless a framework has taken the tensor over and renamed the capsule.
unsafe extern "C" fn release(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls the destructor with the capsule. A framework that takes the tensor over renames
    // the capsule.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, CAPSULE.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast());
        }
    }
}

/// Returns the type code of `dlpack.h` for a dtype.
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
            return Err(PyTypeError::new_err("DLPack does not support tensors of strings"));
        }
    };
    Ok(DataType { code, bits, lanes: 1 })
}
