//! One kind of operation, as the table of operations lists it.
//!
//! Owns the link from a name on the wire to what reads and prepares the operation. Refuses to know which kinds there are.

use crate::graph::codec::Decode;

use super::program::Prepare;

/// One kind of operation.
pub(crate) struct Room {
    /// The names on the wire: one, or one for each function of a family.
    pub(crate) names: &'static [&'static [&'static str]],
    /// Reads the operation from its parameters.
    pub(crate) decode: Decode,
    /// Prepares the operation to be executed.
    pub(crate) prepare: Prepare,
}
