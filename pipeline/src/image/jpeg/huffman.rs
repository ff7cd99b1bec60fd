//! Huffman codes, looked up by their first bits.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::bits::Bits;

/// Bits by which codes are looked up; longer ones are searched.
const LOOKUP_BITS: u32 = 11;

/// The codes of one table.
#[derive(Debug)]
pub(super) struct Table {
    /// Table of codes by the next bits.
    lookup: Box<[Found; 1 << LOOKUP_BITS]>,
    /// Codes of each length from 1 on are below this, aligned to 16 bits; what is added to one for its
    /// symbol's place.
    limits: [(u32, i32); 16],
    symbols: Vec<u8>,
}

/// Entry of the table for the next bits: a coefficient if code and value fit in them, else the symbol, or
/// nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    /// The coefficient; 0 = it does not fit, or the symbol stands for none.
    pub(super) value: i16,
    /// The symbol: zeros in front of the coefficient, times 16, and the bits of its value.
    pub(super) symbol: u8,
    /// Bits of the code, and of the value if it is here; 0 = the code does not fit, or is none.
    pub(super) bits: u8,
}

impl Table {
    /// The table with so many codes of 1 to 16 bits. `None` when there are more than there can be.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Option<Table> {
        let mut table = Table {
            lookup: Box::new([Found::default(); 1 << LOOKUP_BITS]),
            limits: [(0, 0); 16],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut place) = (0u32, 0usize);
        for (length, count) in (1u32..).zip(counts) {
            let offset = place as i32 - code as i32;
            for _ in 0..*count {
                // The code of all ones is none.
                if code + 1 >= 1 << length {
                    return None;
                }
                table.enter(code, length, *symbols.get(place)?);
                code += 1;
                place += 1;
            }
            table.limits[length as usize - 1] = (code << (16 - length), offset);
            code <<= 1;
        }
        Some(table)
    }

    fn enter(&mut self, code: u32, length: u32, symbol: u8) {
        let Some(spare) = LOOKUP_BITS.checked_sub(length) else {
            return;
        };
        let first = (code << spare) as usize;
        let places = &mut self.lookup[first..first + (1 << spare)];
        let size = u32::from(symbol & 15);
        let Some(rest) = spare.checked_sub(size).filter(|_| size > 0) else {
            places.fill(Found {
                value: 0,
                symbol,
                bits: length as u8,
            });
            return;
        };
        for (bits, places) in places.chunks_exact_mut(1 << rest).enumerate() {
            places.fill(Found {
                value: extended(bits as u32, size),
                symbol,
                bits: (length + size) as u8,
            });
        }
    }

    /// Looks up the next bits without consuming them. At least 11 bits must be there.
    #[inline(always)]
    pub(super) fn find(&self, bits: &Bits<'_>) -> Found {
        // Never out of bounds: so many bits are no more.
        self.lookup[(bits.peek(LOOKUP_BITS) as usize) & ((1 << LOOKUP_BITS) - 1)]
    }

    /// The symbol that comes next and the bits of its code, where it is too long to be found. At least 16
    /// bits are there. `None` when no code is so.
    #[cold]
    #[inline(never)]
    pub(super) fn search(&self, next: u32) -> Option<(u8, u32)> {
        for (length, (limit, offset)) in (1u32..).zip(self.limits).skip(LOOKUP_BITS as usize) {
            if next < limit {
                let place = (next >> (16 - length)) as i32 + offset;
                let symbol = self.symbols.get(usize::try_from(place).ok()?)?;
                return Some((*symbol, length));
            }
        }
        None
    }
}

/// The number that `size` bits, 1 to 15, stand for.
#[inline(always)]
pub(super) fn extended(bits: u32, size: u32) -> i16 {
    let value = bits as i32;
    // Those that begin with a zero are negative.
    let negative = (value >> (size - 1)) - 1;
    (value + (negative & (1 - (1 << size)))) as i16
}
