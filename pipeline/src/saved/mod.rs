//! Files of elements: a header, blocks of elements behind their checksums, and an end, without which a file
//! is not whole.
//!
//! - [`block`]: blocks, packed or not;
//! - [`writer`], [`reader`]: one file;
//! - [`folder`]: a directory of such files, which is there whole or not at all.
//!
//! Elements are bytes here; what they mean is the executor's.

mod block;
mod folder;
mod header;
mod reader;
mod writer;

pub(crate) use folder::{Begun, Folder, Sink};
pub(crate) use reader::{ElementReader, Place};
