//! Encoded pictures of any format. A picture is recognised by its first bytes. The size of a picture is
//! checked against a limit of pixels before memory is allocated. The picture is then decoded to the wanted
//! number of channels. The file of each format knows the layout of the format.
//!
//! Decoding is strict: a truncated or corrupt picture is an error, and never a picture that ends in grey.

use super::area::Area;
use super::decoded::{Decoded, check_pixels};
use super::jpeg::Jpeg;
use super::png::Png;
use super::webp::WebP;

/// An encoded picture of known size.
pub(crate) struct Encoded<'b> {
    format: Format<'b>,
    height: u32,
    width: u32,
}

enum Format<'b> {
    Jpeg(Box<Jpeg<'b>>),
    Png(Box<Png<'b>>),
    WebP(Box<WebP<'b>>),
}

impl<'b> Encoded<'b> {
    /// Reads the header of `bytes`, which must be a JPEG, PNG or WebP of at most `pixels_max` pixels.
    ///
    /// # Errors
    /// A text that states the reason: another format, a corrupt picture, or too many pixels.
    pub(crate) fn open(bytes: &'b [u8], pixels_max: u64) -> Result<Encoded<'b>, String> {
        let (format, name, (height, width)) = match bytes {
            [0xff, 0xd8, ..] => {
                let jpeg = Jpeg::open(bytes)?;
                let size = jpeg.size();
                (Format::Jpeg(Box::new(jpeg)), "JPEG", size)
            }
            [0x89, b'P', b'N', b'G', ..] => {
                let png = Png::open(bytes, pixels_max)?;
                let size = png.size();
                (Format::Png(Box::new(png)), "PNG", size)
            }
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
                let webp = WebP::open(bytes, pixels_max)?;
                let size = webp.size();
                (Format::WebP(Box::new(webp)), "WebP", size)
            }
            _ => return Err(unknown(bytes)),
        };
        if height == 0 || width == 0 {
            return Err(format!("the {name} is corrupt: it has {width} x {height} pixels"));
        }
        check_pixels(name, height, width, pixels_max)?;
        Ok(Encoded {
            format,
            height,
            width,
        })
    }

    pub(crate) fn height(&self) -> u32 {
        self.height
    }

    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    /// Decodes `area`, which must be within the picture, to `channels`: 1 for grey, 3 for RGB, 4 for RGBA. 0
    /// keeps the channels of the picture, which may then also be 2, for grey and alpha. The pixels are equal
    /// to those of the same area in the decoded whole picture.
    ///
    /// # Errors
    /// A text that states the reason. If only a part of a JPEG is decoded, damage outside of the part is not
    /// noticed, but truncation is.
    pub(crate) fn decode(self, area: Area, channels: u8) -> Result<Decoded, String> {
        if !area.fits(self.height, self.width) {
            return Err(format!(
                "the image of {} x {} pixels does not contain the area of {} x {} pixels from row {}, column {}",
                self.width, self.height, area.width, area.height, area.top, area.left
            ));
        }
        let whole = match self.format {
            Format::Jpeg(jpeg) => return jpeg.decode(area, channels),
            Format::Png(png) => png.decode()?,
            Format::WebP(webp) => webp.decode()?,
        };
        Ok(whole.converted(channels).cut(area))
    }
}

/// Returns the error for bytes that are not a supported image.
fn unknown(bytes: &[u8]) -> String {
    let format = match bytes {
        [] => return "the image is empty".to_owned(),
        [b'G', b'I', b'F', b'8', ..] => "GIF",
        [b'B', b'M', ..] => "BMP",
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => "TIFF",
        _ if bytes.get(4..8) == Some(b"ftyp") => "AVIF or HEIF",
        _ => {
            return format!(
                "expected an image as JPEG, PNG or WebP, found an image that begins with {:02x?}",
                &bytes[..bytes.len().min(4)]
            );
        }
    };
    format!("the image is {format}, which is not supported: convert it to JPEG, PNG or WebP")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8], pixels_max: u64) -> String {
        Encoded::open(bytes, pixels_max).err().unwrap()
    }

    #[test]
    fn other_formats_are_named() {
        assert!(refusal(b"GIF89a", 1).contains("GIF"));
        assert!(refusal(b"BM....", 1).contains("BMP"));
        assert!(refusal(b"", 1).contains("empty"));
        assert!(refusal(b"hello", 1).contains("expected an image as JPEG, PNG or WebP"));
    }

    #[test]
    fn excess_pixels_are_refused_before_allocation() {
        // The bytes are a start of image and a frame header with 8 bits, 65500 x 65500 pixels and one
        // component.
        let header = [
            0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0xff, 0xdc, 0xff, 0xdc, 1, 1, 0x11, 0,
        ];
        let scan = [0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0];
        let error = refusal(&[&header[..], &scan[..]].concat(), 1 << 20);
        assert!(error.contains("65500"), "{error}");
    }

    #[test]
    fn what_is_cut_short_is_corrupt() {
        let heads: [&[u8]; 3] = [&[0xff, 0xd8, 0xff], b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBPVP8 "];
        for head in heads {
            let error = refusal(head, 1 << 20);
            assert!(error.contains("corrupt"), "{error}");
        }
    }
}
