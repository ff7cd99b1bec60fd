//! The format PNG, of any colour type and depth, interlaced or not, decoded to 8 bits per channel. For an
//! animation, the default picture is decoded.

use std::io::Cursor;

use png::{ColorType, Decoder, Limits, Reader, Transformations};

use super::decoded::{Decoded, check_pixels};

/// Maximum bytes that chunks other than the pixels may decode to at once.
const CHUNKS_BYTES_MAX: usize = 1 << 20;

/// A PNG whose header has been read.
pub(super) struct Png<'b> {
    reader: Reader<Cursor<&'b [u8]>>,
}

impl<'b> Png<'b> {
    pub(super) fn open(bytes: &'b [u8], pixels_max: u64) -> Result<Png<'b>, String> {
        let mut decoder = Decoder::new(Cursor::new(bytes));
        let info = decoder.read_header_info().map_err(corrupt)?;
        let (height, width) = (info.height, info.width);
        check_pixels("PNG", height, width, pixels_max)?;
        // The decoder holds a few rows at a time, with up to 4 channels of 16 bits.
        let rows = (width as usize).saturating_mul(64);
        decoder.set_limits(Limits {
            bytes: rows.saturating_add(CHUNKS_BYTES_MAX),
        });
        decoder.set_transformations(Transformations::normalize_to_color8());
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let reader = decoder.read_info().map_err(corrupt)?;
        Ok(Png { reader })
    }

    /// Returns the height and the width in pixels.
    pub(super) fn size(&self) -> (u32, u32) {
        let info = self.reader.info();
        (info.height, info.width)
    }

    pub(super) fn decode(mut self) -> Result<Decoded, String> {
        let too_large = || "the PNG is too large for this machine".to_owned();
        let mut pixels = vec![0; self.reader.output_buffer_size().ok_or_else(too_large)?];
        let frame = self.reader.next_frame(&mut pixels).map_err(corrupt)?;
        if (frame.height, frame.width) != self.size() {
            return Err(
                "the PNG is corrupt: the size of the default picture differs from the header".to_owned(),
            );
        }
        // The chunks after the picture may be truncated too.
        self.reader.finish().map_err(corrupt)?;
        pixels.truncate(frame.buffer_size());
        let channels = match frame.color_type {
            ColorType::Grayscale => 1,
            ColorType::GrayscaleAlpha => 2,
            ColorType::Rgb => 3,
            ColorType::Rgba => 4,
            ColorType::Indexed => return Err("the PNG is corrupt: it has no palette".to_owned()),
        };
        Ok(Decoded {
            height: frame.height,
            width: frame.width,
            channels,
            pixels,
        })
    }
}

fn corrupt(error: png::DecodingError) -> String {
    format!("the PNG is corrupt: {error}")
}
