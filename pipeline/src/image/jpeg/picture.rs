//! A JPEG of either kind.

use crate::image::area::Area;
use crate::image::decode::Decoded;

use super::header::Header;
use super::other::Other;
use super::{render, scan};

/// A JPEG whose header has been read.
pub(in crate::image) enum Jpeg<'b> {
    Baseline(Box<Header<'b>>),
    Other(Other<'b>),
}

impl<'b> Jpeg<'b> {
    pub(in crate::image) fn open(bytes: &'b [u8]) -> Result<Jpeg<'b>, String> {
        match Header::read(bytes) {
            Some(header) => Ok(Jpeg::Baseline(Box::new(header))),
            None => Other::open(bytes).map(Jpeg::Other),
        }
    }

    /// Height and width.
    pub(in crate::image) fn size(&self) -> (u32, u32) {
        match self {
            Jpeg::Baseline(header) => (header.height, header.width),
            Jpeg::Other(other) => other.size(),
        }
    }

    /// The pixels of `area`, which lies within the picture.
    pub(in crate::image) fn decode(&self, area: Area, channels: u8) -> Result<Decoded, String> {
        match self {
            Jpeg::Baseline(header) => {
                let wanted = match channels {
                    1 => 1,
                    0 if header.components.len() == 1 => 1,
                    _ => 3,
                };
                let planes = scan::decode(header, area, wanted)
                    .map_err(|reason| format!("the JPEG is corrupt: {reason}"))?;
                Ok(render::pixels(header, &planes, area, wanted).converted(channels))
            }
            Jpeg::Other(other) => other.decode(area, channels),
        }
    }
}
