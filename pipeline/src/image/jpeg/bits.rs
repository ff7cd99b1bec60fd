//! The bits of a scan, up to the next marker. Reading beyond them yields zeros, and is noticed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// A reader of bits.
pub(super) struct Bits<'b> {
    bytes: &'b [u8],
    /// The next byte that is not in `buffer`.
    at: usize,
    /// The next bits, from the highest on; behind the real ones some that follow, or zeros.
    buffer: u64,
    /// How many of them are real; negative when more were taken than there are.
    real: i32,
}

impl<'b> Bits<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Bits<'b> {
        Bits {
            bytes,
            at: 0,
            buffer: 0,
            real: 0,
        }
    }

    /// Sees to it that 48 bits are there, unless the next marker is nearer.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        if self.real >= 48 {
            return;
        }
        if self.real >= 0
            && let Some(next) = self.bytes.get(self.at..self.at + 8)
            && let Ok(next) = next.try_into()
        {
            let next = u64::from_be_bytes(next);
            let zeros = !next;
            // Whether a byte is 0xff: a zero byte in the complement.
            let any = zeros.wrapping_sub(0x0101_0101_0101_0101) & next & 0x8080_8080_8080_8080;
            if any == 0 {
                let taken = (64 - self.real) / 8;
                // What does not make a whole byte is overwritten by the same bits the next time.
                self.buffer |= next >> self.real;
                self.at += taken as usize;
                self.real += taken * 8;
                return;
            }
        }
        self.refill_slowly();
    }

    #[cold]
    fn refill_slowly(&mut self) {
        while (0..=56).contains(&self.real) {
            let Some(byte) = self.bytes.get(self.at) else {
                return;
            };
            if *byte == 0xff {
                // A zero says that this is no marker.
                if self.bytes.get(self.at + 1) != Some(&0) {
                    return;
                }
                self.at += 1;
            }
            self.at += 1;
            self.buffer |= u64::from(*byte) << (56 - self.real);
            self.real += 8;
        }
    }

    /// The next bits, 1 to 32 of them.
    #[inline(always)]
    pub(super) fn peek(&self, count: u32) -> u32 {
        (self.buffer >> (64 - count)) as u32
    }

    /// Passes over bits, at most 32.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.buffer <<= count;
        self.real -= count as i32;
    }

    /// Takes bits, 1 to 15 of them.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> u32 {
        let bits = self.peek(count);
        self.skip(count);
        bits
    }

    /// Whether more was taken than there is.
    #[inline(always)]
    pub(super) fn is_overdrawn(&self) -> bool {
        self.real < 0
    }

    /// Goes on behind the restart marker of number `number`; `false` when it is not there.
    pub(super) fn restart(&mut self, number: u8) -> bool {
        // What was read ahead ends at the marker at the latest.
        let from = self.bytes.get(self.at..).unwrap_or_default();
        let filled = from.iter().take_while(|byte| **byte == 0xff).count();
        if filled == 0 || from.get(filled) != Some(&(0xd0 | number & 7)) {
            return false;
        }
        *self = Bits {
            at: self.at + filled + 1,
            ..Bits::new(self.bytes)
        };
        true
    }

    /// Whether a marker that ends the scan follows: a picture that is cut short has none.
    pub(super) fn ends(&self) -> bool {
        let mut rest = self.bytes.get(self.at..).unwrap_or_default();
        while let Some(found) = rest.iter().position(|byte| *byte == 0xff) {
            match rest.get(found + 1) {
                // Data, a fill byte, or a restart.
                Some(0 | 0xff | 0xd0..=0xd7) => rest = &rest[found + 1..],
                Some(_) => return true,
                None => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_come_in_order_whatever_the_bytes_are(
            bytes in prop::collection::vec(prop_oneof![Just(0xffu8), any::<u8>()], 0..60),
            counts in prop::collection::vec(1u32..16, 0..60),
        ) {
            let stuffed: Vec<u8> = bytes
                .iter()
                .flat_map(|byte| if *byte == 0xff { vec![0xff, 0] } else { vec![*byte] })
                .chain([0xff, 0xd9])
                .collect();
            let mut expected = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| u32::from(byte >> bit & 1)));
            let (mut bits, mut left) = (Bits::new(&stuffed), bytes.len() as i64 * 8);
            for count in counts {
                bits.refill();
                let value = (0..count).fold(0, |value, _| value << 1 | expected.next().unwrap_or(0));
                prop_assert_eq!(bits.take(count), value);
                left -= i64::from(count);
                prop_assert_eq!(bits.is_overdrawn(), left < 0);
            }
            prop_assert!(bits.ends());
        }
    }
}
