//! Elements and their parts: dtypes, specs, structures, slots, packs and archived headers. This crate knows
//! no network, no tasks and no clock.
//!
//! - `dtype`, `spec`, `structure`, `spec_codec`: the promise of a task about its elements, and its wire
//!   format
//! - `slot`: the aligned memory that contains elements, and its allocators
//! - `header`: the archive at the end of an element, the positions of the element's parts, and the validator
//! - `pack`: many elements side by side in one slot, which are taken while more elements are written
//! - `element`, `view`, `strings`: one validated element, its tensors, and its string items

mod dtype;
mod element;
#[cfg(test)]
mod fuzz;
mod header;
mod pack;
mod slot;
mod spec;
mod spec_codec;
mod strings;
mod structure;
mod view;

pub use dtype::{Dtype, DtypeError};
pub use element::Element;
pub use header::{
    ComponentFault, HEADER_VERSION, HeaderError, Layout, MAX_HEADER_BYTES, MAX_PROVENANCE, Origin,
    Provenance, ROOT_BYTES, Shape, ShapeError, each_lease,
};
pub use pack::{
    ElementWriter, MAX_PACK_ELEMENTS, OpenPack, Pack, PackError, PackWriter, TensorBytes, TensorRef,
    WriteError,
};
pub use slot::{
    AllocError, HeapAlloc, MAX_SLOT_BYTES, Memory, Pool, PoolStats, Reclaim, SLOT_ALIGN, Slot, SlotAlloc,
    SlotHead, SlotMut, SlotTail,
};
pub use spec::{DIM_MAX, ElementSpec, MAX_COMPONENTS, MAX_RANK, SpecError, TensorSpec};
pub use spec_codec::{MAX_SPEC_BYTES, SpecCodecError};
pub use strings::{Strings, StringsError, data_bytes, write_strings};
pub use structure::{
    MAX_DEPTH, MAX_NAME_BYTES, MAX_NAMES_BYTES, MAX_NODES, MAX_RAGGED_RANK, Structure, StructureError,
};
pub use view::{Item, TensorView, ViewError};
