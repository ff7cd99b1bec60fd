//! Reads and writes the stream of messages. Each message is a length and a CBOR value, in both directions
//! (D2.1).

use std::time::Duration;

use minicbor::{Decode, Encode};
use quinn::{ReadExactError, RecvStream, SendStream};
use tokio::sync::mpsc;

use super::close;
use crate::proto::message::{check_length, decode, encode};
use crate::transport::LinkLost;

/// Maximum number of messages that wait to be written. Messages are small, and their number does not grow
/// with the number of elements.
pub(super) const MESSAGES_MAX: usize = 256;

/// Writes messages until the queue closes.
pub(super) async fn write<M: Encode<()>>(
    mut stream: SendStream,
    mut queue: mpsc::Receiver<M>,
) -> Result<(), LinkLost> {
    let mut out = Vec::new();
    while let Some(message) = queue.recv().await {
        out.clear();
        append(&mut out, &message)?;
        while out.len() < 16 * 1024
            && let Ok(message) = queue.try_recv()
        {
            append(&mut out, &message)?;
        }
        stream
            .write_all(&out)
            .await
            .map_err(|error| close::unwritten(&error))?;
    }
    // An error means that the peer is gone already, so there is nobody to inform.
    let _ = stream.finish();
    Ok(())
}

/// Reads messages into a queue until the stream ends, and passes each message through `wrap`. The first
/// message must arrive within `first_within`. Later messages have no deadline, because the connection's
/// keep-alive shows that the peer lives.
pub(super) async fn read<M, T>(
    mut stream: RecvStream,
    queue: &mpsc::Sender<Result<T, LinkLost>>,
    wrap: fn(M) -> T,
    first_within: Option<Duration>,
) -> LinkLost
where
    M: for<'b> Decode<'b, ()>,
{
    let mut deadline = first_within;
    loop {
        let message = match deadline.take() {
            Some(deadline) => tokio::time::timeout(deadline, read_one(&mut stream))
                .await
                .unwrap_or_else(|_| {
                    Err(LinkLost::Misbehaved(format!(
                        "expected a first message within {deadline:?}, found none"
                    )))
                }),
            None => read_one(&mut stream).await,
        };
        match message {
            Ok(Some(message)) => {
                if queue.send(Ok(wrap(message))).await.is_err() {
                    return LinkLost::Closed("this side dropped the link".into());
                }
            }
            Ok(None) => return LinkLost::Closed("the peer ended the stream of messages".into()),
            Err(lost) => return lost,
        }
    }
}

/// Returns the next message, or `None` if the stream ended between two messages.
async fn read_one<M>(stream: &mut RecvStream) -> Result<Option<M>, LinkLost>
where
    M: for<'b> Decode<'b, ()>,
{
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Ok(()) => {}
        Err(ReadExactError::FinishedEarly(0)) => return Ok(None),
        Err(error) => return Err(close::cut(&error)),
    }
    let length = u32::from_le_bytes(length) as usize;
    check_length(length)?;
    let mut bytes = vec![0; length];
    stream
        .read_exact(&mut bytes)
        .await
        .map_err(|error| close::cut(&error))?;
    Ok(Some(decode(&bytes)?))
}

/// Appends the length and the bytes of a message. An encoding error is this side's own fault.
pub(super) fn append<M: Encode<()>>(out: &mut Vec<u8>, message: &M) -> Result<(), LinkLost> {
    let bytes =
        encode(message).map_err(|error| LinkLost::Resource(format!("cannot send a message: {error}")))?;
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::message::{MESSAGE_BYTES_MAX, Subscribe, TaskId, ToWorker};

    /// D2.1.
    #[test]
    fn an_oversized_message_is_its_senders_fault() {
        let mut out = Vec::new();
        let subscribe = Subscribe {
            task: TaskId(1),
            ticket: vec![0; MESSAGE_BYTES_MAX],
            resume_from: 0,
            splits_from: 0,
            trainer_id: None,
            asked_before: 0,
        };
        let lost = append(&mut out, &ToWorker::Subscribe(subscribe)).unwrap_err();
        assert!(
            matches!(&lost, LinkLost::Resource(reason) if reason.contains("131072")),
            "{lost}"
        );
        assert!(
            out.is_empty(),
            "a part of the message was appended, which the peer would take for another message"
        );
    }
}
