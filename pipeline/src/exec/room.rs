//! One kind of operation, as the table of operations lists it.
//!
//! Owns the link from a name on the wire to the functions that decode and prepare the operation. Refuses to
//! know which kinds of operations exist.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::program::Prepare;
use crate::graph::codec::Decode;
use crate::graph::tree::{Op, Operation};

/// A function that makes an operation from named parameters, or states which parameter is missing, unknown or
/// of a wrong type.
pub(crate) type Named = fn(Map<String, Value>) -> Result<Op, String>;

/// One kind of operation.
pub(crate) struct Room {
    /// The names on the wire. A family of functions has one name for each function; any other operation has
    /// one name.
    pub(crate) names: &'static [&'static [&'static str]],
    /// The function that decodes the operation from its parameters.
    pub(crate) decode: Decode,
    /// The function that makes the operation from named parameters. `None` if a parameter is not a number, a
    /// text or a list.
    pub(crate) named: Option<Named>,
    /// The function that prepares the operation for execution.
    pub(crate) prepare: Prepare,
}

/// Makes an operation of type `T` from its named parameters.
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
