//! Memory that a thread keeps from one picture to the next, so that it is neither cleared nor handed back and
//! asked for again.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Stretches that a thread keeps: as many as a picture has components.
const KEPT_MAX: usize = 3;
/// Bytes of the largest one that is kept.
const KEPT_BYTES_MAX: usize = 4 << 20;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes that are kept when they are dropped.
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
        // Where the thread ends there is nothing to keep it in.
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
