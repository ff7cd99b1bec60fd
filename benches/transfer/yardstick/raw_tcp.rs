//! The yardstick of plaintext TCP, with large socket buffers, large writes, and one read into each buffer in
//! turn.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::{Measured, Meter, buffers};

/// The requested size of a socket buffer in bytes. The kernel may choose a smaller buffer.
pub(super) const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Sends until the reader is gone.
pub(crate) fn send(listener: &TcpListener, element_bytes: u64) -> std::io::Result<()> {
    let (stream, _) = listener.accept()?;
    socket2::SockRef::from(&stream).set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    write_units(stream, element_bytes);
    Ok(())
}

/// Reads until the meter is complete.
pub(crate) fn receive(address: SocketAddr, element_bytes: u64, meter: Meter) -> std::io::Result<Measured> {
    let stream = TcpStream::connect(address)?;
    socket2::SockRef::from(&stream).set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    read_units(stream, element_bytes, meter)
}

/// Writes the buffers in turn until an error shows that the reader is done.
pub(super) fn write_units(mut stream: impl Write, element_bytes: u64) {
    for unit in buffers(element_bytes).iter().cycle() {
        if stream.write_all(unit).is_err() {
            return;
        }
    }
}

/// Reads into the buffers in turn until the meter is complete.
pub(super) fn read_units(
    mut stream: impl Read,
    element_bytes: u64,
    mut meter: Meter,
) -> std::io::Result<Measured> {
    let mut buffers = buffers(element_bytes);
    loop {
        for buffer in &mut buffers {
            let mut filled = 0;
            while filled < buffer.len() {
                let count = stream.read(&mut buffer[filled..])?;
                if count == 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                filled += count;
                if let Some(measured) = meter.count(count as u64) {
                    return Ok(measured);
                }
            }
        }
    }
}
