//! NumPy files: `npy`, one array, and `npz`, an archive of them.
//!
//! - `header`: what an array says of itself;
//! - `items`: its bytes as tensors;
//! - `npy` and `npz`: the readers.

mod header;
mod items;
mod npy;
mod npz;

pub(crate) use npy::{Npy, describe as describe_npy};
pub(crate) use npz::{Npz, describe as describe_npz};
