//! The blocks of a scan: those that have a part in an area become pixels, the others are passed over, and what is behind the
//! last one that is needed is not read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::Range;

use crate::image::area::Area;

use super::bits::Bits;
use super::header::{Component, Header, ZIGZAG};
use super::huffman::extended;
use super::idct;

/// The pixels of one component, of the blocks that were needed.
pub(super) struct Plane {
    /// The first row and column that are there, in pixels of the component.
    top: usize,
    left: usize,
    /// Bytes of a row.
    stride: usize,
    pixels: Vec<u8>,
}

/// Which blocks of a component are needed.
struct Wanted {
    down: Range<u32>,
    across: Range<u32>,
}

impl Plane {
    /// Row `row` of the component, from column `from` on. Both are within what was needed.
    pub(super) fn row(&self, row: usize, from: usize) -> &[u8] {
        let begin = (row - self.top) * self.stride;
        &self.pixels[begin + from - self.left..begin + self.stride]
    }
}

impl Wanted {
    /// Of a component whose pixels are `each` of the picture's across and down, all that the pixels of `area` are made of.
    fn of(area: Area, size: (u32, u32), each: (u32, u32)) -> Wanted {
        let blocks = |from: u32, length: u32, side: u32, each: u32| {
            let last = side.div_ceil(each) - 1;
            let (mut first, mut end) = (from / each, (from + length - 1) / each);
            // Pixels between two of the component are made of both.
            if each > 1 {
                (first, end) = (first.saturating_sub(1), (end + 1).min(last));
            }
            first / 8..end / 8 + 1
        };
        Wanted {
            down: blocks(area.top, area.height, size.0, each.0),
            across: blocks(area.left, area.width, size.1, each.1),
        }
    }

    fn contains(&self, row: u32, column: u32) -> bool {
        self.down.contains(&row) && self.across.contains(&column)
    }
}

/// One component on its way.
struct Reading<'h> {
    component: &'h Component,
    /// Absent when no pixel of it is wanted.
    wanted: Option<Wanted>,
    plane: Plane,
    /// The first coefficient of the block before.
    previous: i16,
}

impl<'h> Reading<'h> {
    fn new(header: &Header<'_>, component: &'h Component, area: Area, is_wanted: bool) -> Reading<'h> {
        let most = header.most();
        let each = (most.1 / component.down, most.0 / component.across);
        let wanted = is_wanted.then(|| Wanted::of(area, (header.height, header.width), each));
        let (down, across) = match &wanted {
            Some(wanted) => (wanted.down.clone(), wanted.across.clone()),
            None => (0..0, 0..0),
        };
        let stride = across.len() * 8;
        Reading {
            component,
            wanted,
            plane: Plane {
                top: down.start as usize * 8,
                left: across.start as usize * 8,
                stride,
                // As many as the area's pixels, or a few blocks more, which the limit on pixels bounds.
                pixels: vec![0; stride * down.len() * 8],
            },
            previous: 0,
        }
    }

    /// Reads the block at `row` and `column` of the component. `None` when it is corrupt.
    #[inline(always)]
    fn read(&mut self, bits: &mut Bits<'_>, row: u32, column: u32) -> Option<()> {
        let wanted = self
            .wanted
            .as_ref()
            .is_some_and(|wanted| wanted.contains(row, column));
        self.previous = self.previous.wrapping_add(read_first(self.component, bits)?);
        if !wanted {
            return pass_over(self.component, bits);
        }
        let mut coefficients = [0; 64];
        coefficients[0] = self.previous;
        let is_flat = read_others(self.component, bits, &mut coefficients)?;
        let plane = &mut self.plane;
        let begin = (row as usize * 8 - plane.top) * plane.stride + (column as usize * 8 - plane.left);
        let rows = begin..begin + 7 * plane.stride + 8;
        let out = plane.pixels.get_mut(rows)?;
        if is_flat {
            idct::flat(self.previous, self.component.factors[0], out, plane.stride);
        } else {
            idct::block(&coefficients, &self.component.factors, out, plane.stride);
        }
        Some(())
    }
}

/// The planes of as many components as there are `wanted`, as far as `area` is made of them.
///
/// # Errors
/// What is corrupt, as text.
pub(super) fn decode(header: &Header<'_>, area: Area, wanted: u8) -> Result<Vec<Plane>, &'static str> {
    let components = header.components.iter().enumerate();
    let mut readings: Vec<Reading<'_>> = components
        .map(|(index, component)| Reading::new(header, component, area, index < usize::from(wanted)))
        .collect();
    let (across, down) = header.most();
    let columns = header.width.div_ceil(8 * across);
    let last_block = |reading: &Reading<'_>| {
        let end = reading.wanted.as_ref().map_or(0, |wanted| wanted.down.end);
        end.div_ceil(reading.component.down)
    };
    // Nothing below is needed.
    let rows = readings.iter().map(last_block).max().unwrap_or(0);
    debug_assert!(rows <= header.height.div_ceil(8 * down));
    let mut bits = Bits::new(header.scan);
    let mut until_restart = header.restart_interval;
    let mut restarts = 0u8;
    for row in 0..rows {
        for column in 0..columns {
            if header.restart_interval > 0 {
                if until_restart == 0 {
                    if !bits.restart(restarts) {
                        return Err("a restart marker is missing");
                    }
                    restarts = restarts.wrapping_add(1);
                    until_restart = header.restart_interval;
                    readings.iter_mut().for_each(|reading| reading.previous = 0);
                }
                until_restart -= 1;
            }
            read_unit(&mut readings, &mut bits, row, column).ok_or("its data is garbled")?;
            if bits.is_overdrawn() {
                return Err("it is cut short");
            }
        }
    }
    if !bits.ends() {
        return Err("it is cut short");
    }
    Ok(readings.into_iter().map(|reading| reading.plane).collect())
}

/// Reads one MCU: the blocks of all components that lie in the same place.
#[inline(always)]
fn read_unit(readings: &mut [Reading<'_>], bits: &mut Bits<'_>, row: u32, column: u32) -> Option<()> {
    for reading in readings {
        let (across, down) = (reading.component.across, reading.component.down);
        for y in 0..down {
            for x in 0..across {
                reading.read(bits, row * down + y, column * across + x)?;
            }
        }
    }
    Some(())
}

/// The difference of a block's first coefficient to that of the block before.
#[inline(always)]
fn read_first(component: &Component, bits: &mut Bits<'_>) -> Option<i16> {
    bits.refill();
    let whole = component.dc.whole(bits);
    if whole.bits > 0 && whole.run == 0 {
        bits.skip(whole.bits.into());
        return Some(whole.value);
    }
    match component.dc.symbol(bits)? {
        0 => Some(0),
        size @ 1..=11 => Some(extended(bits.take(size.into()), size.into())),
        _ => None,
    }
}

/// The other coefficients of a block, each where it belongs; whether there are none.
#[inline(always)]
fn read_others(component: &Component, bits: &mut Bits<'_>, coefficients: &mut [i16; 64]) -> Option<bool> {
    let mut at = 1usize;
    let mut is_flat = true;
    while at < 64 {
        bits.refill();
        let whole = component.ac.whole(bits);
        let value = if whole.bits > 0 {
            bits.skip(whole.bits.into());
            at += usize::from(whole.run);
            whole.value
        } else {
            let symbol = component.ac.symbol(bits)?;
            let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
            match (run, size) {
                // The end of the block.
                (0, 0) => break,
                (15, 0) => {
                    at += 16;
                    continue;
                }
                (_, 0) => return None,
                (_, _) => {}
            }
            at += run;
            extended(bits.take(size), size)
        };
        let place = *ZIGZAG.get(at)?;
        coefficients[usize::from(place & 63)] = value;
        is_flat = false;
        at += 1;
    }
    Some(is_flat)
}

/// Passes over the other coefficients of a block.
#[inline(always)]
fn pass_over(component: &Component, bits: &mut Bits<'_>) -> Option<()> {
    let mut at = 1usize;
    while at < 64 {
        bits.refill();
        let symbol = component.ac.symbol(bits)?;
        let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        match (run, size) {
            (0, 0) => return Some(()),
            (15, 0) => at += 16,
            (_, 0) => return None,
            (_, _) => {
                bits.skip(size);
                at += run + 1;
            }
        }
    }
    // A coefficient beyond the last is none.
    (at == 64).then_some(())
}
