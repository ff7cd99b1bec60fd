//! The messages on the socket of a link and their encoding. Each datagram is one message, with the
//! descriptors of its kind (D9.2).
//!
//! The module owns the message types and their limits. Sockets and the effects of messages are unknown to it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use thiserror::Error;

use crate::transport::LinkLost;

/// The version of the shared-memory transport: of the datagrams and of the layout of the shared memory
/// (D9.3).
pub const SHM_VERSION: u32 = 1;

/// Maximum length of a datagram, in bytes. The limit is several times the longest message, and small enough
/// for a buffer on the stack.
pub const DATAGRAM_BYTES_MAX: usize = 4096;

/// Maximum number of descriptors with one datagram. A descriptor is the memory of a link or of a task.
pub const FDS_MAX: usize = 1;

/// Maximum length of a closing reason, in bytes. A longer text is cut.
const REASON_BYTES_MAX: usize = 1024;

/// A message over the socket of a link.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Datagram {
    /// The client's first message.
    #[n(0)]
    ClientHello(#[n(0)] ClientHello),
    /// The worker's answer, with the descriptor of the control memory.
    #[n(1)]
    WorkerHello(#[n(0)] WorkerHello),
    /// The announcement of memory in which packs will be located, with its descriptor.
    #[n(2)]
    Arena(#[n(0)] ArenaAnnouncement),
    /// The reason for which the sender closes the link.
    #[n(3)]
    Close(#[n(0)] Close),
    /// A message that wakes the receiver, or shows that the sender lives (D10.8). The wake-up uses a socket
    /// and not an event, because a peer cannot make the sender of a datagram wait.
    #[n(4)]
    Ring,
}

/// The message with which a client opens a link (D9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ClientHello {
    /// The version that the client uses.
    #[n(0)]
    pub version: u32,
}

/// The worker's answer to a client's hello (D9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct WorkerHello {
    /// The version that the worker uses.
    #[n(0)]
    pub version: u32,
    /// The sizes of the parts of the control memory.
    #[n(1)]
    pub sizes: ControlSizes,
}

/// The sizes of the parts of the control memory that the worker created. A client compares them with the
/// received memory and its own limits before it maps anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ControlSizes {
    /// The size of the whole control memory, in bytes.
    #[n(0)]
    pub control_bytes: u64,
    /// The size of the ring from worker to client, in 64-bit words.
    #[n(1)]
    pub down_words: u32,
    /// The size of the ring from client to worker, in 64-bit words.
    #[n(2)]
    pub up_words: u32,
    /// Maximum number of leases that the client may hold at once, which is also the capacity of the return
    /// ring.
    #[n(3)]
    pub leases: u32,
}

/// The announcement of an arena, sent once on a link before the first pack in the arena (D9.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ArenaAnnouncement {
    /// The number of the arena, unique on the link.
    #[n(0)]
    pub arena: u64,
    /// The size of the arena, in bytes.
    #[n(1)]
    pub bytes: u64,
}

/// The message that states why the sender closes the link (D9.5).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Close {
    /// The kind of the reason.
    #[n(0)]
    pub code: CloseCode,
    /// The reason, for people.
    #[n(1)]
    pub text: String,
}

/// The kind of a reason for closing a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum CloseCode {
    /// The sender no longer needs the link, or lacks a resource.
    #[n(0)]
    Done,
    /// The receiver violated the protocol.
    #[n(1)]
    Blamed,
    /// The receiver is a process of another user.
    #[n(2)]
    OtherUser,
    /// The worker has the maximum number of links.
    #[n(3)]
    Full,
    /// The two sides use different versions.
    #[n(4)]
    Version,
}

impl Close {
    /// Makes a close message with this reason, cut to the maximum length.
    pub fn new(code: CloseCode, text: impl Into<String>) -> Self {
        let mut text = text.into();
        let end = (0..=REASON_BYTES_MAX.min(text.len())).rfind(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
        Self { code, text }
    }

    /// Returns the message that tells the peer why a link ends.
    pub fn of(why: &LinkLost) -> Self {
        match why.as_heard() {
            LinkLost::Blamed(reason) => Self::new(CloseCode::Blamed, reason),
            LinkLost::Closed(reason)
            | LinkLost::Broken(reason)
            | LinkLost::Misbehaved(reason)
            | LinkLost::Full(reason)
            | LinkLost::Resource(reason) => Self::new(CloseCode::Done, reason),
        }
    }

    /// Returns the reason for the end of the link at the process that received the message.
    pub fn into_lost(self) -> LinkLost {
        match self.code {
            CloseCode::Blamed | CloseCode::Version => LinkLost::Blamed(self.text),
            CloseCode::Full => LinkLost::Full(self.text),
            CloseCode::Done | CloseCode::OtherUser => LinkLost::Closed(self.text),
        }
    }
}

/// The reason for which a datagram is not a valid message. The peer is at fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DatagramError {
    /// The bytes cannot be decoded.
    #[error("invalid message in a datagram of {bytes} bytes: {reason}")]
    Malformed {
        /// The number of bytes in the datagram.
        bytes: usize,
        /// The fault that the decoder found.
        reason: String,
    },
    /// The datagram contains more bytes after the message.
    #[error("expected the end of the message, found {0} more bytes in the datagram")]
    Trailing(usize),
    /// The number of descriptors differs from the number for the message's kind.
    #[error("expected {expected} descriptors with the message, found {came}")]
    Descriptors {
        /// The number of descriptors for the message's kind.
        expected: usize,
        /// The number of descriptors received.
        came: usize,
    },
}

impl From<DatagramError> for LinkLost {
    fn from(error: DatagramError) -> Self {
        Self::Misbehaved(error.to_string())
    }
}

impl Datagram {
    /// Returns the number of descriptors that are sent with the message (D9.2).
    pub fn fds(&self) -> usize {
        match self {
            Self::WorkerHello(_) | Self::Arena(_) => 1,
            Self::ClientHello(_) | Self::Close(_) | Self::Ring => 0,
        }
    }

    /// Returns the encoded message, of at most [`DATAGRAM_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// Returns an error if the message cannot be encoded, which is a fault of this side.
    pub fn to_bytes(&self) -> Result<Vec<u8>, LinkLost> {
        minicbor::to_vec(self)
            .map_err(|error| LinkLost::Resource(format!("cannot encode a message: {error}")))
    }

    /// Decodes a message that was received with `fds` descriptors.
    ///
    /// # Errors
    /// Returns an error if the bytes are not exactly one message, or if the number of descriptors is wrong
    /// (D9.2).
    pub fn from_bytes(bytes: &[u8], fds: usize) -> Result<Self, DatagramError> {
        let mut decoder = minicbor::Decoder::new(bytes);
        let datagram: Self = decoder.decode().map_err(|error| DatagramError::Malformed {
            bytes: bytes.len(),
            reason: error.to_string(),
        })?;
        if decoder.position() < bytes.len() {
            return Err(DatagramError::Trailing(bytes.len() - decoder.position()));
        }
        if fds != datagram.fds() {
            return Err(DatagramError::Descriptors {
                expected: datagram.fds(),
                came: fds,
            });
        }
        Ok(datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_datagram() -> impl Strategy<Value = Datagram> {
        let code = prop_oneof![
            Just(CloseCode::Done),
            Just(CloseCode::Blamed),
            Just(CloseCode::OtherUser),
            Just(CloseCode::Full),
            Just(CloseCode::Version),
        ];
        let sizes = any::<(u64, u32, u32, u32)>().prop_map(|sizes| ControlSizes {
            control_bytes: sizes.0,
            down_words: sizes.1,
            up_words: sizes.2,
            leases: sizes.3,
        });
        prop_oneof![
            any::<u32>().prop_map(|version| Datagram::ClientHello(ClientHello { version })),
            (any::<u32>(), sizes)
                .prop_map(|(version, sizes)| Datagram::WorkerHello(WorkerHello { version, sizes })),
            any::<(u64, u64)>()
                .prop_map(|(arena, bytes)| Datagram::Arena(ArenaAnnouncement { arena, bytes })),
            (code, ".{0,2000}").prop_map(|(code, text)| Datagram::Close(Close::new(code, text))),
            Just(Datagram::Ring),
        ]
    }

    #[test]
    fn the_blame_reaches_the_other_end() {
        let heard = |why: LinkLost| Close::of(&why).into_lost();
        assert_eq!(
            heard(LinkLost::Misbehaved("7".into())),
            LinkLost::Blamed("7".into())
        );
        for mine in [LinkLost::Resource("7".into()), LinkLost::Broken("7".into())] {
            assert!(matches!(heard(mine), LinkLost::Closed(_)));
        }
    }

    #[test]
    fn unknown_fields_are_skipped_and_kinds_refused() {
        // The client's hello with a field that this version does not have: [0, [[1, "later"]]].
        let later = [0x82, 0x00, 0x81, 0x82, 0x01, 0x65, b'l', b'a', b't', b'e', b'r'];
        let hello = Datagram::ClientHello(ClientHello { version: 1 });
        assert_eq!(Datagram::from_bytes(&later, 0), Ok(hello.clone()));
        let mut unknown = hello.to_bytes().unwrap();
        unknown[1] = 9;
        assert!(matches!(
            Datagram::from_bytes(&unknown, 0),
            Err(DatagramError::Malformed { .. })
        ));
    }

    proptest! {
        #[test]
        fn a_message_keeps_its_own_descriptors(datagram in any_datagram(), fds in 0usize..6) {
            // D9.2
            let bytes = datagram.to_bytes().unwrap();
            prop_assert!(bytes.len() <= DATAGRAM_BYTES_MAX && datagram.fds() <= FDS_MAX);
            let heard = Datagram::from_bytes(&bytes, fds);
            if fds == datagram.fds() {
                prop_assert_eq!(heard, Ok(datagram));
            } else {
                let expected = datagram.fds();
                prop_assert_eq!(heard, Err(DatagramError::Descriptors { expected, came: fds }));
            }
        }

        #[test]
        fn what_is_cut_or_followed_is_no_message(
            datagram in any_datagram(),
            keep in any::<prop::sample::Index>(),
            behind in prop::collection::vec(any::<u8>(), 1..9),
        ) {
            let whole = datagram.to_bytes().unwrap();
            let cut = &whole[..keep.index(whole.len())];
            prop_assert!(Datagram::from_bytes(cut, datagram.fds()).is_err());
            let followed = [whole, behind.clone()].concat();
            prop_assert_eq!(
                Datagram::from_bytes(&followed, datagram.fds()),
                Err(DatagramError::Trailing(behind.len()))
            );
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), fds in 0usize..5) {
            let _ = Datagram::from_bytes(&bytes, fds);
        }

        #[test]
        fn damaged_messages_are_others_or_errors(
            datagram in any_datagram(),
            place in any::<prop::sample::Index>(),
            byte: u8,
        ) {
            let mut bytes = datagram.to_bytes().unwrap();
            let place = place.index(bytes.len());
            bytes[place] = byte;
            if let Ok(other) = Datagram::from_bytes(&bytes, datagram.fds()) {
                prop_assert_eq!(other.fds(), datagram.fds());
            }
        }
    }
}
