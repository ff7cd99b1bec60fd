//! A worker's listening socket, which decides which processes may connect, and how many.
//!
//! The messages of connected processes are unknown to this module.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SocketAddrUnix, bind, listen};
use rustix::rand::{GetRandomFlags, getrandom};
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::address::{AddressError, ShmAddress, SocketName};
use super::channel::{self, Channel};
use super::datagram::{Close, CloseCode, Datagram};
use super::directory::{self, DirectoryError, UNFINISHED_SUFFIX};
use super::peer::PeerError;
use super::socket::socket;

/// Maximum number of links of one worker at once. A link takes four descriptors at the worker, plus one for
/// each of its tasks with shared memory. With the usual limit of 1024 open files, half of the descriptors
/// stay free. A host runs a few dozen trainers.
pub const LINKS_MAX: usize = 128;

/// Maximum number of connections that wait to be accepted, equal to the maximum number of links. All readers
/// of a host may start at once.
const BACKLOG: i32 = LINKS_MAX as i32;

/// The first and the longest wait after the system had no descriptor or memory for a connection.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The settings of a worker's listener.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// The directory of the socket's file, for readers that share the directory but not the network
    /// namespace. The directory has mode 0700, belongs to this user, and is created if it is missing. `None`
    /// uses an abstract name without a file.
    pub directory: Option<PathBuf>,
    /// Maximum number of links at once; the default is [`LINKS_MAX`].
    pub links_max: usize,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self {
            directory: None,
            links_max: LINKS_MAX,
        }
    }
}

/// The reason for which a worker cannot listen for readers on its host. Readers on other hosts are not
/// affected.
#[derive(Debug, Error)]
pub enum BindError {
    /// The directory cannot be used for sockets.
    #[error("directory of sockets: {0}")]
    Directory(#[from] DirectoryError),
    /// The path of the socket is too long.
    #[error("directory of sockets: {0}")]
    Address(#[from] AddressError),
    /// The system refused to make the socket.
    #[error("cannot open a socket for readers on this host: {0}")]
    System(#[from] io::Error),
}

/// The listening socket of a worker. Dropping the listener removes the socket's file, if any.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    address: ShmAddress,
    links: Arc<Semaphore>,
    links_max: usize,
    back_off: Duration,
    _file: Option<RemovedOnDrop>,
}

/// A connection of a process of this user, from which no message was read yet.
#[derive(Debug)]
pub struct Incoming {
    pub(super) channel: Channel,
}

impl Listener {
    /// Listens at a random address that no other process can guess. The caller must be within a tokio runtime
    /// with I/O.
    ///
    /// # Errors
    /// Returns a [`BindError`], which states what to correct.
    pub fn bind(config: &ListenerConfig) -> Result<Self, BindError> {
        let mut bits = [0; 16];
        let drawn = getrandom(&mut bits, GetRandomFlags::empty()).map_err(io::Error::from)?;
        if drawn < bits.len() {
            return Err(io::Error::other("expected 16 random bytes from the system, found fewer").into());
        }
        let name = SocketName::from_bits(u128::from_le_bytes(bits));
        let (socket, address, file) = match &config.directory {
            None => {
                let socket = socket().map_err(io::Error::from)?;
                let address =
                    SocketAddrUnix::new_abstract_name(&name.abstract_name()).map_err(io::Error::from)?;
                bind(&socket, &address).map_err(io::Error::from)?;
                listen(&socket, BACKLOG).map_err(io::Error::from)?;
                (socket, ShmAddress::Abstract(name), None)
            }
            Some(directory) => {
                let directory = std::path::absolute(directory)?;
                directory::prepare(&directory)?;
                let address = ShmAddress::in_directory(&directory, name)?;
                let (socket, file) = bind_file(&directory, name, Path::new(&address.to_string()))?;
                (socket, address, Some(file))
            }
        };
        Ok(Self {
            listener: UnixListener::from_std(StdListener::from(socket))?,
            address,
            links: Arc::new(Semaphore::new(config.links_max)),
            links_max: config.links_max,
            back_off: BACK_OFF.0,
            _file: file,
        })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> &ShmAddress {
        &self.address
    }

    /// Waits for the next connection of a process of this user (D9.1). Processes of other users, and clients
    /// beyond the limit of links, are told the reason and disconnected (D9.7). Waits through temporary errors
    /// of the system and never returns an error. Cancel-safe.
    pub async fn accept(&mut self) -> Incoming {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    self.back_off = BACK_OFF.0;
                    match self.admit(stream) {
                        Ok(incoming) => return incoming,
                        Err(reason) => tracing::info!(reason, "refused a reader on this host"),
                    }
                }
                // The client disconnected while its connection waited.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept readers on this host now: raise the limit of open files");
                    tokio::time::sleep(self.back_off).await;
                    self.back_off = (self.back_off * 2).min(BACK_OFF.1);
                }
            }
        }
    }

    /// Checks the process that connected, before any of its messages is read.
    fn admit(&self, stream: UnixStream) -> Result<Incoming, String> {
        let permit = self.links.clone().try_acquire_owned().ok();
        let is_full = permit.is_none();
        match Channel::new(stream, permit) {
            Ok(channel) if !is_full => Ok(Incoming { channel }),
            Ok(channel) => {
                let reason = format!("the worker has {} links, its maximum", self.links_max);
                // A client without room for the message sees the end of the socket.
                let _ = channel.try_send(&refusal(CloseCode::Full, &reason), &[]);
                Err(reason)
            }
            Err((stream, error)) => {
                let code = match error {
                    PeerError::OtherUser { .. } => CloseCode::OtherUser,
                    PeerError::Nobody { .. } | PeerError::Unknown(_) => CloseCode::Done,
                };
                if let Ok(bytes) = refusal(code, &error.to_string()).to_bytes() {
                    let _ = channel::send(stream.as_fd(), &bytes, &[]);
                }
                Err(error.to_string())
            }
        }
    }
}

fn refusal(code: CloseCode, reason: &str) -> Datagram {
    Datagram::Close(Close::new(code, reason))
}

/// Listens on a file with this name. The file has a temporary name until the socket listens, because another
/// worker would remove a socket that refuses connections (D9.6).
fn bind_file(directory: &Path, name: SocketName, path: &Path) -> Result<(OwnedFd, RemovedOnDrop), BindError> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(UNFINISHED_SUFFIX);
    let unfinished = PathBuf::from(unfinished);
    let too_long = |_| {
        let bytes = unfinished.as_os_str().len();
        BindError::Address(AddressError::TooLong(bytes))
    };
    let address = SocketAddrUnix::new(&unfinished).map_err(too_long)?;
    let socket = socket().map_err(io::Error::from)?;
    bind(&socket, &address).map_err(io::Error::from)?;
    let mut file = RemovedOnDrop(unfinished.clone());
    listen(&socket, BACKLOG).map_err(io::Error::from)?;
    std::fs::rename(&unfinished, path)?;
    file.0 = path.to_owned();
    tracing::debug!(%name, directory = %directory.display(), "listening for readers that share a directory");
    Ok((socket, file))
}

/// The file of a socket, which is removed on drop.
#[derive(Debug)]
struct RemovedOnDrop(PathBuf);

impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        // An error means that another process already removed the file.
        let _ = std::fs::remove_file(&self.0);
    }
}
