//! One kind of operation, as the table of operations lists it.
//!
//! Owns the link from a name on the wire to the functions that decode and prepare the operation. Refuses to
//! know which kinds of operations exist.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::program::Prepare;
use crate::graph::Dataset;
use crate::graph::codec::Decode;
use crate::graph::named::{NoParameters, named_params};
use crate::graph::tree::{Op, Operation};

/// A function that adds the operation of a name, with named parameters, to its inputs. Its error states which
/// parameter is missing, unknown or of a wrong type.
pub(crate) type Named = fn(&str, Map<String, Value>, Vec<Dataset>) -> Result<Dataset, String>;

/// One kind of operation.
pub(crate) struct Room {
    /// The names on the wire. A family of functions has one name for each function; any other operation has
    /// one name.
    pub(crate) names: &'static [&'static [&'static str]],
    /// The function that decodes the operation from its parameters.
    pub(crate) decode: Decode,
    /// The function that adds the operation with named parameters. `None` if a parameter cannot be written in
    /// JSON, such as a function.
    pub(crate) named: Option<Named>,
    /// The function that prepares the operation for execution.
    pub(crate) prepare: Prepare,
}

/// Adds an operation of type `T`.
pub(crate) fn named<T: Operation + DeserializeOwned>(
    _: &str,
    parameters: Map<String, Value>,
    inputs: Vec<Dataset>,
) -> Result<Dataset, String> {
    let operation = named_params::<T>(parameters)?;
    Ok(Dataset::joined(Op::new(operation), inputs))
}

/// Adds an operation that has no parameters.
pub(crate) fn nameless<T: Operation + Default>(
    _: &str,
    parameters: Map<String, Value>,
    inputs: Vec<Dataset>,
) -> Result<Dataset, String> {
    named_params::<NoParameters>(parameters)?;
    Ok(Dataset::joined(Op::new(T::default()), inputs))
}
