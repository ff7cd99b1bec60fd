//! Parameters of `decode_image`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::dataset::PIXELS_MAX_DEFAULT;
use crate::graph::on_error::OnError;

/// Parameters of `decode_image`: JPEG, PNG or WebP, told apart by the bytes, as `tf.io.decode_image` does. Of
/// an animation the first picture; of 16 bits a channel the high 8.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct DecodeImage {
    /// The component that holds the encoded image.
    #[n(0)]
    pub component: String,
    /// Images of more pixels than this are refused before their memory is allocated.
    #[n(1)]
    #[serde(default = "pixels_max_default")]
    pub pixels_max: u64,
    /// The treatment of an element whose image cannot be decoded.
    #[n(2)]
    #[serde(default)]
    pub on_error: OnError,
    /// Channels of the result: 1 = grey, 3 = RGB, 4 = RGBA, 0 = as many as the image has. Absent = 3. What an
    /// image lacks is added, grey as equal colours and alpha as opaque; alpha that is not wanted is dropped.
    #[n(3)]
    pub channels: Option<u8>,
}

fn pixels_max_default() -> u64 {
    PIXELS_MAX_DEFAULT
}

impl DecodeImage {
    /// RGB from `component`; what is broken is an error.
    pub fn new(component: impl Into<String>) -> DecodeImage {
        DecodeImage {
            component: component.into(),
            pixels_max: PIXELS_MAX_DEFAULT,
            on_error: OnError::Raise,
            channels: None,
        }
    }

    /// Channels of the result; 0 = as many as the image has.
    pub fn channels(&self) -> u8 {
        self.channels.unwrap_or(3)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.pixels_max == 0 {
            return Err("allows no pixels".to_owned());
        }
        match self.channels() {
            0 | 1 | 3 | 4 => Ok(()),
            channels => Err(format!(
                "decodes into {channels} channels: it can be 1 (grey), 3 (RGB), 4 (RGBA) or 0 (as in the image)"
            )),
        }
    }
}
