//! The first words on a socket (D9.3): the client says hello, the worker answers with the memory that they
//! share.
//!
//! Refuses to know what lies in that memory. Says of a client that gets no link who is to blame.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use thiserror::Error;
use tokio::net::UnixStream;

use super::address::ShmAddress;
use super::channel::{Channel, Received};
use super::datagram::{ClientHello, Close, CloseCode, ControlSizes, Datagram, SHM_VERSION, WorkerHello};
use super::listen::Incoming;
use super::peer::PeerError;
use crate::transport::LinkLost;

/// The time that either end may take over its hello. Two processes on one host need less than a millisecond,
/// a host that swaps a second.
pub const GREETING_DEADLINE: Duration = Duration::from_secs(15);

/// The time between two attempts of a client while the worker has as many connections waiting as it takes.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// The memory that a worker shares with one client.
#[derive(Debug)]
pub struct Offer {
    /// The sizes of the parts of the control memory.
    pub sizes: ControlSizes,
    /// The control memory.
    pub control: OwnedFd,
}

/// Why a client got no link. Its text is what users are told when they ask why a worker on their host is read
/// over a network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// There is no listener at that address, as far as this process sees.
    #[error(
        "no socket {0} here: the worker has gone, or has another network namespace (then start it with a --shm-dir that both see \
         at the same place)"
    )]
    NoSocket(ShmAddress),
    /// The worker's directory, or its socket, is not this user's to open.
    #[error("other user: {0} is not open to this one")]
    Forbidden(ShmAddress),
    /// Another user's process listens there.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The worker refused.
    #[error("the worker refused: {}", .0.text)]
    Refused(Close),
    /// The two speak different versions.
    #[error(
        "the worker shares memory in version {theirs}, this process in version {SHM_VERSION}: use one release for both"
    )]
    Version {
        /// The version that the worker speaks.
        theirs: u32,
    },
    /// The worker did not answer in time.
    #[error("the worker on this host did not answer within {0:?}")]
    Silent(Duration),
    /// The worker did not speak the protocol, or went amid it.
    #[error("greeting the worker failed: {0}")]
    Lost(LinkLost),
    /// This process has no socket, descriptor or memory free.
    #[error("this process cannot open a socket: {0}")]
    Resource(String),
}

/// Why a connection did not become a link; the client's fault except for `Lost(LinkLost::Resource)`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GreetError {
    /// The peer said nothing in time.
    #[error("the client said nothing within {0:?}")]
    Silent(Duration),
    /// The client speaks another version.
    #[error("the client shares memory in version {theirs}, this worker in version {SHM_VERSION}")]
    Version {
        /// The version that the client speaks.
        theirs: u32,
    },
    /// The client did not speak the protocol, or went.
    #[error(transparent)]
    Lost(#[from] LinkLost),
}

/// Connects to the worker that listens at an address, within a tokio runtime with I/O and time. Cancel-safe:
/// a connection that is given up is closed.
///
/// # Errors
/// [`ConnectError`] says who is to blame; the worker can still be read over a network, whatever it is.
pub async fn connect(address: &ShmAddress, deadline: Duration) -> Result<(Channel, Offer), ConnectError> {
    let greeted = tokio::time::timeout(deadline, async {
        let socket = reach(address).await?;
        let stream = UnixStream::from_std(StdStream::from(socket))
            .map_err(|error| ConnectError::Resource(error.to_string()))?;
        let channel = Channel::new(stream, None).map_err(|(_, error)| error)?;
        let hello = Datagram::ClientHello(ClientHello { version: SHM_VERSION });
        // A worker that refuses may have closed already; what it said is there to be read.
        let said = channel.try_send(&hello, &[]);
        match channel.recv().await.map_err(ConnectError::Lost)? {
            Some(received) => offered(received).map(|offer| (channel, offer)),
            None => Err(ConnectError::Lost(said.err().unwrap_or_else(|| {
                LinkLost::Broken("it closed the socket without a word".into())
            }))),
        }
    });
    greeted.await.unwrap_or(Err(ConnectError::Silent(deadline)))
}

/// A connected socket.
async fn reach(address: &ShmAddress) -> Result<OwnedFd, ConnectError> {
    let resource = |error: Errno| ConnectError::Resource(error.to_string());
    let place = match address {
        ShmAddress::Abstract(name) => SocketAddrUnix::new_abstract_name(&name.abstract_name()),
        ShmAddress::File(path) => SocketAddrUnix::new(path),
    };
    let (place, socket) = (
        place.map_err(resource)?,
        super::socket::socket().map_err(resource)?,
    );
    loop {
        match rustix::net::connect(&socket, &place) {
            Ok(()) => return Ok(socket),
            Err(Errno::AGAIN) => tokio::time::sleep(ASK_AGAIN).await,
            Err(Errno::INTR) => {}
            Err(Errno::CONNREFUSED | Errno::NOENT | Errno::NOTDIR) => {
                return Err(ConnectError::NoSocket(address.clone()));
            }
            Err(Errno::ACCESS | Errno::PERM) => return Err(ConnectError::Forbidden(address.clone())),
            Err(Errno::PROTOTYPE) => {
                let reason = "what listens there is no worker".to_owned();
                return Err(ConnectError::Lost(LinkLost::Misbehaved(reason)));
            }
            Err(error) => return Err(resource(error)),
        }
    }
}

/// Returns the offer in a worker's answer.
fn offered(received: Received) -> Result<Offer, ConnectError> {
    let unexpected = |what: &str| {
        let reason = format!("it answered a hello with {what}");
        Err(ConnectError::Lost(LinkLost::Misbehaved(reason)))
    };
    match received.datagram {
        Datagram::WorkerHello(hello) => {
            if hello.version != SHM_VERSION {
                return Err(ConnectError::Version {
                    theirs: hello.version,
                });
            }
            let Some(control) = received.fds.into_iter().next() else {
                return unexpected("too few descriptors");
            };
            Ok(Offer {
                sizes: hello.sizes,
                control,
            })
        }
        Datagram::Close(close) => Err(ConnectError::Refused(close)),
        Datagram::ClientHello(_) => unexpected("a client's hello"),
        Datagram::Arena(_) => unexpected("an arena"),
        Datagram::Ring => unexpected("a ring"),
    }
}

impl Incoming {
    /// Returns the process that came.
    pub fn peer(&self) -> super::Peer {
        self.channel.peer()
    }

    /// Hears the client's hello and answers it with `offer`; or says why not, and closes. Cancel-safe: a
    /// connection that is given up is closed.
    ///
    /// # Errors
    /// [`GreetError`].
    pub async fn greet(self, offer: &Offer, deadline: Duration) -> Result<Channel, GreetError> {
        let channel = self.channel;
        let heard = match tokio::time::timeout(deadline, channel.recv()).await {
            Ok(heard) => hear(heard),
            Err(_) => Err(GreetError::Silent(deadline)),
        };
        let hello = Datagram::WorkerHello(WorkerHello {
            version: SHM_VERSION,
            sizes: offer.sizes,
        });
        let fds = [offer.control.as_fd()];
        let answered = match heard {
            Ok(()) => channel.try_send(&hello, &fds).map_err(GreetError::from),
            Err(error) => Err(error),
        };
        match answered {
            Ok(true) => Ok(channel),
            // It filled the socket's buffer before it had an answer, by not reading ours: there is none yet.
            Ok(false) => Err(GreetError::Lost(LinkLost::Resource(
                "its socket takes no answer".into(),
            ))),
            Err(error) => {
                let _ = channel.try_send(&Datagram::Close(goodbye(&error)), &[]);
                Err(error)
            }
        }
    }
}

/// Checks the client's first message.
fn hear(heard: Result<Option<Received>, LinkLost>) -> Result<(), GreetError> {
    let lost = match heard {
        Ok(Some(Received { datagram, .. })) => match datagram {
            Datagram::ClientHello(hello) if hello.version == SHM_VERSION => return Ok(()),
            Datagram::ClientHello(hello) => {
                return Err(GreetError::Version {
                    theirs: hello.version,
                });
            }
            Datagram::Close(close) => close.into_lost(),
            Datagram::WorkerHello(_) | Datagram::Arena(_) | Datagram::Ring => {
                LinkLost::Misbehaved("a client's first message is its hello".into())
            }
        },
        Ok(None) => LinkLost::Broken("it went before it said anything".into()),
        Err(lost) => lost,
    };
    Err(GreetError::Lost(lost))
}

/// Returns the message for a client that gets no link.
fn goodbye(error: &GreetError) -> Close {
    match error {
        GreetError::Silent(_) => Close::new(CloseCode::Blamed, error.to_string()),
        GreetError::Version { .. } => Close::new(CloseCode::Version, error.to_string()),
        GreetError::Lost(lost) => Close::of(lost),
    }
}
