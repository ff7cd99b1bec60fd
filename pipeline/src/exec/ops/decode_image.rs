//! `decode_image`: an encoded picture becomes `u8[height, width, 3]`. JPEG today; other formats are
//! recognised by their first bytes and named in the error.
//!
//! Decoding is strict: a picture that is cut short or garbled is an error, never a picture that ends in grey.

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use millstream_element::Dtype;

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::skipped::Skipped;
use crate::exec::value::{Tensor, Value};
use crate::graph::OnError;

/// Scans a progressive JPEG may have: each costs a pass over the picture, so that a small file could cost
/// minutes.
const SCANS_MAX: usize = 100;

pub(crate) struct DecodeImageCall {
    /// The component's place in the element.
    pub(crate) component: usize,
    pub(crate) pixels_max: u64,
    pub(crate) on_error: OnError,
    pub(crate) skipped: Skipped,
}

impl Call for DecodeImageCall {
    fn name(&self) -> &str {
        "decode_image"
    }

    fn call(&self, mut value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let missing = || ExecError::new(ErrorKind::Internal, "decode_image", "the component is missing");
        let tensor = value.get_mut(self.component).ok_or_else(missing)?;
        let encoded = tensor.contiguous().ok_or_else(missing)?;
        let image = decode(encoded, self.pixels_max)
            .map_err(|message| ExecError::new(ErrorKind::Data, "decode_image", message));
        match (image, self.on_error) {
            (Ok(image), _) => {
                *tensor = image;
                Ok(Some(value))
            }
            (Err(error), OnError::Raise) => Err(error),
            (Err(error), OnError::Skip) => {
                self.skipped.record(&error.at(at.origin).at_position(at.position));
                Ok(None)
            }
        }
    }
}

/// Decodes a JPEG of at most `pixels_max` pixels.
fn decode(encoded: &[u8], pixels_max: u64) -> Result<Tensor, String> {
    if !encoded.starts_with(&[0xff, 0xd8]) {
        return Err(not_jpeg(encoded));
    }
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .jpeg_set_max_scans(SCANS_MAX)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let broken = |error: zune_jpeg::errors::DecodeErrors| format!("the JPEG is corrupt: {error}");
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(encoded), options);
    decoder.decode_headers().map_err(broken)?;
    let info = decoder
        .info()
        .ok_or_else(|| "the JPEG is corrupt: it has no size".to_owned())?;
    let (height, width) = (u64::from(info.height), u64::from(info.width));
    if height * width > pixels_max {
        return Err(format!(
            "the JPEG has {width} x {height} pixels, more than the {pixels_max} allowed"
        ));
    }
    let pixels = decoder.decode().map_err(broken)?;
    Tensor::fixed(Dtype::U8, &[height, width, 3], pixels)
}

fn not_jpeg(bytes: &[u8]) -> String {
    let riff = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    let format = match bytes {
        [] => return "the image is empty".to_owned(),
        [0x89, b'P', b'N', b'G', ..] => "PNG",
        [b'G', b'I', b'F', b'8', ..] => "GIF",
        [b'B', b'M', ..] => "BMP",
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => "TIFF",
        _ if riff => "WebP",
        _ if bytes.get(4..8) == Some(b"ftyp") => "AVIF or HEIF",
        _ => {
            return format!(
                "the image is no JPEG: it begins with {:02x?}",
                &bytes[..bytes.len().min(4)]
            );
        }
    };
    format!("the image is {format}, which is not supported: convert it to JPEG")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_named() {
        assert!(decode(b"\x89PNG\r\n\x1a\n", 1).unwrap_err().contains("PNG"));
        assert!(decode(b"RIFF\0\0\0\0WEBPVP8 ", 1).unwrap_err().contains("WebP"));
        assert!(decode(b"", 1).unwrap_err().contains("empty"));
        assert!(decode(b"hello", 1).unwrap_err().contains("no JPEG"));
    }

    #[test]
    fn too_many_pixels_are_refused_before_they_are_allocated() {
        // Start of image, then a frame header: 8 bits, 65500 x 65500, one component.
        let header = [
            0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0xff, 0xdc, 0xff, 0xdc, 1, 1, 0x11, 0,
        ];
        let scan = [0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0];
        let error = decode(&[&header[..], &scan[..]].concat(), 1 << 20).unwrap_err();
        assert!(error.contains("65500"), "{error}");
    }

    #[test]
    fn a_jpeg_cut_short_is_corrupt() {
        assert!(
            decode(&[0xff, 0xd8, 0xff], 1 << 20)
                .unwrap_err()
                .contains("corrupt")
        );
    }
}
