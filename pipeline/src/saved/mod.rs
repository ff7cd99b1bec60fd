//! Files of elements. A file has a header, blocks of elements with checksums, and an end mark. A file without
//! the end mark is incomplete.
//!
//! - [`block`]: blocks, compressed or not.
//! - [`writer`], [`reader`]: the writer and the reader of one file.
//! - [`chunk`]: a file that is committed once, and never replaced.
//! - [`folder`]: a directory of files, which is written completely or not at all.
//!
//! Elements are bytes here. The executor encodes and decodes them.

mod block;
mod chunk;
mod folder;
mod header;
mod reader;
mod writer;

pub(crate) use chunk::{ChunkSize, ChunkWriter, chunk_size};
pub(crate) use folder::{Begun, Folder, Sink};
pub(crate) use reader::{ElementReader, Place};
