//! The functions a `map` applies: registered ones, known by name, and the native ones with their parameters.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use super::image::ImageFunction;
use super::native::Native;
use super::params::{Params, SpecField};

/// The function that a `map` applies to every element.
#[derive(Debug, Clone, PartialEq)]
pub enum Function {
    /// A Rust function registered by name.
    Registered(RegisteredMap),
    /// A function of pictures.
    Image(ImageFunction),
    /// A native function that is not about images.
    Native(Native),
}

impl Function {
    /// The name of the operation on the wire.
    pub fn op_name(&self) -> &'static str {
        match self {
            Function::Registered(_) => "map",
            Function::Image(image) => image.op_name(),
            Function::Native(native) => native.op_name(),
        }
    }

    /// The name to show a user: the registered one, else the operation's.
    pub fn name(&self) -> &str {
        match self {
            Function::Registered(registered) => &registered.name,
            Function::Image(_) | Function::Native(_) => self.op_name(),
        }
    }
}

/// Parameters of a `map` of a registered function.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct RegisteredMap {
    /// The registered name.
    #[n(0)]
    pub name: String,
    /// The parameters of the function beside the element.
    #[n(1)]
    pub params: Params,
    /// The spec of its results, where declared; else the registry is asked.
    #[n(2)]
    pub output: Option<SpecField>,
}
