//! What moves: dtypes, specs, structures, slots, packs and archived headers. Knows no network, no task and no clock.
//!
//! - `dtype`, `spec`, `structure`, `spec_codec`: what a task promises about its elements, and its bytes on the wire
//! - `slot`: the aligned memory that elements live in, and who hands it out

mod dtype;
mod slot;
mod spec;
mod structure;

pub use dtype::{Dtype, DtypeError};
pub use slot::{
    AllocError, HeapAlloc, MAX_SLOT_BYTES, Memory, Pool, PoolStats, Reclaim, SLOT_ALIGN, Slot, SlotAlloc,
    SlotHead, SlotMut, SlotTail,
};
pub use spec::{ElementSpec, MAX_COMPONENTS, MAX_RANK, SpecError, TensorSpec};
pub use structure::{MAX_DEPTH, MAX_NAME_BYTES, MAX_NODES, MAX_RAGGED_RANK, Structure, StructureError};
