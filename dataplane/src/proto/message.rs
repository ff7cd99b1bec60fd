//! The messages of a session and their encoding.
//!
//! The module owns the message types that both ends of a link share, and their limits. The effects of a
//! message are defined elsewhere.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use thiserror::Error;

/// The version of this protocol, which both sides compare in `Hello` (D1.1).
pub const PROTOCOL_VERSION: u32 = 1;

/// The feature of a client that a task of a coordinated read may end without a failure (D7.5).
pub const FEATURE_COORDINATED_END: u64 = 1;

/// Maximum length of an encoded message, in bytes (D2.1). The limit is several times the size of a
/// specification with 64 components.
pub const MESSAGE_BYTES_MAX: usize = 128 * 1024;

/// Maximum length of a task's error text, in bytes. Longer texts are cut; the limit has room for a traceback.
pub const ERROR_TEXT_BYTES_MAX: usize = 16 * 1024;

/// The identifier of a task, assigned by the control plane.
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
    /// The first message of a link.
    #[n(0)]
    Hello(#[n(0)] Hello),
    /// Asks for a task's elements and presents the dispatcher's ticket for the task.
    #[n(1)]
    Subscribe(#[n(0)] Subscribe),
    /// Raises the number of elements that the worker may send.
    #[n(2)]
    Grant(#[n(0)] Grant),
    /// Ends a subscription. Elements that were sent but not received are given up.
    #[n(3)]
    Cancel(#[n(0)] Cancel),
}

/// A message from a worker to a client.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ToClient {
    /// The first message of a link.
    #[n(0)]
    Hello(#[n(0)] Hello),
    /// The worker accepts the subscription.
    #[n(1)]
    Accepted(#[n(0)] Accepted),
    /// The worker refuses the subscription.
    #[n(2)]
    Refused(#[n(0)] Refused),
    /// The worker gives back credits that it did not use.
    #[n(3)]
    Yielded(#[n(0)] Yielded),
    /// An element is ready, but every credit that the worker holds is too small for the element.
    #[n(4)]
    Need(#[n(0)] Need),
    /// The worker has sent the last element of a split.
    #[n(5)]
    SplitDone(#[n(0)] SplitDone),
    /// The task failed after the elements that were sent before.
    #[n(6)]
    TaskError(#[n(0)] TaskError),
    /// The task ended after the elements that were sent before.
    #[n(7)]
    EndOfTask(#[n(0)] EndOfTask),
    /// Groups of a coordinated read have reached every consumer.
    #[n(8)]
    Released(#[n(0)] Released),
}

/// The message that opens a link, in either direction (D1.1).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hello {
    /// The protocol version of the sender.
    #[n(0)]
    pub version: u32,
    /// Optional features of the sender, one bit each. The receiver ignores bits that it does not know.
    #[n(1)]
    pub features: u64,
}

impl Hello {
    /// Returns the hello message of this build.
    pub fn current() -> Self {
        Self {
            version: PROTOCOL_VERSION,
            features: FEATURE_COORDINATED_END,
        }
    }

    /// Returns whether the sender accepts the end of a task of a coordinated read (D7.5). Clients of earlier
    /// versions know only failures there.
    pub fn accepts_coordinated_end(&self) -> bool {
        self.features & FEATURE_COORDINATED_END != 0
    }

    /// Checks that the peer uses this version of the protocol (D1.1).
    ///
    /// # Errors
    /// Returns [`MessageError::Version`], which names both versions, if the peer uses another version.
    pub fn check(&self) -> Result<(), MessageError> {
        if self.version == PROTOCOL_VERSION {
            return Ok(());
        }
        let version = self.version;
        Err(MessageError::Version { version })
    }
}

/// The message that asks for a task's elements (D3.1).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Subscribe {
    /// The requested task.
    #[n(0)]
    pub task: TaskId,
    /// The dispatcher's proof that this client may read the task.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub ticket: Vec<u8>,
    /// The number of elements of this subscription that the client already has. The worker resumes sending
    /// after the elements that the client has (D6.1).
    #[n(2)]
    pub resume_from: u64,
    /// The number of `SplitDone` messages of this subscription that the client already has.
    #[n(3)]
    pub splits_from: u64,
    /// The name of the trainer if the task is read through the cross-trainer cache, else `None` (D8.1).
    #[n(4)]
    pub trainer_id: Option<String>,
    /// The number of earlier requests of this client for this task. The answers to the earlier requests may
    /// arrive later than the answer to this request (D3.4).
    #[n(5)]
    #[cbor(default)]
    pub asked_before: u64,
}

/// The message that raises the cumulative limit of a subscription (D4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Grant {
    /// The task whose credits are granted.
    #[n(0)]
    pub task: TaskId,
    /// The total number of elements that the worker may have sent, including credits that the worker gave
    /// back.
    #[n(1)]
    pub limit: u64,
    /// The largest element that a credit pays for from now on, in bytes. The value never shrinks.
    #[n(2)]
    pub element_bytes: u64,
    /// The number of elements that the client received without a gap. The worker drops its copies of the
    /// received elements (D6.2).
    #[n(3)]
    pub received: u64,
    /// The number of `SplitDone` messages that the client received. The worker drops its copies of the
    /// received messages (D6.2).
    #[n(4)]
    pub splits: u64,
    /// The number of received elements that still wait for the client's user. `None` if the client does not
    /// report the number (D4.6).
    #[n(5)]
    pub waiting: Option<u64>,
    /// The number of elements, from the first one on, that the client's user has finished with (D5.6). If
    /// absent, all received elements count as finished.
    #[n(6)]
    pub handed: Option<u64>,
}

/// The message that ends a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Cancel {
    /// The task that the client no longer wants.
    #[n(0)]
    pub task: TaskId,
    /// True if the client has received everything of the task. The client then reports the elements that its
    /// user has not finished with to the dispatcher by itself (D5.6).
    #[cbor(n(1), default)]
    pub has_all: bool,
}

/// The message that confirms a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Accepted {
    /// The task that the client subscribed to.
    #[n(0)]
    pub task: TaskId,
    /// The specification of the task's elements, in the encoding of the element crate.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub spec: Vec<u8>,
    /// The size of one element in bytes, as far as the worker knows it.
    #[n(2)]
    pub element_bytes: u64,
}

/// The reason for which a worker refuses a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum RefusalCode {
    /// The worker does not know the task: it never had the task, or removed the task.
    #[n(0)]
    UnknownTask,
    /// The ticket was not made for this task with this worker's key.
    #[n(1)]
    BadTicket,
    /// The elements at `resume_from` are no longer kept, or were never sent.
    #[n(2)]
    CannotResume,
    /// The worker already serves the maximum number of subscriptions.
    #[n(3)]
    TooMany,
    /// The request names a trainer although the task is not read through the cross-trainer cache, or lacks
    /// the name although it is (D8.1).
    #[n(4)]
    WrongReader,
}

/// The message that refuses a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Refused {
    /// The task that the client asked for.
    #[n(0)]
    pub task: TaskId,
    /// The reason for the refusal, for programs.
    #[n(1)]
    pub code: RefusalCode,
    /// The reason for the refusal, for people.
    #[n(2)]
    pub message: String,
}

/// The message that gives credits back (D4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Yielded {
    /// The task that had no element ready.
    #[n(0)]
    pub task: TaskId,
    /// The total number of credits given back since the subscription began.
    #[n(1)]
    pub total: u64,
}

/// The message that announces an element for which the worker needs a credit (D4.4). The message also gives
/// back the credits that the worker still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Need {
    /// The task that has an element ready.
    #[n(0)]
    pub task: TaskId,
    /// The size of the ready element, in bytes.
    #[n(1)]
    pub bytes: u64,
    /// The total number of credits given back since the subscription began.
    #[n(2)]
    pub yielded: u64,
}

/// The message that a split has no further elements (D5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SplitDone {
    /// The task that leased the split.
    #[n(0)]
    pub task: TaskId,
    /// The number of the lease that ends.
    #[n(1)]
    pub lease: u64,
    /// The attempt number of the split.
    #[n(2)]
    pub attempt: u32,
    /// The number of elements sent to this client before the split ended.
    #[n(3)]
    pub upto: u64,
}

/// The message that a task failed: the number of elements before the failure, and the party to blame (D5.3).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TaskError {
    /// The task that failed.
    #[n(0)]
    pub task: TaskId,
    /// The number of elements sent to this client before the failure.
    #[n(1)]
    pub sent: u64,
    /// The failure.
    #[n(2)]
    pub failure: Failure,
}

/// The reason for which a task stopped producing elements.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Failure {
    /// The code that names the party to blame: `user_function`, `data`, `resource`, `caller` or `internal`;
    /// or the code `failed_precondition`.
    #[n(0)]
    pub code: String,
    /// The error message.
    #[n(1)]
    pub message: String,
    /// The file, offset or key at which the task failed. Empty if the place is unknown.
    #[n(2)]
    pub origin: String,
    /// The traceback of the user function, or an empty text if there is no traceback.
    #[n(3)]
    pub traceback: String,
    /// The failed element, if another task of the job can leave the element out (C16.12).
    #[n(4)]
    pub element: Option<Box<FailedElement>>,
}

/// The element of an exactly-once job at which an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct FailedElement {
    /// The number of the split in the source.
    #[n(0)]
    pub split: u64,
    /// The id of the element in its split, which also names the operation.
    #[n(1)]
    pub id: u64,
    /// The number of elements that the split had yielded before the failure.
    #[n(2)]
    pub yielded: u64,
}

impl Failure {
    /// Makes a failure and cuts each text to [`ERROR_TEXT_BYTES_MAX`] bytes.
    pub fn new(code: &str, message: &str, origin: &str, traceback: &str) -> Self {
        let cut = |text: &str| text[..text.floor_char_boundary(ERROR_TEXT_BYTES_MAX)].to_owned();
        Self {
            code: cut(code),
            message: cut(message),
            origin: cut(origin),
            traceback: cut(traceback),
            element: None,
        }
    }

    /// Returns the code, the message and the origin, without the traceback.
    pub fn in_one_line(&self) -> String {
        let Self {
            code,
            message,
            origin,
            ..
        } = self;
        match origin.is_empty() {
            true => format!("{code}: {message}"),
            false => format!("{code}: {message} (at {origin})"),
        }
    }

    /// Returns this failure with the element that failed.
    #[must_use]
    pub fn at_element(self, element: Option<FailedElement>) -> Self {
        let element = element.map(Box::new);
        Self { element, ..self }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.in_one_line())?;
        if !self.traceback.is_empty() {
            write!(f, "\n{}", self.traceback)?;
        }
        Ok(())
    }
}

/// The message that a task ended (D5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct EndOfTask {
    /// The task that ended.
    #[n(0)]
    pub task: TaskId,
    /// The total number of elements sent to this client.
    #[n(1)]
    pub sent: u64,
}

/// The message that clients may hand over groups of a coordinated read (D7.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Released {
    /// The task whose groups are released.
    #[n(0)]
    pub task: TaskId,
    /// The number of first groups of the task that every consumer has received.
    #[n(1)]
    pub groups: u64,
}

/// The error for a message that its receiver cannot read. The sender is always at fault.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MessageError {
    /// The message exceeds [`MESSAGE_BYTES_MAX`].
    #[error("expected a message of at most {MESSAGE_BYTES_MAX} bytes, found {bytes} bytes")]
    TooLong {
        /// The announced length, in bytes.
        bytes: usize,
    },
    /// The peer's hello message has another protocol version.
    #[error("expected a hello message in protocol version {PROTOCOL_VERSION}, found version {version}")]
    Version {
        /// The protocol version of the peer.
        version: u32,
    },
    /// The bytes are not a valid message of this protocol version.
    #[error("invalid message: {0}")]
    Malformed(String),
}

/// Encodes a message. Returns an error only if the encoded message exceeds [`MESSAGE_BYTES_MAX`].
pub fn encode<M: Encode<()>>(message: &M) -> Result<Vec<u8>, MessageError> {
    let bytes = minicbor::to_vec(message).map_err(|error| MessageError::Malformed(error.to_string()))?;
    check_length(bytes.len())?;
    Ok(bytes)
}

/// Decodes a message (D1.2). Skips unknown fields. Any other unexpected byte is an error, never a panic.
pub fn decode<'b, M: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<M, MessageError> {
    check_length(bytes.len())?;
    let malformed = |error: String| MessageError::Malformed(error);
    let mut decoder = minicbor::Decoder::new(bytes);
    let message = decoder.decode().map_err(|error| malformed(error.to_string()))?;
    match bytes.len() - decoder.position() {
        0 => Ok(message),
        left => Err(malformed(format!(
            "expected the end of the message, found {left} more bytes"
        ))),
    }
}

/// Checks an announced length before memory is allocated for the message (D2.1).
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

    /// D1.2: a receiver skips an unknown field that a newer peer sent.
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
