//! Huffman codes, which are looked up by their first bits.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::bits::Bits;

/// Number of bits by which codes are looked up. Longer codes are searched.
const LOOKUP_BITS: u32 = 11;

/// The codes of one Huffman table.
#[derive(Debug)]
pub(super) struct Table {
    /// The entries for each value of the next bits.
    lookup: Box<[Found; 1 << LOOKUP_BITS]>,
    /// Two numbers for each length of code from 1 on. The first number is the upper bound of the codes,
    /// aligned to 16 bits; the second is the offset from a code to its symbol's place.
    limits: [(u32, i32); 16],
    symbols: Vec<u8>,
}

/// The entry for one value of the next bits. The entry is a coefficient if code and value fit in the bits, or
/// else a symbol, or empty.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    /// The coefficient. 0 means that the coefficient does not fit, or that the symbol has no coefficient.
    pub(super) value: i16,
    /// The symbol: the number of zeros before the coefficient, times 16, plus the number of bits of its
    /// value.
    pub(super) symbol: u8,
    /// The number of bits of the code, and of the value if the entry has it. 0 means that the code is longer
    /// than the entry, or invalid.
    pub(super) bits: u8,
}

impl Table {
    /// Returns the table with the given `counts` of codes of 1 to 16 bits. Returns `None` if there are more
    /// codes than possible.
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
                // The code of all ones is not permitted.
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

    /// Looks up the next bits without taking them. The buffer must have at least 11 bits.
    #[inline(always)]
    pub(super) fn find(&self, bits: &Bits<'_>) -> Found {
        // The index is always within the bounds, because `LOOKUP_BITS` bits have no larger value.
        self.lookup[(bits.peek(LOOKUP_BITS) as usize) & ((1 << LOOKUP_BITS) - 1)]
    }

    /// Returns the next symbol and the length of its code, for codes that are too long to be looked up.
    /// `next` must have at least 16 bits. Returns `None` if no code matches.
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

/// Returns the number that `size` bits, from 1 to 15, represent.
#[inline(always)]
pub(super) fn extended(bits: u32, size: u32) -> i16 {
    let value = bits as i32;
    // Numbers whose first bit is zero are negative.
    let negative = (value >> (size - 1)) - 1;
    (value + (negative & (1 - (1 << size)))) as i16
}
