//! Decoded pictures: their pixels, the conversion of channels, and the cropping of areas. This module knows
//! no format.

use super::area::Area;

/// The pixels of a picture: `height` rows of `width` pixels with `channels` bytes each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) channels: u8,
    pub(crate) pixels: Vec<u8>,
}

impl Decoded {
    /// Converts the picture to `channels` channels. 0 keeps the channels of the picture.
    pub(super) fn converted(self, channels: u8) -> Decoded {
        if channels == 0 || channels == self.channels {
            return self;
        }
        let convert: fn(&[u8]) -> [u8; 4] = match self.channels {
            1 => |pixel| [pixel[0], pixel[0], pixel[0], 255],
            2 => |pixel| [pixel[0], pixel[0], pixel[0], pixel[1]],
            3 => |pixel| [pixel[0], pixel[1], pixel[2], 255],
            _ => |pixel| [pixel[0], pixel[1], pixel[2], pixel[3]],
        };
        let from = self.pixels.chunks_exact(usize::from(self.channels));
        let mut pixels = Vec::with_capacity(from.len() * usize::from(channels));
        for pixel in from {
            let [r, g, b, a] = convert(pixel);
            match channels {
                1 => pixels.push(super::colour::grey(r, g, b)),
                3 => pixels.extend([r, g, b]),
                _ => pixels.extend([r, g, b, a]),
            }
        }
        Decoded {
            channels,
            pixels,
            ..self
        }
    }

    /// Returns the part of the picture in `area`, which must be within the picture.
    pub(super) fn cut(self, area: Area) -> Decoded {
        if area.is_whole(self.height, self.width) {
            return self;
        }
        let pixel_bytes = usize::from(self.channels);
        // The product is smaller than the picture that is already in memory.
        let mut pixels = vec![0; area.height as usize * area.width as usize * pixel_bytes];
        area.copy(&self.pixels, self.width, pixel_bytes, &mut pixels);
        Decoded {
            height: area.height,
            width: area.width,
            channels: self.channels,
            pixels,
        }
    }
}

/// Returns an error if the picture has more pixels than the limit.
pub(super) fn check_pixels(name: &str, height: u32, width: u32, pixels_max: u64) -> Result<(), String> {
    if u64::from(height) * u64::from(width) > pixels_max {
        return Err(format!(
            "the {name} has {width} x {height} pixels, more than the {pixels_max} allowed"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_added_and_dropped() {
        let pixel = |channels: u8, pixels: &[u8]| Decoded {
            height: 1,
            width: 1,
            channels,
            pixels: pixels.to_vec(),
        };
        let cases: [(u8, &[u8], u8, &[u8]); 8] = [
            (1, &[7], 3, &[7, 7, 7]),
            (1, &[7], 4, &[7, 7, 7, 255]),
            (2, &[7, 9], 4, &[7, 7, 7, 9]),
            (2, &[7, 9], 1, &[7]),
            (2, &[7, 9], 0, &[7, 9]),
            (3, &[1, 2, 3], 4, &[1, 2, 3, 255]),
            (4, &[1, 2, 3, 4], 3, &[1, 2, 3]),
            (4, &[255, 0, 0, 4], 1, &[76]),
        ];
        for (from, pixels, to, expected) in cases {
            assert_eq!(
                pixel(from, pixels).converted(to).pixels,
                expected,
                "{from} to {to}"
            );
        }
    }
}
