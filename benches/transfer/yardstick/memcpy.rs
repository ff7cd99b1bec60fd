//! The yardstick of a copy within memory, with buffers larger than the caches: the minimum cost of any copy.

use super::{Measured, Meter, unit_bytes};

/// Copies units between two buffers of 64 MiB.
pub(crate) fn measure(element_bytes: u64, mut meter: Meter) -> Measured {
    let unit = unit_bytes(element_bytes) as usize;
    let count = ((64 << 20) / unit).max(1);
    let source = vec![1_u8; unit * count];
    let mut target = vec![0_u8; unit * count];
    loop {
        for (to, from) in target.chunks_exact_mut(unit).zip(source.chunks_exact(unit)) {
            std::hint::black_box(&mut *to).copy_from_slice(std::hint::black_box(from));
            if let Some(measured) = meter.count(unit as u64) {
                return measured;
            }
        }
    }
}
