//! Plaintext TCP: large socket buffers, large writes, one read into the buffers in turn.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::{Measured, Meter, buffers};

const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Sends until the reader goes away.
pub(crate) fn send(listener: &TcpListener, element_bytes: u64) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    socket2::SockRef::from(&stream).set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    for unit in buffers(element_bytes).iter().cycle() {
        // An error means that the reader is done.
        if stream.write_all(unit).is_err() {
            break;
        }
    }
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
