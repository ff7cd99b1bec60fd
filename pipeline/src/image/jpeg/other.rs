//! JPEGs of the rarer kinds, such as progressive pictures, and pictures of several scans or other colours.

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::image::area::Area;
use crate::image::decoded::Decoded;

/// Maximum number of scans of a progressive JPEG. Each scan costs a pass over the picture, so that a small
/// file could otherwise take minutes.
pub(super) const SCANS_MAX: usize = 100;

/// A JPEG whose header has been read.
pub(in crate::image) struct Other<'b> {
    bytes: &'b [u8],
    height: u32,
    width: u32,
    is_grey: bool,
}

impl<'b> Other<'b> {
    pub(super) fn open(bytes: &'b [u8]) -> Result<Other<'b>, String> {
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options(ColorSpace::RGB));
        decoder.decode_headers().map_err(corrupt)?;
        let info = decoder
            .info()
            .ok_or_else(|| "the JPEG is corrupt: it has no size".to_owned())?;
        Ok(Other {
            bytes,
            height: info.height.into(),
            width: info.width.into(),
            is_grey: info.components == 1,
        })
    }

    /// Returns the height and the width in pixels.
    pub(super) fn size(&self) -> (u32, u32) {
        (self.height, self.width)
    }

    pub(super) fn decode(&self, area: Area, channels: u8) -> Result<Decoded, String> {
        let (space, native) = match channels {
            1 => (ColorSpace::Luma, 1),
            0 if self.is_grey => (ColorSpace::Luma, 1),
            _ => (ColorSpace::RGB, 3),
        };
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(self.bytes), options(space));
        let pixels = decoder.decode().map_err(corrupt)?;
        let expected = self.height as usize * self.width as usize * usize::from(native);
        if pixels.len() != expected {
            return Err(format!(
                "the JPEG is corrupt: expected {expected} bytes of pixels, found {}",
                pixels.len()
            ));
        }
        let whole = Decoded {
            height: self.height,
            width: self.width,
            channels: native,
            pixels,
        };
        Ok(whole.cut(area).converted(channels))
    }
}

fn options(space: ColorSpace) -> DecoderOptions {
    DecoderOptions::default()
        .set_strict_mode(true)
        .jpeg_set_max_scans(SCANS_MAX)
        .jpeg_set_out_colorspace(space)
}

fn corrupt(error: zune_jpeg::errors::DecodeErrors) -> String {
    format!("the JPEG is corrupt: {error}")
}
