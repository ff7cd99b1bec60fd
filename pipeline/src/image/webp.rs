//! WebP, lossy and lossless, with alpha or without; of an animation the first picture.

use std::io::Cursor;

use image_webp::WebPDecoder;

use super::decoded::{Decoded, check_pixels};

/// Bytes that a chunk beside the pixels may have.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// A WebP whose header has been read.
pub(super) struct WebP<'b> {
    decoder: WebPDecoder<Cursor<&'b [u8]>>,
}

impl<'b> WebP<'b> {
    pub(super) fn open(bytes: &'b [u8], pixels_max: u64) -> Result<WebP<'b>, String> {
        // A lossy picture says its own size too, and is allocated by it: it can differ from the file's.
        for (height, width) in lossy_sizes(bytes) {
            check_pixels("WebP", height, width, pixels_max)?;
        }
        let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(corrupt)?;
        decoder.set_memory_limit(CHUNK_BYTES_MAX);
        Ok(WebP { decoder })
    }

    /// Height and width.
    pub(super) fn size(&self) -> (u32, u32) {
        let (width, height) = self.decoder.dimensions();
        (height, width)
    }

    pub(super) fn decode(mut self) -> Result<Decoded, String> {
        let too_large = || "the WebP is too large for this machine".to_owned();
        let mut pixels = vec![0; self.decoder.output_buffer_size().ok_or_else(too_large)?];
        self.decoder.read_image(&mut pixels).map_err(corrupt)?;
        let (height, width) = self.size();
        Ok(Decoded {
            height,
            width,
            channels: if self.decoder.has_alpha() { 4 } else { 3 },
            pixels,
        })
    }
}

fn corrupt(error: image_webp::DecodingError) -> String {
    format!("the WebP is corrupt: {error}")
}

/// Height and width of every lossy picture in the file, as it says itself.
fn lossy_sizes(bytes: &[u8]) -> Vec<(u32, u32)> {
    let mut sizes = Vec::new();
    let mut at = 12usize;
    while let Some(head) = bytes.get(at..at.saturating_add(8)) {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let body = at + 8;
        match &head[..4] {
            // A picture of an animation is chunks behind 16 bytes: go on among them.
            b"ANMF" => {
                at = body.saturating_add(16);
                continue;
            }
            b"VP8 " => {
                if let Some(frame) = bytes.get(body.saturating_add(6)..body.saturating_add(10)) {
                    let side = |low: u8, high: u8| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
                    sizes.push((side(frame[2], frame[3]), side(frame[0], frame[1])));
                }
            }
            _ => {}
        }
        // Chunks begin at even places.
        at = body.saturating_add(length).saturating_add(length % 2);
    }
    sizes
}
