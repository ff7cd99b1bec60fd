//! The socket of one link, which carries datagrams with descriptors and shows whether the other process still
//! lives.
//!
//! The meaning of messages is unknown to this module. All input is bounded: a datagram of invalid length, or
//! with an unexpected number of descriptors, ends the link. No received descriptor leaks.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use smallvec::SmallVec;
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;

use super::datagram::{Close, DATAGRAM_BYTES_MAX, Datagram, FDS_MAX};
use super::peer::{Peer, PeerError};
use crate::transport::LinkLost;

/// Maximum number of datagrams discarded in one poll while the channel waits for the end of the socket.
const THROWN_AWAY_AT_ONCE_MAX: usize = 64;

/// One end of the socket of a link. Datagrams are sent and received only as a whole.
///
/// Dropping the channel closes the socket, which tells the peer that this process no longer uses the peer's
/// memory. A side that may still access memory of the peer keeps its channel. Only one task at a time may
/// wait to receive.
#[derive(Debug)]
pub struct Channel {
    // Tokio's type for byte streams provides readiness and credentials. The socket itself is a datagram
    // socket, which only `receive` and `send` read and write.
    stream: UnixStream,
    peer: Peer,
    // The listener counts its links with this permit.
    _permit: Option<OwnedSemaphorePermit>,
}

/// A message that was received over the socket.
#[derive(Debug)]
pub struct Received {
    /// The message.
    pub datagram: Datagram,
    /// The descriptors of the message, as many as its kind has. A descriptor closes when the process executes
    /// another program.
    pub fds: SmallVec<[OwnedFd; FDS_MAX]>,
}

impl Channel {
    /// Makes a channel for a connected datagram socket.
    ///
    /// # Errors
    /// Returns the error and the socket if the peer belongs to another user, so that the caller can tell the
    /// peer.
    pub(super) fn new(
        stream: UnixStream,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Self, (UnixStream, PeerError)> {
        match Peer::of_own_user(&stream) {
            Ok(peer) => Ok(Self {
                stream,
                peer,
                _permit: permit,
            }),
            Err(error) => Err((stream, error)),
        }
    }

    /// Returns the process at the other end.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Sends a message with its descriptors. Returns false if the socket has no room now.
    ///
    /// # Errors
    /// Returns an error if the socket is closed, or if this side lacks a resource.
    ///
    /// # Panics
    /// Panics if the number of descriptors differs from the number for the message's kind.
    pub fn try_send(&self, datagram: &Datagram, fds: &[BorrowedFd<'_>]) -> Result<bool, LinkLost> {
        assert_eq!(
            datagram.fds(),
            fds.len(),
            "the number of descriptors does not match the kind of the message"
        );
        match send(self.stream.as_fd(), &datagram.to_bytes()?, fds) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(unsent(error)),
        }
    }

    /// Returns the next message, or `None` if the peer closed its socket or exited and no message remains.
    ///
    /// # Errors
    /// Returns an error if the datagram is not a valid message (D9.2), or if this process has no free
    /// descriptor for a received one.
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Received>, LinkLost>> {
        loop {
            ready!(self.stream.poll_read_ready(cx)).map_err(broken)?;
            let came = self.stream.try_io(tokio::io::Interest::READABLE, || {
                receive(self.stream.as_fd()).map_err(io::Error::from)
            });
            match came {
                Ok(came) => return Poll::Ready(came.into_message(self.stream.as_fd())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(broken(error))),
            }
        }
    }

    /// Receives a waiting message, even if the runtime has not seen the socket become ready. A pending result
    /// registers no waker.
    ///
    /// # Errors
    /// Returns the errors of [`Channel::poll_recv`].
    pub(super) fn recv_now(&self) -> Poll<Result<Option<Received>, LinkLost>> {
        match receive(self.stream.as_fd()) {
            Ok(came) => Poll::Ready(came.into_message(self.stream.as_fd())),
            Err(Errno::AGAIN) => Poll::Pending,
            Err(error) => Poll::Ready(Err(broken(error.into()))),
        }
    }

    /// Waits for the next message, for a task that waits for nothing else. Cancel-safe.
    ///
    /// # Errors
    /// Returns the errors of [`Channel::poll_recv`].
    pub async fn recv(&self) -> Result<Option<Received>, LinkLost> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Becomes ready after the peer closed its socket or exited. All messages that arrive until then are
    /// discarded.
    pub fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..THROWN_AWAY_AT_ONCE_MAX {
            if is_hung_up(self.stream.as_fd()) {
                return Poll::Ready(());
            }
            if self.poll_recv(cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Tells the peer why the link ends, if the peer can still be reached (D9.5). The socket stays open until
    /// the channel is dropped.
    pub fn say_close(&self, why: &LinkLost) {
        // A peer without room for the message, or a peer that exited, sees the end of the socket instead.
        let _ = self.try_send(&Datagram::Close(Close::of(why)), &[]);
    }
}

/// Gives tests access to the socket, so that they can send invalid datagrams.
#[cfg(test)]
impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The result of one receive call.
struct Came {
    bytes: [u8; DATAGRAM_BYTES_MAX],
    len: usize,
    fds: SmallVec<[OwnedFd; FDS_MAX]>,
    flags: ReturnFlags,
}

impl Came {
    /// Returns the message in the datagram. Closes the descriptors of an invalid message.
    fn into_message(self, socket: BorrowedFd<'_>) -> Result<Option<Received>, LinkLost> {
        if self.flags.contains(ReturnFlags::CTRUNC) {
            // The kernel stops early when this process may open no more descriptors.
            return Err(if self.fds.len() < FDS_MAX {
                LinkLost::Resource(
                    "this process has no free file descriptor: raise the limit of open files".into(),
                )
            } else {
                LinkLost::Misbehaved(format!(
                    "expected at most {FDS_MAX} descriptors with a datagram, found more"
                ))
            });
        }
        if self.flags.contains(ReturnFlags::TRUNC) {
            let message =
                format!("expected a datagram of at most {DATAGRAM_BYTES_MAX} bytes, found a longer one");
            return Err(LinkLost::Misbehaved(message));
        }
        // The end of the socket looks like an empty datagram.
        if self.len == 0 && self.fds.is_empty() && is_hung_up(socket) {
            return Ok(None);
        }
        let datagram = Datagram::from_bytes(&self.bytes[..self.len], self.fds.len())?;
        Ok(Some(Received {
            datagram,
            fds: self.fds,
        }))
    }
}

/// Receives one datagram without checking its contents.
fn receive(socket: BorrowedFd<'_>) -> Result<Came, Errno> {
    let mut bytes = [0; DATAGRAM_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = loop {
        let result = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
        match result {
            // The kernel reports once that the peer closed the socket without reading everything. Earlier
            // messages of the peer can still be received.
            Err(Errno::CONNRESET | Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut fds = SmallVec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok(Came {
        bytes,
        len: received.bytes,
        fds,
        flags: received.flags,
    })
}

/// Sends one datagram as a whole.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOMANYREFS);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            other => return other.map(|_| ()),
        }
    }
}

/// Returns whether the peer has closed its end, so that nothing follows the datagrams that wait.
fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let hung_up = PollFlags::RDHUP | PollFlags::HUP;
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0 && polled[0].revents().intersects(hung_up))
}

/// Returns the reason why a message could not be sent, classified by the side at fault.
fn unsent(error: Errno) -> LinkLost {
    match error {
        Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => {
            LinkLost::Broken("the other process closed its socket or exited".into())
        }
        Errno::TOOMANYREFS => LinkLost::Resource(
            "too many descriptors of this user are in flight: raise the limit of open files".into(),
        ),
        other => LinkLost::Resource(format!("the socket cannot send: {other}")),
    }
}

fn broken(error: io::Error) -> LinkLost {
    LinkLost::Broken(format!("the socket failed: {error}"))
}
