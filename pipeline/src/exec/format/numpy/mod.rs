//! Readers of NumPy files: `npy` holds one array, and `npz` is an archive of arrays.
//!
//! - `header`: the type and the shape that an array states;
//! - `items`: the bytes of an array as tensors;
//! - `npy` and `npz`: the readers of both formats.

mod header;
mod items;
mod npy;
mod npz;

pub(crate) use npy::{Npy, describe as describe_npy};
pub(crate) use npz::{Npz, describe as describe_npz};
