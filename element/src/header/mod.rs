//! The header at the end of every element: what it says, where it lies, how it is written and how far it is
//! believed.
//!
//! An element is one run of bytes: payloads, each 64-byte aligned; then the rkyv archive of the header,
//! 8-byte aligned, its root in the last [`ROOT_BYTES`] bytes. With a static spec the header has no component
//! table: `layout` derives it.
//!
//! - `archive`: the wire form and its writer
//! - `layout`: where payloads and header lie, computed once a task from the spec
//! - `validate`: the only reader

mod archive;
mod layout;
mod validate;

pub(crate) use archive::{ComponentEntry, HeaderParts, header_bytes, write_header};
pub use archive::{HEADER_VERSION, MAX_HEADER_BYTES, MAX_PROVENANCE, Provenance, ROOT_BYTES};
pub use layout::{Layout, Shape, ShapeError};
pub(crate) use layout::{align_up, check_provenance};
pub use validate::{ComponentFault, HeaderError, Origin, each_lease};
pub(crate) use validate::{Provenances, Table, read_header};
