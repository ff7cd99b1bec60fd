//! The framing of messages, and the limits of their sizes (C1.2, C1.3).

use bytes::Bytes;
use minicbor::{Decode, Encode};
use quinn::{ReadExactError, ReadToEndError, RecvStream, SendStream};

/// Maximum bytes of a small request, and of a client's message on the long-lived stream.
pub(crate) const SMALL_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of a large request beyond the definition that it carries.
pub(crate) const LARGE_EXTRA_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of an answer: a definition, or a listing of millions of files.
pub(crate) const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Maximum bytes of a dispatcher's message on the long-lived stream.
pub(crate) const PUSH_BYTES_MAX: usize = 16 << 20;

/// The size class of a request, which is its first byte and limits the bytes that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeClass {
    Small,
    /// A request with a dataset's definition, from a role that may register datasets.
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

/// The reason for which a message could not be exchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The connection or the stream is lost, by a fault of the peer or the network.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The message of the peer is longer than the limit.
    #[error("a message of {found_bytes} bytes is longer than the limit of {limit_bytes} bytes")]
    TooLong { found_bytes: usize, limit_bytes: usize },
    /// The message of the peer cannot be decoded.
    #[error("a message cannot be read: {0}")]
    Malformed(String),
}

/// Encodes a message as CBOR.
pub(crate) fn encode<T: Encode<()>>(message: &T) -> Vec<u8> {
    minicbor::to_vec(message).expect("a vector takes all bytes, and no message refuses to be encoded")
}

/// Decodes a message from CBOR.
pub(crate) fn decode<T: for<'b> Decode<'b, ()>>(bytes: &[u8]) -> Result<T, FrameError> {
    minicbor::decode(bytes).map_err(|error| FrameError::Malformed(error.to_string()))
}

/// Writes a message, preceded by its length. Refuses a message that is longer than the peer would read. Not
/// cancel-safe.
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

/// Reads a message that is preceded by its length, and checks the length before it allocates memory. Not
/// cancel-safe.
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

/// Fills `bytes` completely from a stream. Not cancel-safe.
pub(crate) async fn read_exact(stream: &mut RecvStream, bytes: &mut [u8]) -> Result<(), FrameError> {
    stream.read_exact(bytes).await.map_err(|error| match error {
        ReadExactError::FinishedEarly(found) => {
            FrameError::Malformed(format!("the message ends after {found} of {} bytes", bytes.len()))
        }
        ReadExactError::ReadError(error) => FrameError::Lost(error.to_string()),
    })
}

/// Reads the rest of a stream, up to a limit. Not cancel-safe.
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
