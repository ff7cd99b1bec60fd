//! What the service is compared with: the same machine, the same run, less work.
//!
//! - [`raw_quic`]: bare quinn with the same configuration
//! - [`raw_tcp`]: plaintext TCP
//! - [`memcpy`]: a copy in memory
//! - [`mod@unit`]: what travels as one, and through which memory
//! - [`meter`]: what all of them count with
//!
//! Each sender is a child process that prints its address, sends until its reader goes away, then prints its CPU time.

pub(crate) mod memcpy;
pub(crate) mod meter;
pub(crate) mod raw_quic;
pub(crate) mod raw_tcp;
pub(crate) mod unit;

pub(crate) use meter::{Measured, Meter};
pub(crate) use unit::{buffers, unit_bytes};
