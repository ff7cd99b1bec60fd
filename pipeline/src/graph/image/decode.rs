//! Parameters of `decode_image`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::dataset::PIXELS_MAX_DEFAULT;
use crate::graph::on_error::OnError;

/// Parameters of `decode_image`, which decodes JPEG, PNG and WebP.
///
/// The bytes of the image decide the format, as in `tf.io.decode_image`. If the image is an animation, its
/// first picture is decoded. If a channel has 16 bits, its high 8 bits are kept.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct DecodeImage {
    /// The component that holds the encoded image.
    #[n(0)]
    pub component: String,
    /// The maximum number of pixels. A larger image is refused before memory is allocated for it.
    #[n(1)]
    #[serde(default = "pixels_max_default")]
    pub pixels_max: u64,
    /// The treatment of an element whose image cannot be decoded.
    #[n(2)]
    #[serde(default)]
    pub on_error: OnError,
    /// The number of channels of the result: 1 = grey, 3 = RGB, 4 = RGBA, 0 = the number that the image has.
    /// `None` means 3. Missing colours are filled with the grey value, and missing alpha is opaque. Alpha
    /// that the result does not have is dropped.
    #[n(3)]
    pub channels: Option<u8>,
}

fn pixels_max_default() -> u64 {
    PIXELS_MAX_DEFAULT
}

impl DecodeImage {
    /// Decodes RGB from `component`, and treats broken images as errors.
    pub fn new(component: impl Into<String>) -> DecodeImage {
        DecodeImage {
            component: component.into(),
            pixels_max: PIXELS_MAX_DEFAULT,
            on_error: OnError::Raise,
            channels: None,
        }
    }

    /// Returns the number of channels of the result; 0 means the number that the image has.
    pub fn channels(&self) -> u8 {
        self.channels.unwrap_or(3)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.pixels_max == 0 {
            return Err("has a limit of 0 pixels, the least is 1".to_owned());
        }
        match self.channels() {
            0 | 1 | 3 | 4 => Ok(()),
            channels => Err(format!(
                "decodes into {channels} channels, expected 1 (grey), 3 (RGB), 4 (RGBA) or 0 (as in the image)"
            )),
        }
    }
}
