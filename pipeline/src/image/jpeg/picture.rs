//! A JPEG of any kind, and the choice of its decoder.

use crate::image::area::Area;
use crate::image::decoded::Decoded;

use super::header::Header;
use super::kernel::Plain;
use super::other::Other;
use super::pixels;

/// A JPEG whose header has been read.
pub(in crate::image) enum Jpeg<'b> {
    Baseline(Box<Header<'b>>),
    Other(Other<'b>),
}

impl<'b> Jpeg<'b> {
    pub(in crate::image) fn open(bytes: &'b [u8]) -> Result<Jpeg<'b>, String> {
        if let Some(header) = Header::read(bytes) {
            return Ok(Jpeg::Baseline(Box::new(header)));
        }
        Other::open(bytes).map(Jpeg::Other)
    }

    /// Returns the height and the width in pixels.
    pub(in crate::image) fn size(&self) -> (u32, u32) {
        match self {
            Jpeg::Baseline(header) => (header.height, header.width),
            Jpeg::Other(other) => other.size(),
        }
    }

    /// Decodes the pixels of `area`, which must be within the picture.
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
            Jpeg::Other(other) => other.decode(area, channels),
        }
    }
}

/// Decodes the pixels of `area` with 1 or 3 channels, in the fastest form that this processor supports.
fn decoded(header: &Header<'_>, area: Area, wanted: u8) -> Result<Decoded, &'static str> {
    #[cfg(target_arch = "x86_64")]
    if let Some(decoded) = super::wide::pixels(header, area, wanted) {
        return decoded;
    }
    pixels::pixels::<Plain>(header, area, wanted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::image::jpeg::other::SCANS_MAX;

    /// Test pictures of 53 x 37 pixels, of all kinds.
    const PICTURES: [&[u8]; 8] = [
        include_bytes!("../../../tests/data/images/baseline-420.jpg"),
        include_bytes!("../../../tests/data/images/baseline-422.jpg"),
        include_bytes!("../../../tests/data/images/baseline-444.jpg"),
        include_bytes!("../../../tests/data/images/grey.jpg"),
        include_bytes!("../../../tests/data/images/low-quality.jpg"),
        include_bytes!("../../../tests/data/images/optimised.jpg"),
        include_bytes!("../../../tests/data/images/restarts.jpg"),
        include_bytes!("../../../tests/data/images/progressive.jpg"),
    ];
    const PROGRESSIVE: usize = 7;

    fn decoded(bytes: &[u8], area: Option<Area>, channels: u8) -> Result<Decoded, String> {
        let jpeg = Jpeg::open(bytes)?;
        let (height, width) = jpeg.size();
        if u64::from(height) * u64::from(width) > 100_000 {
            return Err("too large".to_owned());
        }
        let whole = Area::whole(height, width);
        let area = area.filter(|area| area.fits(height, width)).unwrap_or(whole);
        jpeg.decode(area, channels)
    }

    fn areas() -> impl Strategy<Value = Area> {
        (0u32..37, 0u32..53).prop_flat_map(|(top, left)| {
            (1..=37 - top, 1..=53 - left).prop_map(move |(height, width)| Area {
                top,
                left,
                height,
                width,
            })
        })
    }

    proptest! {
        #[test]
        fn an_area_is_that_of_the_whole(
            picture in 0..PICTURES.len(), area in areas(), channels in prop::sample::select(vec![0u8, 1, 3]),
        ) {
            let bytes = PICTURES[picture];
            let found = decoded(bytes, Some(area), channels).unwrap();
            prop_assert_eq!(&found, &decoded(bytes, None, channels).unwrap().cut(area));
        }

        #[test]
        fn a_mutated_jpeg_decodes_or_fails(
            picture in 0..PICTURES.len(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in prop::option::of(any::<prop::sample::Index>()),
            area in areas(),
            channels in prop::sample::select(vec![0u8, 1, 3]),
        ) {
            let mut bytes = PICTURES[picture].to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            if let Ok(found) = decoded(&bytes, Some(area), channels) {
                let pixels = found.height as usize * found.width as usize;
                prop_assert_eq!(found.pixels.len(), pixels * usize::from(found.channels));
            }
        }
    }

    #[test]
    fn a_truncated_picture_is_an_error() {
        for (number, bytes) in PICTURES.iter().enumerate() {
            for length in 0..bytes.len() - 1 {
                for area in [Area::whole(37, 53), Area::whole(1, 1)] {
                    let refused = decoded(&bytes[..length], Some(area), 0).unwrap_err();
                    assert!(
                        refused.starts_with("the JPEG is corrupt: "),
                        "{number} cut to {length}: {refused}"
                    );
                    assert!(refused.len() > 25, "{refused}");
                }
            }
        }
    }

    #[test]
    fn too_many_scans_are_refused() {
        let progressive = PICTURES[PROGRESSIVE];
        // The first scan, which refines the first coefficients, is repeated many times.
        let scan = progressive
            .windows(2)
            .position(|two| two == [0xff, 0xda])
            .unwrap();
        let next = progressive[scan + 2..]
            .windows(2)
            .position(|two| two[0] == 0xff && two[1] >= 0xc0 && two[1] != 0xff);
        let end = scan + 2 + next.unwrap();
        let again = progressive[scan..end].repeat(SCANS_MAX + 1);
        let bytes = [&progressive[..scan], &again, &progressive[scan..]].concat();
        let refused = decoded(&bytes, None, 0).unwrap_err();
        assert!(
            refused.contains("scans") || refused.contains("progression"),
            "{refused}"
        );
    }
}
