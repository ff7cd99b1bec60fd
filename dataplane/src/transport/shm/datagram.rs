//! The messages on the socket of a link, and their encoding: one message a datagram, with the descriptors
//! that its kind has (D9.2).
//!
//! This file owns the vocabulary and its bounds. It does not know sockets, nor the effect of a message.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use thiserror::Error;

use crate::transport::LinkLost;

/// The version of what is shared: of these messages and of the layout of the memory behind them (D9.3).
pub const SHM_VERSION: u32 = 1;

/// Longest datagram, in bytes: several times what the longest message takes, and small enough to be read into
/// the stack.
pub const DATAGRAM_BYTES_MAX: usize = 4096;

/// Most descriptors that come with one datagram: memory, of a link or of a task.
pub const FDS_MAX: usize = 1;

/// Longest reason that is sent along, in bytes; the rest is cut.
const REASON_BYTES_MAX: usize = 1024;

/// One message over the socket of a link.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Datagram {
    /// The client's first message.
    #[n(0)]
    ClientHello(#[n(0)] ClientHello),
    /// The worker's answer, with the descriptor of the control memory.
    #[n(1)]
    WorkerHello(#[n(0)] WorkerHello),
    /// Memory in which packs will lie, with its descriptor.
    #[n(2)]
    Arena(#[n(0)] ArenaAnnouncement),
    /// Why the sender closes the link.
    #[n(3)]
    Close(#[n(0)] Close),
    /// Wakes the receiver, or says that the sender lives (D10.8). A socket and not an event: no peer can make
    /// a process wait that sends to it.
    #[n(4)]
    Ring,
}

/// Opens a link (D9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ClientHello {
    /// The version spoken.
    #[n(0)]
    pub version: u32,
}

/// Answers a client's hello (D9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct WorkerHello {
    /// The version spoken.
    #[n(0)]
    pub version: u32,
    /// The sizes of the parts of the control memory.
    #[n(1)]
    pub sizes: ControlSizes,
}

/// Sizes of the parts of the control memory, as the worker made it. A client holds them against the memory it
/// was handed and its own limits before it maps anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ControlSizes {
    /// Bytes of the whole.
    #[n(0)]
    pub control_bytes: u64,
    /// 64-bit words of the ring from worker to client.
    #[n(1)]
    pub down_words: u32,
    /// 64-bit words of the ring from client to worker.
    #[n(2)]
    pub up_words: u32,
    /// Leases that the client may hold at once, which is what the ring that returns them has room for.
    #[n(3)]
    pub leases: u32,
}

/// Announces an arena, once on a link, before the first pack that lies in it (D9.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ArenaAnnouncement {
    /// The number, which no other arena of this worker has or had.
    #[n(0)]
    pub arena: u64,
    /// The bytes.
    #[n(1)]
    pub bytes: u64,
}

/// Says why the sender closes the link (D9.5).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Close {
    /// The kind of the reason.
    #[n(0)]
    pub code: CloseCode,
    /// The reason, for people.
    #[n(1)]
    pub text: String,
}

/// Kinds of reasons to close a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum CloseCode {
    /// Nothing more is wanted, or the sender ran out of something.
    #[n(0)]
    Done,
    /// The receiver broke the protocol.
    #[n(1)]
    Blamed,
    /// The receiver is another user's process.
    #[n(2)]
    OtherUser,
    /// The worker has as many links as it takes.
    #[n(3)]
    Full,
    /// The two speak different versions.
    #[n(4)]
    Version,
}

impl Close {
    /// Makes a close message with this reason, cut where it is too long.
    pub fn new(code: CloseCode, text: impl Into<String>) -> Self {
        let mut text = text.into();
        let end = (0..=REASON_BYTES_MAX.min(text.len())).rfind(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
        Self { code, text }
    }

    /// Returns the message that the peer hears of the end of a link.
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

    /// Returns the meaning of the message for the link of the process that hears it.
    pub fn into_lost(self) -> LinkLost {
        match self.code {
            CloseCode::Blamed | CloseCode::Version => LinkLost::Blamed(self.text),
            CloseCode::Full => LinkLost::Full(self.text),
            CloseCode::Done | CloseCode::OtherUser => LinkLost::Closed(self.text),
        }
    }
}

/// Why bytes are no message; the peer's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DatagramError {
    /// They do not decode.
    #[error("datagram of {bytes} bytes is no message: {reason}")]
    Malformed {
        /// The number of bytes.
        bytes: usize,
        /// The fault that the decoder found.
        reason: String,
    },
    /// Something follows the message.
    #[error("{0} bytes behind a message in one datagram")]
    Trailing(usize),
    /// The message comes with other descriptors than its kind has.
    #[error("a message that comes with {expected} descriptors came with {came}")]
    Descriptors {
        /// The number of descriptors that its kind has.
        expected: usize,
        /// The number of descriptors that came.
        came: usize,
    },
}

impl From<DatagramError> for LinkLost {
    fn from(error: DatagramError) -> Self {
        Self::Misbehaved(error.to_string())
    }
}

impl Datagram {
    /// Returns how many descriptors come with it (D9.2).
    pub fn fds(&self) -> usize {
        match self {
            Self::WorkerHello(_) | Self::Arena(_) => 1,
            Self::ClientHello(_) | Self::Close(_) | Self::Ring => 0,
        }
    }

    /// The bytes, at most [`DATAGRAM_BYTES_MAX`].
    ///
    /// # Errors
    /// It has no encoding, which is a fault of this side.
    pub fn to_bytes(&self) -> Result<Vec<u8>, LinkLost> {
        minicbor::to_vec(self)
            .map_err(|error| LinkLost::Resource(format!("a message has no encoding: {error}")))
    }

    /// The message that these bytes are, if they came with the descriptors it has.
    ///
    /// # Errors
    /// They are none, are followed by others, or came with other descriptors (D9.2).
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
