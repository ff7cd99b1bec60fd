//! The yardstick of a copy through the kernel: a Unix stream socket with large socket buffers, large writes,
//! and one read into each buffer in turn.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::raw_tcp::{read_units, write_units};
use super::{Measured, Meter};

/// Sends until the reader is gone.
pub(crate) fn send(listener: &UnixListener, element_bytes: u64) -> std::io::Result<()> {
    let (stream, _) = listener.accept()?;
    socket2::SockRef::from(&stream).set_send_buffer_size(super::raw_tcp::SOCKET_BUFFER_BYTES)?;
    write_units(stream, element_bytes);
    Ok(())
}

/// Reads until the meter is complete.
pub(crate) fn receive(path: &Path, element_bytes: u64, meter: Meter) -> std::io::Result<Measured> {
    read_units(UnixStream::connect(path)?, element_bytes, meter)
}
