//! Yardsticks to compare the service with. All yardsticks run on the same machine in the same run, and do
//! less work than the service.
//!
//! - [`raw_quic`]: bare quinn with the service's configuration
//! - [`raw_tcp`]: plaintext TCP
//! - [`unix_socket`]: a copy through the kernel between processes on one host
//! - `shared`: bare memory that two processes share
//! - `iceoryx2`: the same transfer with another library, if the program was built with it
//! - [`memcpy`]: a copy within memory
//! - [`touch_loop`]: writing and reading every byte in one process
//! - [`mod@unit`]: the unit of a transfer, and the buffers of an end
//! - [`meter`]: the counter of all yardsticks
//!
//! Each sender is a child process that prints its meeting point, and then sends until its reader is gone.
//! Yardsticks within one process have no child.

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
