//! Packs with recognisable bytes.

use millstream::element::{HeapAlloc, Pack, SlotAlloc};

/// Returns a pack of elements of these lengths. Every byte is derived from its position and from `seed`.
pub(crate) fn pack(lens: &[u64], seed: u8) -> Pack {
    let strides: Vec<usize> = lens
        .iter()
        .map(|len| (*len as usize).next_multiple_of(64))
        .collect();
    let last_padding = lens
        .last()
        .map_or(0, |len| (*len as usize).next_multiple_of(64) - *len as usize);
    let mut slot = HeapAlloc
        .alloc(strides.iter().sum::<usize>() - last_padding)
        .expect("memory");
    for (place, byte) in slot.iter_mut().enumerate() {
        *byte = (place % 251) as u8 ^ seed;
    }
    Pack::from_parts(slot.freeze(), lens).expect("a valid pack")
}
