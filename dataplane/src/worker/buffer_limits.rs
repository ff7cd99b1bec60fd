//! The limits of a task's buffer. The buffer keeps them; this file does not know elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The limits of the elements that a task may hold ready.
#[derive(Debug, Clone, Copy)]
pub struct BufferLimits {
    /// Maximum number of elements, except for one group of a coordinated read; default 65 536.
    pub elements: u64,
    /// Maximum number of bytes, except for one element or group; default 2 MiB. The default is a few packs,
    /// which keep a fast network busy and fit the caches.
    pub bytes: u64,
}

impl Default for BufferLimits {
    fn default() -> Self {
        Self {
            elements: 1 << 16,
            bytes: 2 << 20,
        }
    }
}
