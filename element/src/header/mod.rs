//! The header at the end of every element: its content, its position, its writer, and its validation.
//!
//! An element is one run of bytes. The payloads come first, each 64-byte aligned. The rkyv archive of the
//! header follows, 8-byte aligned, with its root in the last [`ROOT_BYTES`] bytes. With a static spec the
//! header has no component table, because `layout` derives the table from the spec.
//!
//! - `archive`: the wire format and its writer
//! - `layout`: the positions of payloads and header, computed from the spec
//! - `validate`: the only reader
//! - `usual`: the headers of almost all small elements, written and read without serialisation

mod archive;
mod layout;
mod usual;
mod validate;

pub(crate) use archive::{ComponentEntry, HeaderParts, header_bytes};
pub use archive::{HEADER_VERSION, MAX_HEADER_BYTES, MAX_PROVENANCE, Provenance, ROOT_BYTES};
pub use layout::{Layout, Shape, ShapeError};
pub(crate) use layout::{align_up, check_provenance};
pub(crate) use usual::write_header;
pub use validate::{ComponentFault, HeaderError, Origin, each_lease};
pub(crate) use validate::{Provenances, Table, read_header};
