//! The format WebP, lossy and lossless, with or without alpha. For an animation, the first picture is
//! decoded.

use std::io::Cursor;

use image_webp::WebPDecoder;

use super::decoded::{Decoded, check_pixels};

/// Maximum bytes of a chunk other than the pixels.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// A WebP whose header has been read.
pub(super) struct WebP<'b> {
    decoder: WebPDecoder<Cursor<&'b [u8]>>,
}

impl<'b> WebP<'b> {
    pub(super) fn open(bytes: &'b [u8], pixels_max: u64) -> Result<WebP<'b>, String> {
        // A lossy picture also states a size of its own. The decoder allocates memory by this size, which can
        // differ from the size of the file's header.
        for (height, width) in lossy_sizes(bytes) {
            check_pixels("WebP", height, width, pixels_max)?;
        }
        let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(corrupt)?;
        decoder.set_memory_limit(CHUNK_BYTES_MAX);
        Ok(WebP { decoder })
    }

    /// Returns the height and the width in pixels.
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

/// Returns the height and the width that every lossy picture in the file states for itself.
fn lossy_sizes(bytes: &[u8]) -> Vec<(u32, u32)> {
    let mut sizes = Vec::new();
    let mut at = 12usize;
    while let Some(head) = bytes.get(at..at.saturating_add(8)) {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let body = at + 8;
        match &head[..4] {
            // A picture of an animation consists of 16 bytes and further chunks, so the loop continues among
            // these chunks.
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
        // Chunks begin at even offsets.
        at = body.saturating_add(length).saturating_add(length % 2);
    }
    sizes
}
