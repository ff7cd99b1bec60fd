//! A worker's socket: which processes may come in, and how many.
//!
//! Refuses to know what is said to those who may.

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

/// Links of one worker at once. A link takes four descriptors at the worker, and one more for each of its
/// tasks that the same-host readers share: with the usual limit of 1024 open files half of them stay for
/// everything else. A host runs a few dozen trainers.
pub const LINKS_MAX: usize = 128;

/// Connections that wait to be accepted, as many as there may be links: all readers of a host may start at
/// once.
const BACKLOG: i32 = LINKS_MAX as i32;

/// The first wait after the system had no descriptor or memory for a connection, and the longest.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The settings of a worker's listener.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// The directory of its socket file, for readers that share this directory but not the network namespace.
    /// It has mode 0700, belongs to our own user, and is made if it is missing. By default there is no file,
    /// and the kernel keeps the name.
    pub directory: Option<PathBuf>,
    /// Links at once; default [`LINKS_MAX`].
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

/// Why a worker cannot listen; other readers are not concerned.
#[derive(Debug, Error)]
pub enum BindError {
    /// The directory does not do.
    #[error("directory of sockets: {0}")]
    Directory(#[from] DirectoryError),
    /// The path is too long.
    #[error("directory of sockets: {0}")]
    Address(#[from] AddressError),
    /// The system refuses.
    #[error("no socket for readers on this host: {0}")]
    System(#[from] io::Error),
}

/// The socket of a worker. Its file, where it has one, goes with it.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    address: ShmAddress,
    links: Arc<Semaphore>,
    links_max: usize,
    back_off: Duration,
    _file: Option<RemovedOnDrop>,
}

/// A connection of a process of our own user that has not been heard yet.
#[derive(Debug)]
pub struct Incoming {
    pub(super) channel: Channel,
}

impl Listener {
    /// Listens at an address that nobody can have guessed, within a tokio runtime with I/O.
    ///
    /// # Errors
    /// [`BindError`] says what to mend.
    pub fn bind(config: &ListenerConfig) -> Result<Self, BindError> {
        let mut bits = [0; 16];
        let drawn = getrandom(&mut bits, GetRandomFlags::empty()).map_err(io::Error::from)?;
        if drawn < bits.len() {
            return Err(io::Error::other("the system's randomness ended early").into());
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

    /// The next connection of a process of our own user (D9.1); any other is told why not and let go of, as
    /// is a client beyond the limit of links (D9.7). Never ends: what the system refuses now it may grant
    /// later. Cancel-safe.
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
                // It went while it waited.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "readers on this host wait: raise the limit of open files");
                    tokio::time::sleep(self.back_off).await;
                    self.back_off = (self.back_off * 2).min(BACK_OFF.1);
                }
            }
        }
    }

    /// Checks who came, before anything of it is read.
    fn admit(&self, stream: UnixStream) -> Result<Incoming, String> {
        let permit = self.links.clone().try_acquire_owned().ok();
        let is_full = permit.is_none();
        match Channel::new(stream, permit) {
            Ok(channel) if !is_full => Ok(Incoming { channel }),
            Ok(channel) => {
                let reason = format!("the worker has {} links, as many as it takes", self.links_max);
                // Who cannot be told sees the socket's end.
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

/// Listens on a file of this name. It has another name until it is listened on: one that refuses connections
/// is taken for a dead worker's (D9.6).
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
    tracing::debug!(%name, directory = %directory.display(), "listens for readers that share a directory");
    Ok((socket, file))
}

/// A socket's file.
#[derive(Debug)]
struct RemovedOnDrop(PathBuf);

impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        // The process that took it away already did what is wanted.
        let _ = std::fs::remove_file(&self.0);
    }
}
