//! The messages of a session and their encoding.
//!
//! Owns the vocabulary that two ends of a link share and its bounds. Refuses to know what a message causes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use thiserror::Error;

/// The version of this protocol, agreed in `Hello` (D1.1).
pub const PROTOCOL_VERSION: u32 = 1;

/// Longest encoded message, in bytes (D2.1). A specification of 64 components fits several times over.
pub const MESSAGE_BYTES_MAX: usize = 128 * 1024;

/// Longest error text kept of a task, in bytes; the rest is cut. Long enough for a traceback.
pub const ERROR_TEXT_BYTES_MAX: usize = 16 * 1024;

/// A task's identifier, as the control plane numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct TaskId(#[n(0)] pub u64);

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A message from a client to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ToWorker {
    /// First message of a link.
    #[n(0)]
    Hello(#[n(0)] Hello),
    /// Asks for a task's elements, presenting the dispatcher's ticket for it.
    #[n(1)]
    Subscribe(#[n(0)] Subscribe),
    /// Raises the number of elements the worker may send.
    #[n(2)]
    Grant(#[n(0)] Grant),
    /// Ends a subscription; what was sent and not received is given up.
    #[n(3)]
    Cancel(#[n(0)] Cancel),
}

/// A message from a worker to a client.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ToClient {
    /// First message of a link.
    #[n(0)]
    Hello(#[n(0)] Hello),
    /// The subscription stands.
    #[n(1)]
    Accepted(#[n(0)] Accepted),
    /// The subscription does not stand.
    #[n(2)]
    Refused(#[n(0)] Refused),
    /// Credits given back unused.
    #[n(3)]
    Yielded(#[n(0)] Yielded),
    /// An element is ready that no credit held is worth.
    #[n(4)]
    Need(#[n(0)] Need),
    /// A split's last element was sent.
    #[n(5)]
    SplitDone(#[n(0)] SplitDone),
    /// The task failed after the elements sent.
    #[n(6)]
    TaskError(#[n(0)] TaskError),
    /// The task ended after the elements sent.
    #[n(7)]
    EndOfTask(#[n(0)] EndOfTask),
    /// Groups of a coordinated read have reached every consumer.
    #[n(8)]
    Released(#[n(0)] Released),
}

/// Opens a link in either direction (D1.1).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hello {
    /// Protocol version spoken.
    #[n(0)]
    pub version: u32,
    /// Optional abilities, one bit each; unknown bits are ignored.
    #[n(1)]
    pub features: u64,
}

impl Hello {
    /// The greeting of this build.
    pub fn current() -> Self {
        Self {
            version: PROTOCOL_VERSION,
            features: 0,
        }
    }

    /// Checks that the peer who greets speaks this version (D1.1).
    ///
    /// # Errors
    /// It speaks another; the error names both.
    pub fn check(&self) -> Result<(), MessageError> {
        if self.version == PROTOCOL_VERSION {
            return Ok(());
        }
        let version = self.version;
        Err(MessageError::Version { version })
    }
}

/// Asks for a task's elements (D3.1).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Subscribe {
    /// The task wanted.
    #[n(0)]
    pub task: TaskId,
    /// The dispatcher's proof that this client may read it.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub ticket: Vec<u8>,
    /// Elements of this subscription that the client already has; sending resumes behind them (D6.1).
    #[n(2)]
    pub resume_from: u64,
    /// `SplitDone` messages of this subscription that the client already has.
    #[n(3)]
    pub splits_from: u64,
    /// The name of the trainer, where the task is read through the cross-trainer cache, and only there
    /// (D8.1).
    #[n(4)]
    pub trainer_id: Option<String>,
    /// The number of times that this client had asked for this task before. Answers to these may arrive later
    /// (D3.4).
    #[n(5)]
    #[cbor(default)]
    pub asked_before: u64,
}

/// Raises the cumulative limit of a subscription (D4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Grant {
    /// The task granted to.
    #[n(0)]
    pub task: TaskId,
    /// Elements the worker may have sent in all, yielded credits included.
    #[n(1)]
    pub limit: u64,
    /// Largest element a credit is worth from now on, in bytes; never shrinks.
    #[n(2)]
    pub element_bytes: u64,
    /// Elements received without a gap; the worker forgets them (D6.2).
    #[n(3)]
    pub received: u64,
    /// `SplitDone` messages received; the worker forgets them (D6.2).
    #[n(4)]
    pub splits: u64,
    /// Elements of those received that wait to be handed over, if the client says so (D4.6).
    #[n(5)]
    pub waiting: Option<u64>,
    /// Elements of the subscription that the client's user is done with, from the first on (D5.6). A client
    /// that does not say counts as done with all that it received.
    #[n(6)]
    pub handed: Option<u64>,
}

/// Ends a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Cancel {
    /// The task no longer wanted.
    #[n(0)]
    pub task: TaskId,
    /// The client has received everything of it: what its user is not done with, the dispatcher hears from
    /// the client (D5.6).
    #[cbor(n(1), default)]
    pub has_all: bool,
}

/// Confirms a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Accepted {
    /// The task subscribed to.
    #[n(0)]
    pub task: TaskId,
    /// The specification of its elements, encoded by the element crate.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub spec: Vec<u8>,
    /// The bytes of one element, as far as they are known.
    #[n(2)]
    pub element_bytes: u64,
}

/// Why a subscription does not stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum RefusalCode {
    /// The worker has no such task (never had, or no longer).
    #[n(0)]
    UnknownTask,
    /// The ticket is not one that this worker's key made for this task.
    #[n(1)]
    BadTicket,
    /// `resume_from` names elements that are no longer kept, or were never sent.
    #[n(2)]
    CannotResume,
    /// The worker serves as many subscriptions as it may.
    #[n(3)]
    TooMany,
    /// A trainer is to be named where, and only where, the task is read through the cross-trainer cache
    /// (D8.1).
    #[n(4)]
    WrongReader,
}

/// Denies a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Refused {
    /// The task asked for.
    #[n(0)]
    pub task: TaskId,
    /// The reason, for programs.
    #[n(1)]
    pub code: RefusalCode,
    /// The reason, for people.
    #[n(2)]
    pub message: String,
}

/// Gives credits back (D4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Yielded {
    /// The task that had nothing ready.
    #[n(0)]
    pub task: TaskId,
    /// Credits given back in all, since the subscription.
    #[n(1)]
    pub total: u64,
}

/// Says that an element waits for a credit (D4.4). Credits still held are given back with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Need {
    /// The task that has an element ready.
    #[n(0)]
    pub task: TaskId,
    /// The size of that element.
    #[n(1)]
    pub bytes: u64,
    /// Credits given back in all, since the subscription.
    #[n(2)]
    pub yielded: u64,
}

/// Says that a split has no further elements (D5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SplitDone {
    /// The task it was leased to.
    #[n(0)]
    pub task: TaskId,
    /// The lease that ends.
    #[n(1)]
    pub lease: u64,
    /// The number of the attempt at the split.
    #[n(2)]
    pub attempt: u32,
    /// Elements sent to this client when the split ended.
    #[n(3)]
    pub upto: u64,
}

/// The blame and place of a task's failure (D5.3).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TaskError {
    /// The task that failed.
    #[n(0)]
    pub task: TaskId,
    /// Elements sent to this client before the failure.
    #[n(1)]
    pub sent: u64,
    /// The failure.
    #[n(2)]
    pub failure: Failure,
}

/// Why a task stopped producing.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Failure {
    /// The party to blame: `user_function`, `data`, `resource`, `caller`, `internal`; or
    /// `failed_precondition`.
    #[n(0)]
    pub code: String,
    /// The message about the fault.
    #[n(1)]
    pub message: String,
    /// The place of the fault: file, offset, key; empty when unknown.
    #[n(2)]
    pub origin: String,
    /// The traceback of a user function; empty when there is none.
    #[n(3)]
    pub traceback: String,
}

impl Failure {
    /// A failure whose texts are cut to [`ERROR_TEXT_BYTES_MAX`].
    pub fn new(code: &str, message: &str, origin: &str, traceback: &str) -> Self {
        let cut = |text: &str| text[..text.floor_char_boundary(ERROR_TEXT_BYTES_MAX)].to_owned();
        Self {
            code: cut(code),
            message: cut(message),
            origin: cut(origin),
            traceback: cut(traceback),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if !self.origin.is_empty() {
            write!(f, " (at {})", self.origin)?;
        }
        if !self.traceback.is_empty() {
            write!(f, "\n{}", self.traceback)?;
        }
        Ok(())
    }
}

/// The end of a task (D5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct EndOfTask {
    /// The task that ended.
    #[n(0)]
    pub task: TaskId,
    /// Elements sent to this client in all.
    #[n(1)]
    pub sent: u64,
}

/// Says that groups of a coordinated read may be handed over (D7.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Released {
    /// The task they are of.
    #[n(0)]
    pub task: TaskId,
    /// The number of its first groups that every consumer has.
    #[n(1)]
    pub groups: u64,
}

/// A message that its receiver cannot read; always the sender's fault.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MessageError {
    /// The message is longer than any may be.
    #[error("message of {bytes} bytes is longer than the {MESSAGE_BYTES_MAX} allowed")]
    TooLong {
        /// The length announced.
        bytes: usize,
    },
    /// The peer greets in another version.
    #[error("hello in version {version} of the protocol, but this side speaks version {PROTOCOL_VERSION}")]
    Version {
        /// The version it speaks.
        version: u32,
    },
    /// The bytes are no message of the version spoken.
    #[error("message cannot be decoded: {0}")]
    Malformed(String),
}

/// Encodes a message. Fails only on one longer than [`MESSAGE_BYTES_MAX`].
pub fn encode<M: Encode<()>>(message: &M) -> Result<Vec<u8>, MessageError> {
    let bytes = minicbor::to_vec(message).map_err(|error| MessageError::Malformed(error.to_string()))?;
    check_length(bytes.len())?;
    Ok(bytes)
}

/// Decodes a message (D1.2). Unknown fields are skipped; any other surprise is an error, never a panic.
pub fn decode<'b, M: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<M, MessageError> {
    check_length(bytes.len())?;
    let malformed = |error: String| MessageError::Malformed(error);
    let mut decoder = minicbor::Decoder::new(bytes);
    let message = decoder.decode().map_err(|error| malformed(error.to_string()))?;
    match bytes.len() - decoder.position() {
        0 => Ok(message),
        left => Err(malformed(format!("{left} bytes follow its end"))),
    }
}

/// Checks an announced length before anything is allocated for it (D2.1).
pub fn check_length(bytes: usize) -> Result<(), MessageError> {
    if bytes > MESSAGE_BYTES_MAX {
        Err(MessageError::TooLong { bytes })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// D1.2: a newer peer's extra field is skipped.
    #[test]
    fn unknown_fields_are_skipped() {
        #[derive(Encode)]
        struct Newer {
            #[n(0)]
            task: u64,
            #[n(1)]
            total: u64,
            #[n(2)]
            extra: String,
        }
        let bytes = minicbor::to_vec(Newer {
            task: 4,
            total: 9,
            extra: "later".into(),
        })
        .unwrap();
        assert_eq!(
            decode::<Yielded>(&bytes),
            Ok(Yielded {
                task: TaskId(4),
                total: 9
            })
        );
    }

    /// D1.1.
    #[test]
    fn another_version_is_refused_and_both_are_named() {
        assert_eq!(Hello::current().check(), Ok(()));
        let version = PROTOCOL_VERSION + 41;
        let error = Hello { version, features: 0 }.check().unwrap_err().to_string();
        assert!(
            error.contains(&version.to_string()) && error.contains(&PROTOCOL_VERSION.to_string()),
            "{error}"
        );
    }

    #[test]
    fn what_follows_a_message_is_refused() {
        let mut bytes = encode(&ToWorker::Hello(Hello::current())).unwrap();
        bytes.push(0);
        assert!(matches!(
            decode::<ToWorker>(&bytes),
            Err(MessageError::Malformed(_))
        ));
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let failure = Failure::new("data", &"é".repeat(ERROR_TEXT_BYTES_MAX), "", "");
        assert!(failure.message.len() <= ERROR_TEXT_BYTES_MAX);
    }

    /// D2.1.
    #[test]
    fn an_absurd_length_is_refused() {
        assert_eq!(
            check_length(usize::MAX),
            Err(MessageError::TooLong { bytes: usize::MAX })
        );
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = decode::<ToWorker>(&bytes);
            let _ = decode::<ToClient>(&bytes);
        }

        #[test]
        fn messages_survive_the_wire(task: u64, limit: u64, element_bytes: u64, received: u64, splits: u64, waiting: Option<u64>, handed: Option<u64>, ticket: Vec<u8>, trainer: Option<String>) {
            for message in [
                ToWorker::Grant(Grant { task: TaskId(task), limit, element_bytes, received, splits, waiting, handed }),
                ToWorker::Subscribe(Subscribe { task: TaskId(task), ticket, resume_from: limit, splits_from: splits, trainer_id: trainer, asked_before: received }),
            ] {
                prop_assert_eq!(decode::<ToWorker>(&encode(&message).unwrap()).unwrap(), message);
            }
        }
    }
}
