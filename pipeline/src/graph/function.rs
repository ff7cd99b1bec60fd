//! The functions a `map` applies: registered ones, known by name, and the native ones with their parameters.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use super::native::Native;
use super::params::{Params, SpecField};

/// What a `map` applies to every element.
#[derive(Debug, Clone, PartialEq)]
pub enum Function {
    /// A Rust function registered by name.
    Registered(RegisteredMap),
    /// Decodes an image component into `u8[height, width, 3]`.
    DecodeImage(DecodeImage),
    /// Resizes an image component to a fixed size.
    Resize(Resize),
    /// Crops a random area of an image component and resizes it to a fixed size.
    RandomResizedCrop(RandomResizedCrop),
    /// A native function that is not about images.
    Native(Native),
}

impl Function {
    /// The names of all of them.
    pub(super) const NAMES: &'static [&'static str] =
        &["map", "decode_image", "resize", "random_resized_crop"];

    /// The name of the operation on the wire.
    pub fn op_name(&self) -> &'static str {
        match self {
            Function::Registered(_) => "map",
            Function::DecodeImage(_) => "decode_image",
            Function::Resize(_) => "resize",
            Function::RandomResizedCrop(_) => "random_resized_crop",
            Function::Native(native) => native.op_name(),
        }
    }

    /// The name to show a user: the registered one, else the operation's.
    pub fn name(&self) -> &str {
        match self {
            Function::Registered(registered) => &registered.name,
            Function::DecodeImage(_)
            | Function::Resize(_)
            | Function::RandomResizedCrop(_)
            | Function::Native(_) => self.op_name(),
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
    /// What the function receives beside the element.
    #[n(1)]
    pub params: Params,
    /// What it yields, where declared; else the registry is asked.
    #[n(2)]
    pub output: Option<SpecField>,
}

/// Parameters of `decode_image`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DecodeImage {
    /// The component that holds the encoded image.
    #[n(0)]
    pub component: String,
    /// Images of more pixels than this are refused before their memory is allocated.
    #[n(1)]
    pub pixels_max: u64,
    /// What becomes of an element whose image cannot be decoded.
    #[n(2)]
    pub on_error: super::op::OnError,
}

/// Parameters of `resize`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Resize {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// Rows of the result, in pixels.
    #[n(1)]
    pub height: u32,
    /// Columns of the result, in pixels.
    #[n(2)]
    pub width: u32,
}

/// Parameters of `random_resized_crop`: the area is drawn uniformly from `scale`, the aspect ratio
/// log-uniformly from `ratio`; after ten draws that do not fit, the largest central crop within the ratios is
/// taken.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct RandomResizedCrop {
    /// The component that holds the image.
    #[n(0)]
    pub component: String,
    /// Rows of the result, in pixels.
    #[n(1)]
    pub height: u32,
    /// Columns of the result, in pixels.
    #[n(2)]
    pub width: u32,
    /// The smallest share of the image's area.
    #[n(3)]
    pub scale_min: f64,
    /// The largest share of the image's area.
    #[n(4)]
    pub scale_max: f64,
    /// The smallest width / height.
    #[n(5)]
    pub ratio_min: f64,
    /// The largest width / height.
    #[n(6)]
    pub ratio_max: f64,
    /// The seed; without one every task draws its own.
    #[n(7)]
    pub seed: Option<u64>,
}
