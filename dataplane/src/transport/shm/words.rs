//! Atomic words of 64 bits for shared memory. A peer can write wrong values, but cannot cause a data race.
//!
//! The module owns the choice of atomics: the standard library's for production, and Loom's for the models.
//! The other modules are generic over the choice, so that the models run the production code. The meaning of
//! the words, and the origin of their memory, are unknown to this module.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A word that several threads or processes read and write.
pub trait Word: Send + Sync {
    /// Returns the value of the word.
    fn load(&self, order: Ordering) -> u64;

    /// Sets the value of the word.
    fn store(&self, value: u64, order: Ordering);

    /// Sets the value of the word and returns the old value.
    fn swap(&self, value: u64, order: Ordering) -> u64;

    /// Adds to the value of the word, wrapping around, and returns the old value.
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;

    /// Executes a sequentially consistent fence. If two threads each write a word, fence, and read the
    /// other's word, at least one thread sees the other's write.
    fn fence();
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    #[inline]
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.swap(value, order)
    }

    #[inline]
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_add(value, order)
    }

    #[inline]
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

#[cfg(feature = "loom")]
impl Word for loom::sync::atomic::AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.swap(value, order)
    }

    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_add(value, order)
    }

    fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// An area of words that lives as long as this value: a mapping shared with a peer, or a test's memory.
pub trait Words {
    /// The type of the words.
    type Word: Word;

    /// Returns the area, the same in every call.
    fn words(&self) -> &[Self::Word];
}

impl<W: Word> Words for [W] {
    type Word = W;

    #[inline]
    fn words(&self) -> &[W] {
        self
    }
}

impl<W: Word> Words for Vec<W> {
    type Word = W;

    fn words(&self) -> &[W] {
        self
    }
}

impl<T: Words + ?Sized> Words for &T {
    type Word = T::Word;

    #[inline]
    fn words(&self) -> &[T::Word] {
        (**self).words()
    }
}

impl<T: Words + ?Sized> Words for Arc<T> {
    type Word = T::Word;

    #[inline]
    fn words(&self) -> &[T::Word] {
        (**self).words()
    }
}
