//! Plaintext TCP: large socket buffers, large writes, one read into a reused buffer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::{Measured, Meter, unit_bytes};

const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Sends until the reader goes away.
pub(crate) fn send(listener: &TcpListener, element_bytes: u64) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    socket2::SockRef::from(&stream).set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    let unit = vec![7_u8; unit_bytes(element_bytes) as usize];
    while stream.write_all(&unit).is_ok() {}
    Ok(())
}

/// Reads until the meter is done.
pub(crate) fn receive(
    address: SocketAddr,
    element_bytes: u64,
    mut meter: Meter,
) -> std::io::Result<Measured> {
    let mut stream = TcpStream::connect(address)?;
    socket2::SockRef::from(&stream).set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    let mut buffer = vec![0_u8; unit_bytes(element_bytes).max(1 << 20) as usize];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(measured) = meter.count(count as u64) {
            return Ok(measured);
        }
    }
}
