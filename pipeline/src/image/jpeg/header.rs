//! The header of a baseline JPEG, before its scan. For other kinds of JPEG and for corrupt headers, the
//! functions return `None`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::rc::Rc;

use super::huffman::Table;

/// The place in a block of every coefficient, in the order in which coefficients are stored.
pub(super) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// The header of a baseline JPEG of one scan, which is grey or YCbCr. The two chroma components have full
/// size, half the width, or half the width and height.
pub(in crate::image) struct Header<'b> {
    pub(super) height: u32,
    pub(super) width: u32,
    /// The components of the picture, either one or three.
    pub(super) components: Vec<Component>,
    /// The number of MCUs between two restart markers, or 0 if there are no restart markers.
    pub(super) restart_interval: u32,
    /// The bytes after the header.
    pub(super) scan: &'b [u8],
}

/// One component of a picture.
pub(super) struct Component {
    /// The number of blocks across an MCU: 1, or up to 2 for the first of three components.
    pub(super) across: u32,
    /// The number of blocks down an MCU.
    pub(super) down: u32,
    /// The quantisation factors in the order of a block, row by row.
    pub(super) factors: [i16; 64],
    pub(super) dc: Rc<Table>,
    pub(super) ac: Rc<Table>,
}

/// The entry of a component in the frame header.
struct Listed {
    id: u8,
    across: u32,
    down: u32,
    quantisation: u8,
}

/// The tables that were read so far, which the following segments use.
#[derive(Default)]
struct Tables {
    quantisation: [Option<[i16; 64]>; 4],
    dc: [Option<Rc<Table>>; 4],
    ac: [Option<Rc<Table>>; 4],
    restart_interval: u32,
    /// Whether the JFIF or Adobe marker states the colour space YCbCr. `None` without such a marker.
    is_ycc: Option<bool>,
}

impl<'b> Header<'b> {
    /// Reads the header of `bytes`. Returns `None` unless `bytes` is a supported baseline JPEG.
    pub(super) fn read(bytes: &'b [u8]) -> Option<Header<'b>> {
        let mut tables = Tables::default();
        let mut frame: Option<(u32, u32, Vec<Listed>)> = None;
        let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
        loop {
            let (marker, body, behind) = segment(rest)?;
            rest = behind;
            match marker {
                0xc0 if frame.is_none() => frame = Some(read_frame(body)?),
                // At the start of the scan, the frame must be known, and the scan must contain all its
                // components.
                0xda => {
                    let (height, width, listed) = frame?;
                    return Some(Header {
                        height,
                        width,
                        components: tables.components(&listed, body)?,
                        restart_interval: tables.restart_interval,
                        scan: rest,
                    });
                }
                0xdb => tables.read_quantisation(body)?,
                0xc4 => tables.read_huffman(body)?,
                0xdd => tables.restart_interval = u32::from(word(body, 0)?),
                0xe0 if body.starts_with(b"JFIF\0") => tables.is_ycc = Some(true),
                // The last byte of the Adobe marker states the colour space; a JFIF marker takes precedence.
                0xee if body.starts_with(b"Adobe") && tables.is_ycc.is_none() => {
                    tables.is_ycc = Some(*body.get(11)? == 1);
                }
                // Other application data and comments are ignored.
                0xe0..=0xef | 0xfe => {}
                _ => return None,
            }
        }
    }

    /// Returns the largest numbers of blocks across and down an MCU among the components.
    pub(super) fn most(&self) -> (u32, u32) {
        // The first component has the largest numbers.
        self.components
            .first()
            .map_or((1, 1), |first| (first.across, first.down))
    }
}

/// Splits off a segment. Returns its marker, its body, and the bytes after it.
fn segment(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let mut rest = bytes.strip_prefix(&[0xff])?;
    // Any number of fill bytes may precede a marker.
    while let Some(filled) = rest.strip_prefix(&[0xff]) {
        rest = filled;
    }
    let (marker, rest) = rest.split_first()?;
    let length = usize::from(word(rest, 0)?);
    Some((*marker, rest.get(2..length)?, rest.get(length..)?))
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Reads the height, the width and the components of a frame, without tables.
fn read_frame(body: &[u8]) -> Option<(u32, u32, Vec<Listed>)> {
    let (height, width) = (u32::from(word(body, 1)?), u32::from(word(body, 3)?));
    let listed = body.get(6..)?.as_chunks::<3>().0;
    let is_usual = *body.first()? == 8
        && height > 0
        && width > 0
        && usize::from(*body.get(5)?) == listed.len()
        && body.len() == 6 + 3 * listed.len();
    if !is_usual {
        return None;
    }
    let sampling: Vec<(u8, u8)> = listed.iter().map(|[_, both, _]| (both >> 4, both & 15)).collect();
    // The blocks of a single component are stored in rows, whatever sampling factors it states.
    let sampling: &[(u32, u32)] = match sampling[..] {
        [(1..=4, 1..=4)] => &[(1, 1)],
        [(1, 1), (1, 1), (1, 1)] => &[(1, 1), (1, 1), (1, 1)],
        [(2, 1), (1, 1), (1, 1)] => &[(2, 1), (1, 1), (1, 1)],
        [(2, 2), (1, 1), (1, 1)] => &[(2, 2), (1, 1), (1, 1)],
        _ => return None,
    };
    let components = listed
        .iter()
        .zip(sampling)
        .map(|([id, _, quantisation], (across, down))| Listed {
            id: *id,
            across: *across,
            down: *down,
            quantisation: *quantisation,
        });
    Some((height, width, components.collect()))
}

impl Tables {
    fn read_quantisation(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((head, rest)) = body.split_first() {
            // Quantisation factors of 16 bits do not occur in baseline pictures.
            let into = self.quantisation.get_mut(usize::from(*head))?;
            let mut factors = [0; 64];
            for (place, factor) in ZIGZAG.iter().zip(rest.get(..64)?) {
                factors[usize::from(*place)] = i16::from(*factor);
            }
            *into = Some(factors);
            body = &rest[64..];
        }
        Some(())
    }

    fn read_huffman(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((head, rest)) = body.split_first() {
            let counts: &[u8; 16] = rest.first_chunk()?;
            let total = counts.iter().map(|count| usize::from(*count)).sum::<usize>();
            let symbols = rest.get(16..16 + total)?;
            let class = match head >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return None,
            };
            *class.get_mut(usize::from(head & 15))? = Some(Rc::new(Table::new(counts, symbols)?));
            body = &rest[16 + total..];
        }
        Some(())
    }

    /// Returns the components of a frame with their tables. All components must be in `scan`.
    fn components(&self, frame: &[Listed], scan: &[u8]) -> Option<Vec<Component>> {
        let (count, rest) = scan.split_first()?;
        let (chosen, spectrum) = rest.split_at_checked(2 * usize::from(*count))?;
        let chosen = chosen.as_chunks::<2>().0;
        // The scan must contain all coefficients at full precision.
        if chosen.len() != frame.len() || spectrum != [0, 63, 0] {
            return None;
        }
        let component = |(listed, [id, both]): (&Listed, &[u8; 2])| {
            (listed.id == *id).then_some(())?;
            Some(Component {
                across: listed.across,
                down: listed.down,
                factors: (*self.quantisation.get(usize::from(listed.quantisation))?)?,
                dc: self.dc.get(usize::from(both >> 4))?.clone()?,
                ac: self.ac.get(usize::from(both & 15))?.clone()?,
            })
        };
        // Without a marker, the names of the components decide, as in libjpeg.
        let named_ycc = || frame.iter().map(|listed| listed.id).ne(*b"RGB");
        if frame.len() > 1 && !self.is_ycc.unwrap_or_else(named_ycc) {
            return None;
        }
        frame.iter().zip(chosen).map(component).collect()
    }
}
