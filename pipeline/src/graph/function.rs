//! The functions that a `map` applies: functions registered by name, and native functions with their
//! parameters.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use super::image::ImageFunction;
use super::native::Native;
use super::params::{Params, SpecField};

/// The function that a `map` applies to every element.
#[derive(Debug, Clone, PartialEq)]
pub enum Function {
    /// A Rust function that is registered by name.
    Registered(RegisteredMap),
    /// A native function of pictures.
    Image(ImageFunction),
    /// A native function that does not work on pictures.
    Native(Native),
}

impl Function {
    /// Returns the name of the operation on the wire.
    pub fn op_name(&self) -> &'static str {
        match self {
            Function::Registered(_) => "map",
            Function::Image(image) => image.op_name(),
            Function::Native(native) => native.op_name(),
        }
    }

    /// Returns the name to show to a user: the registered name, or the operation's name for a native
    /// function.
    pub fn name(&self) -> &str {
        match self {
            Function::Registered(registered) => &registered.name,
            Function::Image(_) | Function::Native(_) => self.op_name(),
        }
    }
}

/// Parameters of a `map` with a registered function.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct RegisteredMap {
    /// The name under which the function is registered.
    #[n(0)]
    pub name: String,
    /// The parameters that the function receives with each element.
    #[n(1)]
    pub params: Params,
    /// The spec of the function's results; `None` if the spec is not declared and the registry knows it.
    #[n(2)]
    pub output: Option<SpecField>,
}
