//! The bits of a scan. Stuffing bytes, which mark a 0xff byte as data, are removed first, so that the bit
//! reader needs no checks. Reading beyond the end yields zeros and is detected.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Number of zero bytes after the last byte of a stretch, so that eight bytes can always be read at once.
const PADDING: usize = 8;
/// Number of bytes that are searched at once.
const CHUNK: usize = 32;

/// The bytes between a header and the marker that ends them, divided into stretches by restart markers.
pub(super) struct Scan {
    bytes: Vec<u8>,
    /// The end of each stretch in `bytes`, before its padding, and the number of the restart marker after it.
    /// The last stretch has no restart marker.
    ends: Vec<(usize, Option<u8>)>,
    /// Whether a marker ends the last stretch. A truncated picture has no such marker.
    is_complete: bool,
}

/// A reader of the bits of one stretch after the other.
pub(super) struct Bits<'b> {
    scan: &'b Scan,
    /// The index of the stretch that is read.
    stretch: usize,
    /// The bytes of the stretch, with the padding.
    bytes: &'b [u8],
    /// The index of the next byte that is not in `buffer`. The index continues to increase beyond the end of
    /// the stretch.
    at: usize,
    /// The next bits, from the highest bit on. Further bits may follow the bits that count.
    buffer: u64,
    /// The number of bits in `buffer` that count.
    count: u32,
}

impl Scan {
    /// Divides `bytes` into stretches.
    #[inline(always)]
    pub(super) fn new(bytes: &[u8]) -> Scan {
        let mut scan = Scan {
            bytes: Vec::with_capacity(bytes.len() + PADDING),
            ends: Vec::new(),
            is_complete: false,
        };
        let mut at = 0;
        while let Some(chunk) = bytes.get(at..at + CHUNK) {
            // The loop has no early exit, so that the compiler reduces it to a few instructions.
            if chunk.iter().fold(false, |any, byte| any | (*byte == 0xff)) {
                at = scan.take(bytes, at, at + CHUNK);
                if scan.is_complete {
                    return scan;
                }
            } else {
                scan.bytes.extend_from_slice(chunk);
                at += CHUNK;
            }
        }
        scan.take(bytes, at, bytes.len());
        if !scan.is_complete {
            scan.end(None);
        }
        scan
    }

    /// Takes bytes one by one from `at` on, at least up to `upto`. Returns the index at which it stopped.
    fn take(&mut self, bytes: &[u8], mut at: usize, upto: usize) -> usize {
        while at < upto {
            let byte = bytes[at];
            at += 1;
            if byte != 0xff {
                self.bytes.push(byte);
                continue;
            }
            match bytes.get(at) {
                Some(0) => {
                    self.bytes.push(0xff);
                    at += 1;
                }
                // The byte is a fill byte, and the marker follows it.
                Some(0xff) => {}
                Some(marker @ 0xd0..=0xd7) => {
                    self.end(Some(marker & 7));
                    at += 1;
                }
                Some(_) => {
                    self.is_complete = true;
                    self.end(None);
                    return at;
                }
                None => return at,
            }
        }
        at
    }

    fn end(&mut self, restart: Option<u8>) {
        self.ends.push((self.bytes.len(), restart));
        self.bytes.extend([0; PADDING]);
    }

    /// Returns whether a marker ends the scan.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the bytes of a stretch, with the padding.
    fn stretch(&self, number: usize) -> &[u8] {
        let begin = match number.checked_sub(1).and_then(|before| self.ends.get(before)) {
            Some((end, _)) => end + PADDING,
            None => 0,
        };
        let end = self.ends.get(number).map_or(begin, |(end, _)| end + PADDING);
        self.bytes.get(begin..end).unwrap_or_default()
    }
}

impl<'b> Bits<'b> {
    pub(super) fn new(scan: &'b Scan) -> Bits<'b> {
        Bits {
            scan,
            stretch: 0,
            bytes: scan.stretch(0),
            at: 0,
            buffer: 0,
            count: 0,
        }
    }

    /// Fills the buffer to at least 56 bits.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        if let Some(next) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            // The bits of an incomplete byte are overwritten by equal bits at the next refill.
            self.buffer |= u64::from_be_bytes(*next) >> self.count;
        }
        self.at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
    }

    /// Returns the next `count` bits, from 1 to 32, without taking them.
    #[inline(always)]
    pub(super) fn peek(&self, count: u32) -> u32 {
        (self.buffer >> (64 - count)) as u32
    }

    /// Skips `count` bits. The buffer must have at least `count` bits.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.buffer <<= count;
        self.count -= count;
    }

    /// Takes the next `count` bits, from 1 to 15.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> u32 {
        let bits = self.peek(count);
        self.skip(count);
        bits
    }

    /// Returns the number of bits of the stretch that are left. The number is negative if more bits were
    /// taken than exist.
    #[inline(always)]
    fn left(&self) -> i64 {
        let end = self.bytes.len() as i64 - PADDING as i64;
        (end - self.at as i64) * 8 + i64::from(self.count)
    }

    /// Returns whether more bits were taken than the stretch has.
    #[inline(always)]
    pub(super) fn is_overdrawn(&self) -> bool {
        self.left() < 0
    }

    /// Continues after the restart marker `number`. Returns `false` if the stretch does not end here with
    /// this restart marker.
    pub(super) fn restart(&mut self, number: u8) -> bool {
        let ends_here = (0..8).contains(&self.left());
        let restart = self.scan.ends.get(self.stretch).and_then(|(_, restart)| *restart);
        if !ends_here || restart != Some(number & 7) {
            return false;
        }
        self.stretch += 1;
        *self = Bits {
            stretch: self.stretch,
            bytes: self.scan.stretch(self.stretch),
            ..Bits::new(self.scan)
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stuffed(bytes: &[u8]) -> Vec<u8> {
        let each = |byte: &u8| if *byte == 0xff { vec![0xff, 0] } else { vec![*byte] };
        bytes.iter().flat_map(each).collect()
    }

    fn bytes(count: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![1 => Just(0xffu8), 6 => any::<u8>()], 0..count)
    }

    proptest! {
        #[test]
        fn bits_come_in_order_whatever_the_bytes_are(
            bytes in bytes(200), counts in prop::collection::vec(1u32..16, 0..150), is_cut: bool,
        ) {
            let end: &[u8] = if is_cut { &[] } else { &[0xff, 0xd9] };
            let stuffed = [&stuffed(&bytes), end].concat();
            let mut expected = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| u32::from(byte >> bit & 1)));
            let scan = Scan::new(&stuffed);
            prop_assert_eq!(scan.is_complete(), !is_cut);
            let (mut bits, mut left) = (Bits::new(&scan), bytes.len() as i64 * 8);
            for count in counts {
                bits.refill();
                let value = (0..count).fold(0, |value, _| value << 1 | expected.next().unwrap_or(0));
                prop_assert_eq!(bits.take(count), value);
                left -= i64::from(count);
                prop_assert_eq!(bits.is_overdrawn(), left < 0);
            }
        }

        #[test]
        fn restarts_end_stretches(
            stretches in prop::collection::vec(bytes(90), 1..12), fill in 0usize..3, wrong: u8, early: bool,
        ) {
            let mut all = Vec::new();
            for (number, bytes) in stretches.iter().enumerate() {
                all.extend(stuffed(bytes));
                all.extend(vec![0xff; fill]);
                all.extend([0xff, 0xd0 | number as u8 & 7]);
            }
            all.extend([0xff, 0xd9]);
            let scan = Scan::new(&all);
            let mut bits = Bits::new(&scan);
            for (number, bytes) in stretches.iter().enumerate() {
                for byte in bytes {
                    if early {
                        prop_assert!(!bits.restart(number as u8));
                    }
                    bits.refill();
                    prop_assert_eq!(bits.take(8), u32::from(*byte));
                }
                if wrong & 7 != number as u8 & 7 {
                    prop_assert!(!bits.restart(wrong));
                }
                prop_assert!(bits.restart(number as u8));
            }
            prop_assert!(!bits.restart(stretches.len() as u8));
        }
    }
}
