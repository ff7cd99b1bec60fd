//! The blocks of a scan. Blocks that contribute to an area become pixels, and other blocks are skipped. No
//! data after the last needed block is read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::Range;

use crate::image::area::Area;

use super::bits::{Bits, Scan};
use super::header::{Component, Header, ZIGZAG};
use super::huffman::{Table, extended};
use super::idct;
use super::kernel::Kernel;
use super::spare::{self, Spare};

/// The pixels of the needed blocks of one component.
pub(super) struct Plane {
    /// The first row and column of the plane, in pixels of the component.
    top: usize,
    left: usize,
    /// The number of bytes of a row.
    stride: usize,
    pixels: Spare,
}

/// The range of blocks of a component that an area needs.
struct Wanted {
    down: Range<u32>,
    across: Range<u32>,
}

impl Plane {
    /// Returns row `row` of the component, from column `from` on. The row and the column must be within the
    /// needed blocks.
    pub(super) fn row(&self, row: usize, from: usize) -> &[u8] {
        let begin = (row - self.top) * self.stride;
        &self.pixels[begin + from - self.left..begin + self.stride]
    }
}

impl Wanted {
    /// Returns the blocks that the pixels of `area` depend on, for a component with one value for `each`
    /// pixels across and down.
    fn of(area: Area, size: (u32, u32), each: (u32, u32)) -> Wanted {
        let blocks = |from: u32, length: u32, side: u32, each: u32| {
            let last = side.div_ceil(each) - 1;
            let (mut first, mut end) = (from / each, (from + length - 1) / each);
            // Pixels between two pixels of the component are interpolated from both.
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

/// One component while it is read.
struct Reading<'h> {
    component: &'h Component,
    /// The needed blocks, or `None` if no pixel of the component is needed.
    wanted: Option<Wanted>,
    plane: Plane,
    /// The first coefficient of the previous block.
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
                // The plane is at most a few blocks larger than the area, which the limit on pixels bounds.
                pixels: spare::take(stride * down.len() * 8),
            },
            previous: 0,
        }
    }

    /// Reads the block at `row` and `column` of the component. Returns `None` if the block is corrupt.
    #[inline(always)]
    fn read<K: Kernel>(&mut self, bits: &mut Bits<'_>, row: u32, column: u32) -> Option<()> {
        let wanted = self
            .wanted
            .as_ref()
            .is_some_and(|wanted| wanted.contains(row, column));
        self.previous = self.previous.wrapping_add(read_first(&self.component.dc, bits)?);
        if !wanted {
            return pass_over(&self.component.ac, bits);
        }
        let mut coefficients = [0; 64];
        coefficients[0] = self.previous;
        let is_flat = read_others(&self.component.ac, bits, &mut coefficients)?;
        let plane = &mut self.plane;
        let begin = (row as usize * 8 - plane.top) * plane.stride + (column as usize * 8 - plane.left);
        let rows = begin..begin + 7 * plane.stride + 8;
        let out = plane.pixels.get_mut(rows)?;
        if is_flat {
            idct::flat(self.previous, self.component.factors[0], out, plane.stride);
        } else {
            K::block(&coefficients, &self.component.factors, out, plane.stride);
        }
        Some(())
    }
}

/// Decodes the planes of the first `wanted` components, as far as `area` needs them.
///
/// # Errors
/// A text that states which part of the scan is corrupt.
#[inline(always)]
pub(super) fn decode<K: Kernel>(
    header: &Header<'_>,
    area: Area,
    wanted: u8,
) -> Result<Vec<Plane>, &'static str> {
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
    // The area needs no rows below these rows.
    let rows = readings.iter().map(last_block).max().unwrap_or(0);
    debug_assert!(rows <= header.height.div_ceil(8 * down));
    let scan = Scan::new(header.scan);
    if !scan.is_complete() {
        return Err("it is truncated");
    }
    let mut bits = Bits::new(&scan);
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
            read_unit::<K>(&mut readings, &mut bits, row, column)
                .ok_or("its entropy-coded data is invalid")?;
            if bits.is_overdrawn() {
                return Err("it is truncated");
            }
        }
    }
    Ok(readings.into_iter().map(|reading| reading.plane).collect())
}

/// Reads one MCU: the blocks of all components at one place.
#[inline(always)]
fn read_unit<K: Kernel>(
    readings: &mut [Reading<'_>],
    bits: &mut Bits<'_>,
    row: u32,
    column: u32,
) -> Option<()> {
    for reading in readings {
        let (across, down) = (reading.component.across, reading.component.down);
        for y in 0..down {
            for x in 0..across {
                reading.read::<K>(bits, row * down + y, column * across + x)?;
            }
        }
    }
    Some(())
}

/// Reads the difference between the first coefficient of a block and that of the previous block.
#[inline(always)]
fn read_first(table: &Table, bits: &mut Bits<'_>) -> Option<i16> {
    bits.refill();
    let found = table.find(bits);
    if found.value != 0 {
        bits.skip(found.bits.into());
        // A first coefficient has no run of zeros, so its symbol is the size.
        return (found.symbol <= 11).then_some(found.value);
    }
    match symbol(table, bits)? {
        0 => Some(0),
        size @ 1..=11 => Some(extended(bits.take(size.into()), size.into())),
        _ => None,
    }
}

/// Reads the other coefficients of a block to their places. Returns whether the block has no other
/// coefficients.
#[inline(always)]
fn read_others(table: &Table, bits: &mut Bits<'_>, coefficients: &mut [i16; 64]) -> Option<bool> {
    let mut is_flat = true;
    let store = |at: usize, value: i16| {
        is_flat = false;
        // A coefficient beyond the last place is stored at place 0; `walk` then reports the error.
        let place = ZIGZAG.get(at).copied().unwrap_or(0);
        coefficients[usize::from(place & 63)] = value;
    };
    walk(table, bits, store)?;
    Some(is_flat)
}

/// Skips the other coefficients of a block.
#[inline(always)]
fn pass_over(table: &Table, bits: &mut Bits<'_>) -> Option<()> {
    walk(table, bits, |_, _| {})
}

/// Calls `store` with the place and the value of every coefficient of a block except the first, in the stored
/// order. Returns `None` for an invalid code, or for a coefficient beyond the last place. `store` may be
/// called with such a place.
#[inline(always)]
fn walk(table: &Table, bits: &mut Bits<'_>, mut store: impl FnMut(usize, i16)) -> Option<()> {
    let mut at = 1usize;
    loop {
        bits.refill();
        // A refill provides at least 56 bits. A coefficient in the lookup table takes at most 11 bits, so
        // that 34 bits are left for the third coefficient. Any other coefficient takes at most 31 bits, and a
        // refill follows it.
        for _ in 0..3 {
            let found = table.find(bits);
            let run = usize::from(found.symbol >> 4);
            if found.value != 0 {
                bits.skip(found.bits.into());
                at += run;
                store(at, found.value);
                at += 1;
            } else {
                let symbol = symbol(table, bits)?;
                let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
                match (run, size) {
                    // The symbol ends the block.
                    (0, 0) => return (at <= 64).then_some(()),
                    (15, 0) => at += 16,
                    (_, 0) => return None,
                    (_, _) => {
                        at += run;
                        store(at, extended(bits.take(size), size));
                        at += 1;
                    }
                }
                bits.refill();
            }
            if at >= 64 {
                return (at == 64).then_some(());
            }
        }
    }
}

/// Takes the next symbol. The caller knows that the lookup table has no value for the symbol.
#[inline(always)]
fn symbol(table: &Table, bits: &mut Bits<'_>) -> Option<u8> {
    let found = table.find(bits);
    if found.bits > 0 {
        bits.skip(found.bits.into());
        return Some(found.symbol);
    }
    let (symbol, length) = table.search(bits.peek(16))?;
    bits.skip(length);
    Some(symbol)
}
