//! 64-bit atomics for shared memory: a peer's writes can be wrong, but never a data race.
//!
//! Owns the choice of atomics: the standard library's, and Loom's for its models. Code above is generic over
//! it, so that both are compiled side by side and the models run what production runs. Refuses to know what
//! the words mean, and where their memory comes from.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// One word that several threads or processes read and write.
pub trait Word: Send + Sync {
    /// The value.
    fn load(&self, order: Ordering) -> u64;

    /// Sets it.
    fn store(&self, value: u64, order: Ordering);

    /// Sets it and says what it was.
    fn swap(&self, value: u64, order: Ordering) -> u64;

    /// Adds to it, wrapping around, and says what it was.
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;

    /// A sequentially consistent fence: of two threads that each write one word, fence and read the other's
    /// word, at least one sees what the other wrote.
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

/// An area of words, held for as long as this value lives: a mapping that is shared with a peer, or memory of
/// tests.
pub trait Words {
    /// The type of its words.
    type Word: Word;

    /// The area, each time the same.
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
