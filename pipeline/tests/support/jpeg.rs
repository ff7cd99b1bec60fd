//! A minimal JPEG encoder for pictures of grey blocks. Each block has 8 x 8 pixels of one brightness.

/// Encodes a grey picture of `rows` x `columns` blocks. `block` returns the brightness of each block.
pub(crate) fn encode(rows: u16, columns: u16, block: impl Fn(u16, u16) -> u8) -> Vec<u8> {
    let mut jpeg = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    jpeg.extend([1; 64]);
    jpeg.extend([0xff, 0xc0, 0, 11, 8]);
    jpeg.extend((rows * 8).to_be_bytes());
    jpeg.extend((columns * 8).to_be_bytes());
    jpeg.extend([1, 1, 0x11, 0]);
    // The Huffman table for differences of the first coefficient: twelve categories with four bits
    // each.
    jpeg.extend([
        0xff, 0xc4, 0, 31, 0x00, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    jpeg.extend(0..12);
    // The Huffman table for other coefficients: only the end of a block, with one bit.
    jpeg.extend([
        0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    jpeg.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0]);
    let mut bits = Vec::new();
    let mut previous = 0;
    for y in 0..rows {
        for x in 0..columns {
            let level = (i32::from(block(y, x)) - 128) * 8;
            let difference = level - previous;
            previous = level;
            let category = 32 - difference.unsigned_abs().leading_zeros();
            push(&mut bits, category, 4);
            let value = if difference < 0 {
                difference - 1
            } else {
                difference
            };
            push(&mut bits, value as u32, category);
            push(&mut bits, 0, 1);
        }
    }
    bits.resize(bits.len().next_multiple_of(8), true);
    for byte in bits.chunks(8) {
        let byte = byte.iter().fold(0u8, |byte, bit| byte << 1 | u8::from(*bit));
        jpeg.push(byte);
        if byte == 0xff {
            jpeg.push(0);
        }
    }
    jpeg.extend([0xff, 0xd9]);
    jpeg
}

fn push(bits: &mut Vec<bool>, value: u32, count: u32) {
    bits.extend((0..count).rev().map(|at| value >> at & 1 == 1));
}
