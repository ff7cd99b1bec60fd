//! A process that sends hand-written messages, so that it can break the protocol. This file does not
//! interpret the dispatcher's behaviour.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_control::Error;
use millstream_control::rpc::ALPN;
use millstream_link::{Endpoint, Role};
use minicbor::encode::{Encoder, Write};
use minicbor::{Decoder, Encode};
use quinn::{Connection, RecvStream, SendStream};

use super::{Cluster, within};

/// A message, or a part of a message.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(u64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
}

impl<C> Encode<C> for Value {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        match self {
            Value::Null => encoder.null()?.ok(),
            Value::Bool(value) => encoder.bool(*value)?.ok(),
            Value::Number(value) => encoder.u64(*value)?.ok(),
            Value::Text(value) => encoder.str(value)?.ok(),
            Value::Bytes(value) => encoder.bytes(value)?.ok(),
            Value::List(values) => {
                encoder.array(values.len() as u64)?;
                values.iter().try_for_each(|value| value.encode(encoder, context))
            }
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),*) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Value {
                Value::$variant(value.into())
            }
        })*
    };
}

from!(bool => Bool, u64 => Number, &str => Text, String => Text, Vec<u8> => Bytes, Vec<Value> => List);

impl From<()> for Value {
    fn from((): ()) -> Value {
        Value::Null
    }
}

/// Builds a list of values that convert to [`Value`].
macro_rules! list {
    ($($value:expr),* $(,)?) => {
        $crate::support::raw::Value::List(vec![$($crate::support::raw::Value::from($value)),*])
    };
}
pub(crate) use list;

/// Returns the bytes of a small request; number 0 stands for a request without a number.
pub(crate) fn request(number: u64, settled_below: u64, request: Value) -> Vec<u8> {
    let number = if number == 0 { Value::Null } else { number.into() };
    let envelope = list![number, settled_below, request];
    [vec![1], minicbor::to_vec(envelope).unwrap()].concat()
}

/// Returns the bytes of a message for the long-lived stream.
pub(crate) fn framed(message: &Value) -> Vec<u8> {
    let bytes = minicbor::to_vec(message).unwrap();
    [&u32::try_from(bytes.len()).unwrap().to_le_bytes()[..], &bytes].concat()
}

/// A connected process and its long-lived stream.
pub(crate) struct Raw {
    pub(crate) connection: Connection,
    pub(crate) send: SendStream,
    pub(crate) recv: RecvStream,
    _endpoint: Endpoint,
    next: AtomicU64,
}

impl Raw {
    /// Connects without sending a message.
    pub(crate) async fn silent(cluster: &Cluster, role: Role, address: SocketAddr) -> Raw {
        let endpoint = cluster.endpoint(role);
        let connecting = endpoint.connect(address, Role::Dispatcher, ALPN, Duration::from_secs(10));
        let connection = connecting.await.unwrap();
        let (send, recv) = connection.open_bi().await.unwrap();
        Raw {
            connection,
            send,
            recv,
            _endpoint: endpoint,
            next: AtomicU64::new(1),
        }
    }

    /// Connects, sends a hello and receives the welcome.
    pub(crate) async fn greeted(cluster: &Cluster, role: Role, address: SocketAddr, session: u64) -> Raw {
        let mut raw = Raw::silent(cluster, role, address).await;
        raw.send.write_all(&framed(&list![2, session])).await.unwrap();
        let mut length = [0; 4];
        within("the welcome", raw.recv.read_exact(&mut length))
            .await
            .unwrap();
        let mut welcome = vec![0; u32::from_le_bytes(length) as usize];
        within("the welcome", raw.recv.read_exact(&mut welcome))
            .await
            .unwrap();
        raw
    }

    /// Returns the answer to these bytes: the id in the answer, if it has one.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<Option<u64>, Error> {
        let exchange = async {
            let (mut send, mut recv) = self.connection.open_bi().await.unwrap();
            // The dispatcher may refuse the request before it has read all bytes.
            send.write_all(bytes).await.ok();
            send.finish().ok();
            recv.read_to_end(1 << 20).await.unwrap()
        };
        answer(&within("an answer", exchange).await)
    }

    /// Sends a request with the next number, with all earlier numbers settled, and returns its answer.
    pub(crate) async fn ask(&self, message: Value) -> Result<Option<u64>, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(&request(number, number, message)).await
    }

    /// Returns the reason with which the connection was closed.
    pub(crate) async fn closed(&self) -> String {
        within("being disconnected", self.connection.closed())
            .await
            .to_string()
    }
}

fn answer(bytes: &[u8]) -> Result<Option<u64>, Error> {
    let mut decoder = Decoder::new(bytes);
    decoder.array().unwrap();
    decoder.array().unwrap();
    if decoder.u32().unwrap() == 1 {
        return Err(decoder.decode().unwrap());
    }
    decoder.array().unwrap();
    decoder.u32().unwrap();
    decoder.array().unwrap();
    Ok(decoder.u64().ok())
}
