//! The socket of a link in use: it wakes a sleeping peer, says that this process lives, and hears when the
//! other does not.
//!
//! Owns the beats and the reason why the link ended. Refuses to know rings and elements.

use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::Sleep;

use super::channel::{Channel, Received};
use super::datagram::{ArenaAnnouncement, Datagram};
use super::pulse::{Due, Pulse, SILENCE_MAX};
use crate::transport::LinkLost;

/// A message that a process heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// The other side did something while this one slept: look again at everything.
    Ring,
    /// Memory in which packs will lie.
    Arena(ArenaAnnouncement, OwnedFd),
}

/// One end of the socket.
#[derive(Debug)]
pub(super) struct Line {
    channel: Arc<Channel>,
    pulse: Pulse,
    timer: Pin<Box<Sleep>>,
    /// Why nothing more comes.
    lost: Option<LinkLost>,
    /// Whether the peer was told; also who is to blame is, whatever it was that ended the link.
    has_said_why: bool,
}

impl Line {
    /// Within a tokio runtime with time.
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

    /// The socket, for a caller that must keep it open longer than the link.
    pub(super) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Wakes the other side. A socket without room holds rings that it has not heard yet.
    pub(super) fn ring(&self) {
        // Whether the socket is gone the next poll says, with the reason.
        let _ = self.channel.try_send(&Datagram::Ring, &[]);
    }

    /// Returns the next message of the other side. The error is the reason why the link is no more, each time
    /// the same.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Heard, LinkLost>> {
        if let Some(lost) = &self.lost {
            return Poll::Ready(Err(lost.clone()));
        }
        self.poll_open(cx).map_err(|lost| self.end(lost))
    }

    /// Returns a message that waits, though the runtime may not have noticed it. Pending wakes nobody.
    pub(super) fn look(&mut self) -> Poll<Result<Heard, LinkLost>> {
        if let Some(lost) = &self.lost {
            return Poll::Ready(Err(lost.clone()));
        }
        let received = ready!(self.channel.recv_now());
        Poll::Ready(self.hear(received).map_err(|lost| self.end(lost)))
    }

    /// Ends the link and tells the peer why.
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
                None => Err(LinkLost::Misbehaved("an arena without its descriptor".into())),
            },
            Datagram::Close(close) => Err(close.into_lost()),
            Datagram::ClientHello(_) | Datagram::WorkerHello(_) => {
                Err(LinkLost::Misbehaved("it said hello twice".into()))
            }
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
                        format!("the other process was silent for {SILENCE_MAX:?}: it is stopped or stuck");
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
