//! Yardsticks with two processes and a piece of shared memory.
//!
//! - [`area`]: the memory, as words and as bells at which a process can sleep
//! - [`futex`]: the wake-up time of a sleeping process
//! - [`ring`]: descriptors in order from one process to the other

pub(crate) mod area;
pub(crate) mod futex;
pub(crate) mod ring;
