//! The first messages on a socket (D9.3): the client sends its hello, and the worker answers with the memory
//! that both sides share.
//!
//! The contents of the memory are unknown to this module. The errors for a client without a link state which
//! side is at fault.

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

/// The time within which either end must send its hello. Two processes on one host need less than a
/// millisecond, and a host that swaps needs a second.
pub const GREETING_DEADLINE: Duration = Duration::from_secs(15);

/// The time between two attempts of a client while the worker's queue of waiting connections is full.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// The memory that a worker shares with one client.
#[derive(Debug)]
pub struct Offer {
    /// The sizes of the parts of the control memory.
    pub sizes: ControlSizes,
    /// The control memory.
    pub control: OwnedFd,
}

/// The reason for which a client got no link. Users see the text when they ask why a worker on their host is
/// read over a network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// No process listens at the address, as far as this process can see.
    #[error(
        "no socket {0} on this host: the worker has exited, or has another network namespace (then start the worker with a --shm-dir \
         that both processes see at the same path)"
    )]
    NoSocket(ShmAddress),
    /// This user has no permission for the worker's directory or socket.
    #[error("other user: this user has no permission for {0}")]
    Forbidden(ShmAddress),
    /// A process of another user listens at the address.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The worker refused the connection.
    #[error("the worker refused: {}", .0.text)]
    Refused(Close),
    /// The two sides use different versions.
    #[error(
        "the worker shares memory in version {theirs}, this process in version {SHM_VERSION}: use one release for both"
    )]
    Version {
        /// The version that the worker uses.
        theirs: u32,
    },
    /// The worker did not answer in time.
    #[error("the worker on this host did not answer within {0:?}")]
    Silent(Duration),
    /// The worker violated the protocol, or exited during the greeting.
    #[error("the greeting of the worker failed: {0}")]
    Lost(LinkLost),
    /// This process has no free socket, descriptor or memory.
    #[error("this process cannot open a socket: {0}")]
    Resource(String),
}

/// The reason for which a connection did not become a link. The client is at fault except for
/// `Lost(LinkLost::Resource)`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GreetError {
    /// The client sent no message in time.
    #[error("expected a hello message from the client within {0:?}, found none")]
    Silent(Duration),
    /// The client uses another version.
    #[error("the client shares memory in version {theirs}, this worker in version {SHM_VERSION}")]
    Version {
        /// The version that the client uses.
        theirs: u32,
    },
    /// The client violated the protocol, or exited.
    #[error(transparent)]
    Lost(#[from] LinkLost),
}

/// Connects to the worker that listens at an address. The caller must be within a tokio runtime with I/O and
/// time. Cancel-safe: a cancelled connection is closed.
///
/// # Errors
/// Returns a [`ConnectError`], which states the side at fault. The worker can still be read over a network.
pub async fn connect(address: &ShmAddress, deadline: Duration) -> Result<(Channel, Offer), ConnectError> {
    let greeted = tokio::time::timeout(deadline, async {
        let socket = reach(address).await?;
        let stream = UnixStream::from_std(StdStream::from(socket))
            .map_err(|error| ConnectError::Resource(error.to_string()))?;
        let channel = Channel::new(stream, None).map_err(|(_, error)| error)?;
        let hello = Datagram::ClientHello(ClientHello { version: SHM_VERSION });
        // A worker that refuses may have closed the socket already. The worker's message can still be
        // received.
        let said = channel.try_send(&hello, &[]);
        match channel.recv().await.map_err(ConnectError::Lost)? {
            Some(received) => offered(received).map(|offer| (channel, offer)),
            None => Err(ConnectError::Lost(said.err().unwrap_or_else(|| {
                LinkLost::Broken("expected a hello message of the worker, found a closed socket".into())
            }))),
        }
    });
    greeted.await.unwrap_or(Err(ConnectError::Silent(deadline)))
}

/// Returns a socket that is connected to the address.
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
                let reason = "expected a worker at the address, found a socket of another type".to_owned();
                return Err(ConnectError::Lost(LinkLost::Misbehaved(reason)));
            }
            Err(error) => return Err(resource(error)),
        }
    }
}

/// Returns the offer in a worker's answer.
fn offered(received: Received) -> Result<Offer, ConnectError> {
    let unexpected = |what: &str| {
        let reason = format!("expected a hello message of the worker, found {what}");
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
    /// Returns the process that connected.
    pub fn peer(&self) -> super::Peer {
        self.channel.peer()
    }

    /// Receives the client's hello and answers with `offer`. On an error, tells the client the reason and
    /// closes the connection. Cancel-safe: a cancelled connection is closed.
    ///
    /// # Errors
    /// Returns a [`GreetError`] if the greeting failed.
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
            // The client filled the socket's buffer before an answer was sent, and did not read.
            Ok(false) => Err(GreetError::Lost(LinkLost::Resource(
                "the client's socket has no room for an answer".into(),
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
            Datagram::WorkerHello(_) | Datagram::Arena(_) | Datagram::Ring => LinkLost::Misbehaved(
                "expected a client's hello as the first message, found another message".into(),
            ),
        },
        Ok(None) => LinkLost::Broken("the client exited before it sent a message".into()),
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
