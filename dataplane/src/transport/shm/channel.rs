//! The socket of one link: datagrams with their descriptors, and whether the other process is still there.
//!
//! Refuses to know what is said. Whatever comes is bounded: a datagram of other length, or with other
//! descriptors than it should have, ends the link and leaves no descriptor behind.

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

/// Datagrams thrown away in one go while the end of the socket is waited for.
const THROWN_AWAY_AT_ONCE_MAX: usize = 64;

/// One end of the socket of a link. All sending and receiving is of whole datagrams.
///
/// The socket closes when it is dropped, which the peer sees as the end of this process's interest: a side
/// that may still look at memory of the peer keeps its end. One task at a time may wait to receive.
#[derive(Debug)]
pub struct Channel {
    // Tokio's type for byte streams serves for its readiness and its credentials; its socket is one of
    // datagrams, and is read and written by `receive` and `send` alone.
    stream: UnixStream,
    peer: Peer,
    // What the listener counts its links with.
    _permit: Option<OwnedSemaphorePermit>,
}

/// A message that came over the socket.
#[derive(Debug)]
pub struct Received {
    /// The message.
    pub datagram: Datagram,
    /// The descriptors, as many as its kind has, closed when a program is executed.
    pub fds: SmallVec<[OwnedFd; FDS_MAX]>,
}

impl Channel {
    /// For a connected socket of whole datagrams.
    ///
    /// # Errors
    /// The peer is not our own user's; with the socket, so that it can be told.
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

    /// Sends a message with its descriptors, or says false if there is no room for it now.
    ///
    /// # Errors
    /// The socket is closed, or this side ran out of something.
    ///
    /// # Panics
    /// The descriptors are not as many as the message's kind has.
    pub fn try_send(&self, datagram: &Datagram, fds: &[BorrowedFd<'_>]) -> Result<bool, LinkLost> {
        assert_eq!(
            datagram.fds(),
            fds.len(),
            "a message is sent with the descriptors of its kind"
        );
        match send(self.stream.as_fd(), &datagram.to_bytes()?, fds) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(unsent(error)),
        }
    }

    /// The next message; `None` when the peer closed its socket or exited, and has nothing more to say.
    ///
    /// # Errors
    /// What came is no message (D9.2), or this side has no descriptor free for what came with it.
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
    /// As of [`Channel::poll_recv`].
    pub(super) fn recv_now(&self) -> Poll<Result<Option<Received>, LinkLost>> {
        match receive(self.stream.as_fd()) {
            Ok(came) => Poll::Ready(came.into_message(self.stream.as_fd())),
            Err(Errno::AGAIN) => Poll::Pending,
            Err(error) => Poll::Ready(Err(broken(error.into()))),
        }
    }

    /// The next message, for a task that waits for nothing else. Cancel-safe.
    ///
    /// # Errors
    /// As of [`Channel::poll_recv`].
    pub async fn recv(&self) -> Result<Option<Received>, LinkLost> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Ready once the peer closed its socket or exited. What it still says is thrown away, whatever it is.
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

    /// Tells the peer why the link ends, if it can still be told (D9.5). The socket stays until the channel
    /// is dropped.
    pub fn say_close(&self, why: &LinkLost) {
        // A peer that has no room for it, or is gone, sees the socket's end instead.
        let _ = self.try_send(&Datagram::Close(Close::of(why)), &[]);
    }
}

/// For tests that say what no channel says.
#[cfg(test)]
impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The result of one call to the system.
struct Came {
    bytes: [u8; DATAGRAM_BYTES_MAX],
    len: usize,
    fds: SmallVec<[OwnedFd; FDS_MAX]>,
    flags: ReturnFlags,
}

impl Came {
    /// The message that came; descriptors of what is none are closed.
    fn into_message(self, socket: BorrowedFd<'_>) -> Result<Option<Received>, LinkLost> {
        if self.flags.contains(ReturnFlags::CTRUNC) {
            // The system stops early when this process may open no more.
            return Err(if self.fds.len() < FDS_MAX {
                LinkLost::Resource("no file descriptor is free in this process: raise its limit".into())
            } else {
                LinkLost::Misbehaved(format!("more than {FDS_MAX} descriptors with one datagram"))
            });
        }
        if self.flags.contains(ReturnFlags::TRUNC) {
            let message = format!("a datagram of more than {DATAGRAM_BYTES_MAX} bytes");
            return Err(LinkLost::Misbehaved(message));
        }
        // The end looks like an empty datagram.
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

/// Receives one datagram. Nothing on it is checked.
fn receive(socket: BorrowedFd<'_>) -> Result<Came, Errno> {
    let mut bytes = [0; DATAGRAM_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = loop {
        let result = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
        match result {
            // The peer closed without reading all it was sent, which is told once; what it said before is
            // still there.
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

/// Sends one datagram whole.
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

/// Returns whether nothing more will come behind what waits to be read.
fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let hung_up = PollFlags::RDHUP | PollFlags::HUP;
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0 && polled[0].revents().intersects(hung_up))
}

/// Why a message could not be sent, by who is to blame.
fn unsent(error: Errno) -> LinkLost {
    match error {
        Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => {
            LinkLost::Broken("the other process closed its socket or exited".into())
        }
        Errno::TOOMANYREFS => LinkLost::Resource(
            "too many descriptors of this user are on their way: raise the limit of open files".into(),
        ),
        other => LinkLost::Resource(format!("its socket does not send: {other}")),
    }
}

fn broken(error: io::Error) -> LinkLost {
    LinkLost::Broken(format!("its socket failed: {error}"))
}
