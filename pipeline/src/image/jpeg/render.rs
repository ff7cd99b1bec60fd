//! The conversion of component planes to pixels. Chroma components of half the size are upsampled, and all
//! colours are converted, with results equal to those of libjpeg, bit for bit.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::image::area::Area;
use crate::image::decoded::Decoded;

use super::header::Header;
use super::kernel::Kernel;
use super::scan::Plane;

/// Returns the pixels of `area` with 1 or 3 channels.
#[inline(always)]
pub(super) fn pixels<K: Kernel>(header: &Header<'_>, planes: &[Plane], area: Area, channels: u8) -> Decoded {
    let (top, left) = (area.top as usize, area.left as usize);
    let (height, width) = (area.height as usize, area.width as usize);
    let row_bytes = width * usize::from(channels);
    // The buffer has the size of the area, which the limit on pixels bounds.
    let mut pixels = vec![0; height * row_bytes];
    let mut rows = pixels.chunks_exact_mut(row_bytes);
    match planes {
        [y, cb, cr] if channels == 3 => {
            let (mut blue, mut red) = (Chroma::new(header, cb, area), Chroma::new(header, cr, area));
            for (row, out) in (top..).zip(rows.by_ref()) {
                let luma = y.row(row, left);
                K::colours(luma, blue.row(row), red.row(row), out.as_chunks_mut::<3>().0);
            }
        }
        [y, ..] => {
            for (row, out) in (top..).zip(rows.by_ref()) {
                let luma = y.row(row, left);
                if channels == 1 {
                    out.copy_from_slice(&luma[..width]);
                } else {
                    for (out, luma) in out.as_chunks_mut::<3>().0.iter_mut().zip(luma) {
                        *out = [*luma; 3];
                    }
                }
            }
        }
        [] => {}
    }
    Decoded {
        height: area.height,
        width: area.width,
        channels,
        pixels,
    }
}

/// Rows of a chroma component, upsampled to the full size.
struct Chroma<'p> {
    plane: &'p Plane,
    /// The number of the picture's pixels per pixel of the plane, across and down.
    each: (usize, usize),
    /// Whether upsampled pixels are interpolated from both neighbours. libjpeg does not interpolate pictures
    /// this narrow.
    is_smooth: bool,
    /// The last row of the plane.
    last_row: usize,
    /// The first column and the width of the area.
    left: usize,
    width: usize,
    /// The first and the last column of the plane that the area needs, and the last column of the plane.
    first: usize,
    end: usize,
    last: usize,
    /// The weighted sums of two rows, with a neighbour at either end.
    sums: Vec<i16>,
    wide: Vec<u8>,
}

impl<'p> Chroma<'p> {
    #[inline(always)]
    fn new(header: &Header<'_>, plane: &'p Plane, area: Area) -> Chroma<'p> {
        let (across, down) = header.most();
        let each = (across as usize, down as usize);
        let (left, width) = (area.left as usize, area.width as usize);
        let columns = (header.width as usize).div_ceil(each.0);
        let (first, end) = (left / each.0, (left + width - 1) / each.0);
        Chroma {
            plane,
            each,
            is_smooth: columns > 2,
            last_row: (header.height as usize).div_ceil(each.1) - 1,
            left,
            width,
            first,
            end,
            last: columns - 1,
            sums: vec![0; end - first + 3],
            wide: vec![0; (end - first + 1) * 2],
        }
    }

    /// Returns the area's part of row `row` of the picture.
    #[inline(always)]
    fn row(&mut self, row: usize) -> &[u8] {
        if self.each == (1, 1) {
            return &self.plane.row(row, self.left)[..self.width];
        }
        let near = row / self.each.1;
        if self.is_smooth {
            self.add_rows(row, near);
            if self.each.1 == 2 {
                widen::<4>(&self.sums, &mut self.wide, 8, 7);
            } else {
                widen::<2>(&self.sums, &mut self.wide, 1, 2);
            }
        } else {
            let pixels = self.plane.row(near, self.first);
            for (wide, pixel) in self.wide.as_chunks_mut::<2>().0.iter_mut().zip(pixels) {
                *wide = [*pixel; 2];
            }
        }
        let begin = self.left - self.first * 2;
        &self.wide[begin..begin + self.width]
    }

    /// Fills `sums` with the numbers to upsample: three times the nearest row plus the second nearest row, or
    /// the row itself.
    #[inline(always)]
    fn add_rows(&mut self, row: usize, near: usize) {
        // The columns beyond the first and the last column repeat these columns.
        let (from, to) = (self.first.saturating_sub(1), (self.end + 1).min(self.last));
        let own = &self.plane.row(near, from)[..=to - from];
        let skipped = usize::from(self.first == 0);
        let sums = &mut self.sums[skipped..][..own.len()];
        if self.each.1 == 2 {
            let far = if row.is_multiple_of(2) {
                near.saturating_sub(1)
            } else {
                (near + 1).min(self.last_row)
            };
            let far = self.plane.row(far, from);
            for ((sum, own), far) in sums.iter_mut().zip(own).zip(far) {
                *sum = 3 * i16::from(*own) + i16::from(*far);
            }
        } else {
            for (sum, own) in sums.iter_mut().zip(own) {
                *sum = i16::from(*own);
            }
        }
        let count = own.len();
        if skipped == 1 {
            self.sums[0] = self.sums[1];
        }
        if self.end == self.last {
            self.sums[skipped + count] = self.sums[skipped + count - 1];
        }
    }
}

/// Writes two pixels for each of `sums` except the first and the last: three shares of the sum and one share
/// of its neighbour. The pixels are divided by `2^SHIFT` after `left` or `right` is added; the two numbers
/// break ties in alternating directions.
#[inline(always)]
fn widen<const SHIFT: u32>(sums: &[i16], wide: &mut [u8], left: i16, right: i16) {
    let count = sums.len() - 2;
    let (before, own, after) = (&sums[..count], &sums[1..=count], &sums[2..]);
    let neighbours = before.iter().zip(own).zip(after);
    for (out, ((before, own), after)) in wide.as_chunks_mut::<2>().0.iter_mut().zip(neighbours) {
        *out = [
            ((3 * own + before + left) >> SHIFT) as u8,
            ((3 * own + after + right) >> SHIFT) as u8,
        ];
    }
}
