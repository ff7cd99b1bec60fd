//! The process at the other end of a socket, as the kernel names it, and whether it belongs to our own user.
//!
//! This file does not know what is said over the socket.

use std::fmt;

use rustix::process::geteuid;
use thiserror::Error;
use tokio::net::UnixStream;

/// The process at the other end, as it was when it connected, or began to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The effective user, as this process's user namespace has it.
    pub uid: u32,
    /// The number, where this process can see it: a process of another container has none here.
    pub pid: Option<u32>,
}

impl Peer {
    /// The peer of a socket, if it is a process of our own user (D9.1).
    ///
    /// # Errors
    /// It is not, or it cannot be told.
    pub(super) fn of_own_user(stream: &UnixStream) -> Result<Self, PeerError> {
        let unknown = |error: std::io::Error| PeerError::Unknown(error.to_string());
        let credentials = stream.peer_cred().map_err(unknown)?;
        let peer = Self {
            uid: credentials.uid(),
            pid: credentials
                .pid()
                .and_then(|pid| u32::try_from(pid).ok())
                .filter(|&pid| pid > 0),
        };
        let ours = geteuid().as_raw();
        if peer.uid != ours {
            return Err(PeerError::OtherUser { peer, ours });
        }
        match is_shared_by_strangers(ours) {
            Ok(false) => Ok(peer),
            Ok(true) => Err(PeerError::Nobody { ours }),
            Err(error) => Err(unknown(error)),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid} of user {}", self.uid),
            None => write!(f, "a process of user {}, out of sight", self.uid),
        }
    }
}

/// Why a peer is not one to share memory with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PeerError {
    /// The process belongs to another user.
    #[error(
        "other user: it is {peer}, this process is user {ours}'s, and memory is shared within one user only"
    )]
    OtherUser {
        /// The peer.
        peer: Peer,
        /// Our user.
        ours: u32,
    },
    /// The process may be anybody's: within a user namespace all users that have no number there look like
    /// this one.
    #[error(
        "user {ours} stands for all unknown users in this user namespace, so that nobody can be told from others: run as \
         another user to share memory"
    )]
    Nobody {
        /// Our user.
        ours: u32,
    },
    /// The system does not say.
    #[error("the system does not say whose process is at the other end: {0}")]
    Unknown(String),
}

/// Returns whether users that this user namespace has no number for would look like `uid`. Outside of user
/// namespaces everybody has a number.
fn is_shared_by_strangers(uid: u32) -> std::io::Result<bool> {
    let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid")?;
    if overflow.trim().parse() != Ok(uid) {
        return Ok(false);
    }
    let map = std::fs::read_to_string("/proc/self/uid_map")?;
    Ok(!is_everybody(&map))
}

/// Returns whether a user namespace's map has all users, each with its own number.
fn is_everybody(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_user_namespaces_tell_users_apart() {
        assert!(is_everybody("         0          0 4294967295\n"));
        assert!(!is_everybody("         0     100000      65536\n"));
        assert!(!is_everybody("     65534       1000          1\n"));
        assert!(!is_everybody(
            "         0          0       1000\n      1000     100000      65536\n"
        ));
    }

    #[tokio::test]
    async fn a_socket_within_a_process_names_it() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of_own_user(&one).unwrap();
        assert_eq!(peer.pid, Some(std::process::id()));
        assert_eq!(
            peer.to_string(),
            format!("process {} of user {}", std::process::id(), geteuid().as_raw())
        );
    }
}
