//! The socket of a link in use, which wakes a sleeping peer, proves that this process lives, and detects a
//! dead peer.
//!
//! The line owns the heartbeats and the reason for the end of the link. Rings and elements are unknown to it.

use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::Sleep;

use super::channel::{Channel, Received};
use super::datagram::{ArenaAnnouncement, Datagram};
use super::pulse::{Due, Pulse, SILENCE_MAX};
use crate::transport::LinkLost;

/// A message that a process received over the socket.
#[derive(Debug)]
pub(super) enum Heard {
    /// The other side acted while this side slept. The receiver must check all rings again.
    Ring,
    /// The announcement of memory in which packs will be located.
    Arena(ArenaAnnouncement, OwnedFd),
}

/// One end of the socket of a link in use.
#[derive(Debug)]
pub(super) struct Line {
    channel: Arc<Channel>,
    pulse: Pulse,
    timer: Pin<Box<Sleep>>,
    /// The reason for the end of the link, if it has ended.
    lost: Option<LinkLost>,
    /// True after this side sent the peer a reason for closing. A peer at fault gets the reason too, whatever
    /// ended the link.
    has_said_why: bool,
}

impl Line {
    /// Makes a line. The caller must be within a tokio runtime with time.
    pub(super) fn new(channel: Channel) -> Self {
        let now = tokio::time::Instant::now();
        Self {
            channel: Arc::new(channel),
            pulse: Pulse::new(now.into_std()),
            timer: Box::pin(tokio::time::sleep_until(now)),
            lost: None,
            has_said_why: false,
        }
    }

    /// Returns the socket, for a caller that must keep the socket open after the end of the link.
    pub(super) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Wakes the other side. If the socket has no room, it already contains rings that the other side has not
    /// read.
    pub(super) fn ring(&self) {
        // An error is ignored, because the next poll reports the reason.
        let _ = self.channel.try_send(&Datagram::Ring, &[]);
    }

    /// Returns the next message of the other side. After the end of the link, each call returns the same
    /// error with the reason.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Heard, LinkLost>> {
        if let Some(lost) = &self.lost {
            return Poll::Ready(Err(lost.clone()));
        }
        self.poll_open(cx).map_err(|lost| self.end(lost))
    }

    /// Returns a waiting message, even if the runtime has not noticed it. A pending result registers no
    /// waker.
    pub(super) fn look(&mut self) -> Poll<Result<Heard, LinkLost>> {
        if let Some(lost) = &self.lost {
            return Poll::Ready(Err(lost.clone()));
        }
        let received = ready!(self.channel.recv_now());
        Poll::Ready(self.hear(received).map_err(|lost| self.end(lost)))
    }

    /// Ends the link and tells the peer the reason.
    pub(super) fn close(&mut self, why: &LinkLost) {
        if !std::mem::replace(&mut self.has_said_why, true) {
            self.channel.say_close(why);
        }
        let closed = || LinkLost::Closed("this side closed the link".into());
        self.lost.get_or_insert_with(closed);
    }

    fn end(&mut self, lost: LinkLost) -> LinkLost {
        self.lost = Some(lost.clone());
        lost
    }

    fn hear(&mut self, received: Result<Option<Received>, LinkLost>) -> Result<Heard, LinkLost> {
        let gone = || LinkLost::Broken("the other process closed its socket or exited".into());
        let received = received?.ok_or_else(gone)?;
        self.pulse.handle_heard(tokio::time::Instant::now().into_std());
        match received.datagram {
            Datagram::Ring => Ok(Heard::Ring),
            Datagram::Arena(announcement) => match received.fds.into_iter().next() {
                Some(fd) => Ok(Heard::Arena(announcement, fd)),
                None => Err(LinkLost::Misbehaved(
                    "expected a descriptor with the announcement of an arena, found none".into(),
                )),
            },
            Datagram::Close(close) => Err(close.into_lost()),
            Datagram::ClientHello(_) | Datagram::WorkerHello(_) => Err(LinkLost::Misbehaved(
                "expected a single hello message, found a second one".into(),
            )),
        }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<Heard, LinkLost>> {
        if let Poll::Ready(received) = self.channel.poll_recv(cx) {
            return Poll::Ready(self.hear(received));
        }
        loop {
            match self.pulse.poll(tokio::time::Instant::now().into_std()) {
                Due::Beat => self.ring(),
                Due::Silence => {
                    let reason =
                        format!("the other process was silent for {SILENCE_MAX:?}: it is stopped or blocked");
                    return Poll::Ready(Err(LinkLost::Broken(reason)));
                }
                Due::At(due) => {
                    if self.timer.deadline().into_std() != due {
                        self.timer.as_mut().reset(due.into());
                    }
                    ready!(self.timer.as_mut().poll(cx));
                }
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.close(&LinkLost::Closed("the other end was dropped".into()));
    }
}
