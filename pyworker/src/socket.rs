//! A socket of whole datagrams to a process of Python: with descriptors, in steps that see a deadline.
//! Refuses to know what is said.

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

/// Bytes of a datagram, in both directions.
pub(super) const DATAGRAM_BYTES_MAX: usize = 128 << 10;

/// This process's end.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// A socket, and the other end, for the other process.
    pub(super) fn pair() -> io::Result<(Socket, OwnedFd)> {
        let (fd, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Socket { fd }, other))
    }

    /// Sends a datagram, with a descriptor or without. The other end has room for it: it is asked one thing
    /// at a time.
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

    /// The next datagram, or `None` if none comes within `patience`. Nothing but an empty one is the end.
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
                // The process is gone: its end is closed.
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

    /// Returns whether there is a datagram, or the end, within `patience`.
    pub(super) fn is_readable(&self, patience: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(patience).ok();
        let mut polled = [PollFd::from_borrowed_fd(self.fd.as_fd(), PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            // The waiting caller looks at the clock and comes again.
            Err(Errno::INTR) => Ok(false),
            ready => Ok(ready? > 0),
        }
    }
}
