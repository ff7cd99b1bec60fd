//! A datagram socket to a Python process. Datagrams can carry file descriptors, and waits are limited so that
//! the caller can check deadlines. This file does not know the messages.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Maximum size of a datagram in bytes, in both directions.
pub(super) const DATAGRAM_BYTES_MAX: usize = 128 << 10;

/// This process's end of the socket.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Makes a socket. Also returns the other end, for the other process.
    pub(super) fn pair() -> io::Result<(Socket, OwnedFd)> {
        let (fd, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Socket { fd }, other))
    }

    /// Sends a datagram, with or without a file descriptor. The socket has room for the datagram, because few
    /// requests are open at a time.
    pub(super) fn send(&self, datagram: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match sendmsg(&self.fd, &[IoSlice::new(datagram)], &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                sent => return sent.map(drop).map_err(io::Error::from),
            }
        }
    }

    /// Receives the next datagram; returns `None` if none arrives within `patience`. An empty datagram means
    /// the end of the other process.
    pub(super) fn receive(&self, into: &mut Vec<u8>, patience: Duration) -> io::Result<Option<()>> {
        if !self.is_readable(patience)? {
            return Ok(None);
        }
        into.resize(DATAGRAM_BYTES_MAX, 0);
        let mut ancillary = RecvAncillaryBuffer::default();
        loop {
            match recvmsg(
                &self.fd,
                &mut [IoSliceMut::new(into)],
                &mut ancillary,
                RecvFlags::empty(),
            ) {
                Err(Errno::INTR) => {}
                // The other process has ended without reading its last messages.
                Err(Errno::CONNRESET) => {
                    into.clear();
                    return Ok(Some(()));
                }
                received => {
                    into.truncate(received?.bytes);
                    return Ok(Some(()));
                }
            }
        }
    }

    /// Returns whether a datagram, or the end of the other process, arrives within `patience`.
    pub(super) fn is_readable(&self, patience: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(patience).ok();
        let mut polled = [PollFd::from_borrowed_fd(self.fd.as_fd(), PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            // The caller checks its deadline and waits again.
            Err(Errno::INTR) => Ok(false),
            ready => Ok(ready? > 0),
        }
    }
}
