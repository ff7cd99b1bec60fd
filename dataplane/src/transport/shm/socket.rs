//! The creation of same-host sockets, the same for both ends.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Creates a socket of the kind that both ends use: datagrams in order, non-blocking.
pub(super) fn socket() -> Result<OwnedFd, Errno> {
    socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}
