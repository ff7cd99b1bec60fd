//! Hand-written workers that break the protocol, over real QUIC.

use std::sync::mpsc;

use millstream::dataplane::TaskId;
use millstream::dataplane::proto::message::{
    self, Accepted, Hello, MESSAGE_BYTES_MAX, Subscribe, ToClient, ToWorker,
};
use millstream::dataplane::transport::quic;
use millstream::element::{Dtype, ElementSpec, HeapAlloc, Layout, PackWriter, Shape, TensorSpec};
use millstream::link::{ClusterKey, Endpoint, EndpointConfig, Lane, LaneTask, Role};
use minicbor::Encode;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The task that every hand-written worker serves.
pub(crate) const TASK: TaskId = TaskId(12);

/// The size of each of an element's two payloads, in bytes.
pub(crate) const PAYLOAD_BYTES: u64 = 64;

/// The ways in which a worker can break the protocol.
#[derive(Debug, Clone)]
pub(crate) enum Lie {
    /// No lie: the worker serves elements as long as the client reads.
    None,
    /// Opening the message stream with these bytes.
    Opening(Vec<u8>),
    /// Sending these bytes as the first pack.
    FirstPack(Vec<u8>),
}

/// A hand-written worker, which ends with its lane.
pub(crate) struct HandWritten {
    pub(crate) address: String,
    /// The channel that receives the reason for which the client closed the link.
    pub(crate) goodbye: mpsc::Receiver<String>,
    _serving: LaneTask<()>,
}

impl HandWritten {
    /// Starts a worker that readers with this key trust. The worker serves one link.
    pub(crate) fn start(lane: &Lane, key: &ClusterKey, lie: Lie) -> Self {
        let credentials = key.credentials(Role::Worker);
        let bound = lane.spawn(async move {
            let alpn = std::str::from_utf8(quic::ALPN).expect("ascii");
            Endpoint::bind_server(credentials, &[alpn], &[Role::Read], EndpointConfig::default())
        });
        let endpoint = bound.wait().expect("the lane lives").expect("a free port");
        let address = endpoint.local_addr().to_string();
        let (told, goodbye) = mpsc::channel();
        let serving = lane.spawn(async move {
            let mut acceptor = endpoint.acceptor().expect("a server");
            // The endpoint must live as long as the worker, because pending handshakes end with the endpoint.
            let Some(accepted) = acceptor.accept().await else {
                return;
            };
            let connection = accepted.connection;
            let (mut say, mut hear) = connection.accept_bi().await.expect("a stream of messages");
            let opening = match &lie {
                Lie::Opening(bytes) => bytes.clone(),
                Lie::None | Lie::FirstPack(_) => framed(&ToClient::Hello(Hello::current())),
            };
            // A reader may close the link at any moment after a false message. The reason arrives below.
            let _ = say.write_all(&opening).await;
            let mut sent = 0;
            while let Some(message) = next_message(&mut hear).await {
                match message {
                    ToWorker::Subscribe(Subscribe { task, .. }) => {
                        let _ = say.write_all(&accept(task)).await;
                    }
                    ToWorker::Grant(grant) => {
                        while sent < grant.limit {
                            let bytes = match &lie {
                                Lie::FirstPack(bytes) if sent == 0 => bytes.clone(),
                                Lie::None | Lie::Opening(_) | Lie::FirstPack(_) => {
                                    RawPack::of(sent, &element(sent)).to_bytes()
                                }
                            };
                            sent += 1;
                            let Ok(mut stream) = connection.open_uni().await else {
                                break;
                            };
                            let _ = stream.write_all(&bytes).await;
                            let _ = stream.finish();
                        }
                    }
                    ToWorker::Hello(_) | ToWorker::Cancel(_) => {}
                }
            }
            // Sending fails if the test has already ended.
            let _ = told.send(connection.closed().await.to_string());
        });
        Self {
            address,
            goodbye,
            _serving: serving,
        }
    }
}

/// Returns the spec of two tensors of varying length, so that each element's header states their positions.
pub(crate) fn two_tensors() -> ElementSpec {
    let any = || TensorSpec::with_dims(Dtype::U8, &[None]);
    ElementSpec::tuple([any(), any()]).expect("a specification")
}

/// Returns a valid element.
pub(crate) fn element(sequence: u64) -> Vec<u8> {
    let layout = Layout::new(two_tensors()).expect("a layout");
    let (mut writer, open) = PackWriter::open(&HeapAlloc, 4096, 1).expect("memory");
    let shape = || Shape::fixed(&[PAYLOAD_BYTES]);
    let mut element = writer.begin(&layout, &[shape(), shape()], 0).expect("room");
    for component in 0..2 {
        element.component_mut(component).fill(component as u8 + 1);
    }
    element.finish(sequence, &[]).expect("as begun");
    let pack = open.take(1, u64::MAX).expect("an element");
    pack.region().to_vec()
}

/// Header of a pack, and the bytes after it (D2.2).
#[derive(Debug, Clone)]
pub(crate) struct RawPack {
    pub(crate) version: u8,
    pub(crate) first: u64,
    pub(crate) elements: u64,
    pub(crate) region_bytes: u64,
    pub(crate) len: u32,
    pub(crate) body: Vec<u8>,
}

impl RawPack {
    /// Creates a pack of one element.
    pub(crate) fn of(first: u64, element: &[u8]) -> Self {
        Self {
            version: 1,
            first,
            elements: 1,
            region_bytes: element.len() as u64,
            len: element.len() as u32,
            body: element.to_vec(),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let all_of_one_length = 1;
        let mut bytes = vec![self.version, all_of_one_length, 0, 0, 0, 0, 0, 0];
        for word in [
            TASK.0,
            self.first,
            self.elements,
            self.region_bytes,
            self.region_bytes,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.len.to_le_bytes());
        bytes.extend(&self.body);
        bytes
    }
}

/// Encodes a message with its length, as on the wire (D2.1).
pub(crate) fn framed<M: Encode<()>>(message: &M) -> Vec<u8> {
    let bytes = message::encode(message).expect("short");
    let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
    framed.extend(bytes);
    framed
}

fn accept(task: TaskId) -> Vec<u8> {
    framed(&ToClient::Accepted(Accepted {
        task,
        spec: two_tensors().to_bytes(),
        element_bytes: element(0).len() as u64,
    }))
}

/// Returns the client's next message, or `None` once the client has closed the link.
async fn next_message(stream: &mut (impl AsyncRead + Unpin)) -> Option<ToWorker> {
    let length = stream.read_u32_le().await.ok()? as usize;
    assert!(length <= MESSAGE_BYTES_MAX, "the reader is a correct one");
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(message::decode(&bytes).expect("the reader is a correct one"))
}
