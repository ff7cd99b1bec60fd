//! Yardsticks to compare the service with: the same machine and the same run, with less work.
//!
//! - [`raw_quic`]: bare quinn with the same configuration
//! - [`raw_tcp`]: plaintext TCP
//! - [`unix_socket`]: a copy through the kernel between processes of one host
//! - `shared`: memory that two processes share, with nothing around it
//! - `iceoryx2`: the same hand-over by another library, where this program was built with it
//! - [`memcpy`]: a copy in memory
//! - [`touch_loop`]: every byte written and read in one process
//! - [`mod@unit`]: what travels as one, and through which memory
//! - [`meter`]: what all of them count with
//!
//! Each sender is a child process that says where it is met, then sends until its reader goes away; those of
//! one process have none.

#[cfg(all(target_os = "linux", feature = "iceoryx2"))]
pub(crate) mod iceoryx2;
pub(crate) mod memcpy;
pub(crate) mod meter;
pub(crate) mod raw_quic;
pub(crate) mod raw_tcp;
#[cfg(target_os = "linux")]
pub(crate) mod shared;
pub(crate) mod touch_loop;
pub(crate) mod unit;
pub(crate) mod unix_socket;

pub(crate) use meter::{Measured, Meter};
pub(crate) use unit::{buffers, unit_bytes};
