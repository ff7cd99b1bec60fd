//! One kind of operation, as the table of operations lists it.
//!
//! Owns the link from a name on the wire to what reads and prepares the operation. Refuses to know which
//! kinds there are.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::program::Prepare;
use crate::graph::codec::Decode;
use crate::graph::tree::{Op, Operation};

/// Makes an operation of parameters by name, or says which one is missing, unknown or of a wrong type.
pub(crate) type Named = fn(Map<String, Value>) -> Result<Op, String>;

/// One kind of operation.
pub(crate) struct Room {
    /// The names on the wire: one, or one for each function of a family.
    pub(crate) names: &'static [&'static [&'static str]],
    /// Reads the operation from its parameters.
    pub(crate) decode: Decode,
    /// Makes the operation of named parameters; `None` where a parameter is more than a number, a text or a
    /// list.
    pub(crate) named: Option<Named>,
    /// Prepares the operation to be executed.
    pub(crate) prepare: Prepare,
}

/// Makes an operation of type `T` of its parameters by name.
pub(crate) fn named<T: Operation + DeserializeOwned>(parameters: Map<String, Value>) -> Result<Op, String> {
    serde_json::from_value::<T>(Value::Object(parameters))
        .map(Op::new)
        .map_err(|error| error.to_string())
}

/// Makes an operation that has no parameters.
pub(crate) fn nameless<T: Operation + Default>(parameters: Map<String, Value>) -> Result<Op, String> {
    match parameters.keys().next() {
        Some(name) => Err(format!("unknown field `{name}`, there are no fields")),
        None => Ok(Op::new(T::default())),
    }
}
