//! Huffman codes, looked up by their first bits.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::bits::Bits;

/// Bits by which codes are looked up; longer ones are searched.
const LOOKUP_BITS: u32 = 10;

/// The codes of one table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// By the next bits: the length of the code in bits, then the symbol. 0 = a longer code, or none.
    lookup: Vec<u16>,
    /// By the next bits, where code and value fit in them: the value, the zeros before it, and the bits of both. 0 = not so.
    whole: Vec<Whole>,
    /// Codes of each length from 1 on are below this, aligned to 16 bits; what is added to one for its symbol's place.
    limits: [(u32, i32); 16],
    symbols: Vec<u8>,
}

/// A coefficient that fits in the bits by which it is looked up.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Whole {
    pub(super) value: i16,
    /// Zeros in front of it.
    pub(super) run: u8,
    /// Bits of code and value; 0 = it does not fit.
    pub(super) bits: u8,
}

impl Table {
    /// The table with so many codes of 1 to 16 bits. `None` when there are more than there can be.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Option<Table> {
        let mut table = Table {
            lookup: vec![0; 1 << LOOKUP_BITS],
            whole: vec![Whole::default(); 1 << LOOKUP_BITS],
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
        let size = u32::from(symbol & 15);
        for (tail, place) in (first..first + (1 << spare)).enumerate() {
            // At most 10 bits.
            self.lookup[place] = (length as u16) << 8 | u16::from(symbol);
            if size > 0 && size <= spare {
                let bits = (tail >> (spare - size)) as u32;
                self.whole[place] = Whole {
                    value: extended(bits, size),
                    run: symbol >> 4,
                    bits: (length + size) as u8,
                };
            }
        }
    }

    /// The coefficient that comes next, if it is a short one. At least 16 bits are there.
    #[inline(always)]
    pub(super) fn whole(&self, bits: &Bits<'_>) -> Whole {
        let next = bits.peek(LOOKUP_BITS) as usize;
        self.whole.get(next).copied().unwrap_or_default()
    }

    /// Takes the next symbol. At least 16 bits are there. `None` when no code is so.
    #[inline(always)]
    pub(super) fn symbol(&self, bits: &mut Bits<'_>) -> Option<u8> {
        let next = bits.peek(LOOKUP_BITS) as usize;
        match self.lookup.get(next).copied().unwrap_or(0) {
            0 => self.long_symbol(bits),
            found => {
                bits.skip(u32::from(found >> 8));
                Some(found as u8)
            }
        }
    }

    #[cold]
    fn long_symbol(&self, bits: &mut Bits<'_>) -> Option<u8> {
        let next = bits.peek(16);
        for (length, (limit, offset)) in (1u32..).zip(self.limits).skip(LOOKUP_BITS as usize) {
            if next < limit {
                bits.skip(length);
                let place = (next >> (16 - length)) as i32 + offset;
                return self.symbols.get(usize::try_from(place).ok()?).copied();
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
