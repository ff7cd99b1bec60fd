//! Two processes and a piece of memory, with nothing around it.
//!
//! - [`area`]: the memory, as words and as bells that a process sleeps at
//! - [`futex`]: how long a sleeping process takes to wake up
//! - [`ring`]: descriptors in order from one process to the other

pub(crate) mod area;
pub(crate) mod futex;
pub(crate) mod ring;
