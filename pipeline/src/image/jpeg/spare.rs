//! Memory that a thread keeps from one picture to the next picture. The memory is neither cleared nor
//! returned to the allocator in between.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Maximum number of buffers that a thread keeps: one for each component of a picture.
const KEPT_MAX: usize = 3;
/// Maximum bytes of a buffer that is kept.
const KEPT_BYTES_MAX: usize = 4 << 20;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer that its thread keeps when the buffer is dropped.
pub(super) struct Spare(Vec<u8>);

/// Takes a buffer of `count` bytes of arbitrary content.
pub(super) fn take(count: usize) -> Spare {
    let mut bytes = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
    bytes.resize(count, 0);
    Spare(bytes)
}

impl Deref for Spare {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Spare {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        // While the thread ends, the buffer cannot be kept.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < KEPT_MAX && bytes.capacity() <= KEPT_BYTES_MAX {
                kept.push(bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_few_small_buffers() {
        let place = take(1000).as_ptr();
        assert_eq!(take(500).as_ptr(), place, "it is taken again");
        drop([take(1), take(2), take(3), take(4)]);
        assert_eq!(KEPT.with_borrow(Vec::len), KEPT_MAX);
        KEPT.with_borrow_mut(Vec::clear);
        drop(take(KEPT_BYTES_MAX + 1));
        assert_eq!(KEPT.with_borrow(Vec::len), 0);
    }
}
