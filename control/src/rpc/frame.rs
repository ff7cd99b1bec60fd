//! The frames of messages, and the limits of their sizes (C1.2, C1.3).

use bytes::Bytes;
use minicbor::{Decode, Encode};
use quinn::{ReadExactError, ReadToEndError, RecvStream, SendStream};

/// Bytes of a small request, and of a message from a client on the long-lived stream.
pub(crate) const SMALL_BYTES_MAX: usize = 64 << 10;
/// Bytes that a request may have beyond the definition it carries.
pub(crate) const LARGE_EXTRA_BYTES_MAX: usize = 64 << 10;
/// Bytes of an answer: a definition or a listing of millions of files.
pub(crate) const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Bytes of a message from the dispatcher on the long-lived stream.
pub(crate) const PUSH_BYTES_MAX: usize = 16 << 20;

/// The first byte of a request: how many bytes may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeClass {
    Small,
    /// A dataset's definition: from those who may register one.
    Large,
}

impl SizeClass {
    pub(crate) fn code(self) -> u8 {
        match self {
            SizeClass::Small => 1,
            SizeClass::Large => 2,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<SizeClass> {
        match code {
            1 => Some(SizeClass::Small),
            2 => Some(SizeClass::Large),
            _ => None,
        }
    }
}

/// Why no message could be exchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The connection or the stream is gone: the peer's or the network's fault.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The peer says more than is allowed.
    #[error("a message of {found_bytes} bytes is longer than the {limit_bytes} allowed")]
    TooLong { found_bytes: usize, limit_bytes: usize },
    /// The peer says what cannot be understood.
    #[error("a message cannot be read: {0}")]
    Malformed(String),
}

/// A message's bytes.
pub(crate) fn encode<T: Encode<()>>(message: &T) -> Vec<u8> {
    minicbor::to_vec(message).expect("a vector takes all bytes, and no message refuses to be encoded")
}

/// The message in these bytes.
pub(crate) fn decode<T: for<'b> Decode<'b, ()>>(bytes: &[u8]) -> Result<T, FrameError> {
    minicbor::decode(bytes).map_err(|error| FrameError::Malformed(error.to_string()))
}

/// Writes a message with its length before it, unless it is longer than the peer would read. Not cancel-safe.
pub(crate) async fn write<T: Encode<()>>(stream: &mut SendStream, message: &T) -> Result<(), FrameError> {
    let mut framed = vec![0; 4];
    minicbor::encode(message, &mut framed)
        .expect("a vector takes all bytes, and no message refuses to be encoded");
    let found_bytes = framed.len() - 4;
    let length = u32::try_from(found_bytes)
        .ok()
        .filter(|_| found_bytes <= PUSH_BYTES_MAX)
        .ok_or(FrameError::TooLong {
            found_bytes,
            limit_bytes: PUSH_BYTES_MAX,
        })?;
    framed[..4].copy_from_slice(&length.to_le_bytes());
    stream
        .write_chunk(Bytes::from(framed))
        .await
        .map_err(|error| FrameError::Lost(error.to_string()))
}

/// Reads a message with its length before it; the length is checked before memory is taken. Not cancel-safe.
pub(crate) async fn read<T: for<'b> Decode<'b, ()>>(
    stream: &mut RecvStream,
    limit_bytes: usize,
) -> Result<T, FrameError> {
    let mut length = [0; 4];
    read_exact(stream, &mut length).await?;
    let found_bytes = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if found_bytes > limit_bytes {
        return Err(FrameError::TooLong {
            found_bytes,
            limit_bytes,
        });
    }
    let mut bytes = vec![0; found_bytes];
    read_exact(stream, &mut bytes).await?;
    decode(&bytes)
}

/// Reads exactly so many bytes. Not cancel-safe.
pub(crate) async fn read_exact(stream: &mut RecvStream, bytes: &mut [u8]) -> Result<(), FrameError> {
    stream.read_exact(bytes).await.map_err(|error| match error {
        ReadExactError::FinishedEarly(found) => {
            FrameError::Malformed(format!("it ends after {found} of {} bytes", bytes.len()))
        }
        ReadExactError::ReadError(error) => FrameError::Lost(error.to_string()),
    })
}

/// Reads what remains of a stream. Not cancel-safe.
pub(crate) async fn read_rest(stream: &mut RecvStream, limit_bytes: usize) -> Result<Vec<u8>, FrameError> {
    stream
        .read_to_end(limit_bytes)
        .await
        .map_err(|error| match error {
            ReadToEndError::TooLong => FrameError::TooLong {
                found_bytes: limit_bytes + 1,
                limit_bytes,
            },
            ReadToEndError::Read(error) => FrameError::Lost(error.to_string()),
        })
}
