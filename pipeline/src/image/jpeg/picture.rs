//! A JPEG of any kind, and which decoder it goes to.

use crate::image::area::Area;
use crate::image::decoded::Decoded;

use super::header::Header;
use super::kernel::Plain;
use super::other::Other;
use super::pixels;
#[cfg(feature = "turbojpeg")]
use super::turbo::Turbo;

/// A JPEG whose header has been read.
pub(in crate::image) enum Jpeg<'b> {
    Baseline(Box<Header<'b>>),
    #[cfg(feature = "turbojpeg")]
    Turbo(Turbo<'b>),
    Other(Other<'b>),
}

impl<'b> Jpeg<'b> {
    pub(in crate::image) fn open(bytes: &'b [u8]) -> Result<Jpeg<'b>, String> {
        if let Some(header) = Header::read(bytes) {
            return Ok(Jpeg::Baseline(Box::new(header)));
        }
        #[cfg(feature = "turbojpeg")]
        if let Some(turbo) = Turbo::open(bytes)? {
            return Ok(Jpeg::Turbo(turbo));
        }
        Other::open(bytes).map(Jpeg::Other)
    }

    /// Height and width.
    pub(in crate::image) fn size(&self) -> (u32, u32) {
        match self {
            Jpeg::Baseline(header) => (header.height, header.width),
            #[cfg(feature = "turbojpeg")]
            Jpeg::Turbo(turbo) => turbo.size(),
            Jpeg::Other(other) => other.size(),
        }
    }

    /// The pixels of `area`, which lies within the picture.
    pub(in crate::image) fn decode(self, area: Area, channels: u8) -> Result<Decoded, String> {
        match self {
            Jpeg::Baseline(header) => {
                let wanted = match channels {
                    1 => 1,
                    0 if header.components.len() == 1 => 1,
                    _ => 3,
                };
                let decoded = decoded(&header, area, wanted);
                let corrupt = |reason| format!("the JPEG is corrupt: {reason}");
                Ok(decoded.map_err(corrupt)?.converted(channels))
            }
            #[cfg(feature = "turbojpeg")]
            Jpeg::Turbo(turbo) => Ok(turbo.decode(area, channels)?.converted(channels)),
            Jpeg::Other(other) => other.decode(area, channels),
        }
    }
}

/// The pixels of `area` with 1 or 3 channels, by the fastest way that this processor has.
fn decoded(header: &Header<'_>, area: Area, wanted: u8) -> Result<Decoded, &'static str> {
    #[cfg(target_arch = "x86_64")]
    if let Some(decoded) = super::wide::pixels(header, area, wanted) {
        return decoded;
    }
    pixels::pixels::<Plain>(header, area, wanted)
}
