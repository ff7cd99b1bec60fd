//! Identifies the process at the other end of a socket with the kernel's help, and checks that it belongs to
//! this user.
//!
//! The messages on the socket are unknown to this module.

use std::fmt;

use rustix::process::geteuid;
use thiserror::Error;
use tokio::net::UnixStream;

/// The process at the other end of a socket, as it was when it connected or began to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The effective user, numbered as in this process's user namespace.
    pub uid: u32,
    /// The process id, or `None` if this process cannot see the peer, for example in another container.
    pub pid: Option<u32>,
}

impl Peer {
    /// Returns the peer of a socket if the peer is a process of this user (D9.1).
    ///
    /// # Errors
    /// Returns an error if the peer belongs to another user, or if its user cannot be determined.
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
            None => write!(f, "a process of user {} that is not visible here", self.uid),
        }
    }
}

/// The reason for which this process does not share memory with a peer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PeerError {
    /// The process belongs to another user.
    #[error(
        "other user: expected a process of user {ours}, found {peer}; memory is shared within one user only"
    )]
    OtherUser {
        /// The process at the other end.
        peer: Peer,
        /// The id of the user of this process.
        ours: u32,
    },
    /// The user of the process cannot be identified. In this user namespace, all users without a number look
    /// like this user.
    #[error(
        "user {ours} represents all unknown users in this user namespace, so that users cannot be distinguished: run as \
         another user to share memory"
    )]
    Nobody {
        /// The id of the user of this process.
        ours: u32,
    },
    /// The system does not identify the process.
    #[error("the system does not identify the user of the process at the other end: {0}")]
    Unknown(String),
}

/// Returns whether users without a number in this user namespace look like `uid`. Outside of user namespaces
/// every user has a number.
fn is_shared_by_strangers(uid: u32) -> std::io::Result<bool> {
    let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid")?;
    if overflow.trim().parse() != Ok(uid) {
        return Ok(false);
    }
    let map = std::fs::read_to_string("/proc/self/uid_map")?;
    Ok(!is_everybody(&map))
}

/// Returns whether the map of a user namespace contains all users, each with its own number.
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
