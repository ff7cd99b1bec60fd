//! The yardstick of bare quinn: the endpoint, TLS and socket of the service, with one stream per unit and
//! without elements.
//!
//! The reader copies each chunk into a pooled contiguous buffer, as any reader that needs contiguous memory
//! must, or drops the chunk.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use millstream_link::{Credentials, Endpoint, EndpointConfig, PathReport, Role};
use tokio::task::JoinSet;

use super::{Measured, Meter, buffers, unit_bytes};

const ALPN: &str = "millstream-bench-raw/1";

/// The number of streams that the sender writes concurrently. The number is large enough to keep the
/// connection busy between two streams.
const STREAMS: usize = 8;

/// Binds the endpoint of a sender.
pub(crate) fn bind(credentials: Credentials, config: EndpointConfig) -> Result<Endpoint, String> {
    Endpoint::bind_server(credentials, &[ALPN], &[Role::Read], config).map_err(|error| error.to_string())
}

/// Sends units to the first reader until the reader is gone. Returns the final properties of the path.
pub(crate) async fn send(endpoint: Endpoint, element_bytes: u64) -> Result<PathReport, String> {
    let mut acceptor = endpoint.acceptor().ok_or("the endpoint accepts no connections")?;
    let accepted = acceptor.accept().await.ok_or("the endpoint was closed")?;
    let connection = accepted.connection;
    let units: Arc<[Bytes]> = buffers(element_bytes).into_iter().map(Bytes::from).collect();
    let sent = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for _ in 0..STREAMS {
        writers.spawn(write(connection.clone(), units.clone(), sent.clone()));
    }
    writers.join_all().await;
    Ok(endpoint.path_report(&connection))
}

/// Reads units until the meter is complete.
pub(crate) async fn receive(
    endpoint: Endpoint,
    address: SocketAddr,
    element_bytes: u64,
    mut meter: Meter,
    copies: bool,
) -> Result<(Measured, PathReport), String> {
    let connecting = endpoint.connect(address, Role::Worker, ALPN, Duration::from_secs(5));
    let connection = connecting.await.map_err(|error| error.to_string())?;
    let unit = unit_bytes(element_bytes) as usize;
    let mut pool = VecDeque::from(buffers(element_bytes));
    let mut readers = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(done) = readers.join_next(), if !readers.is_empty() => {
                let buffer: Vec<u8> = done.map_err(|error: tokio::task::JoinError| error.to_string())??;
                pool.push_back(buffer);
                if let Some(measured) = meter.count(unit as u64) {
                    let report = endpoint.path_report(&connection);
                    connection.close(0_u32.into(), b"measured");
                    endpoint.wait_idle(Duration::from_secs(1)).await;
                    return Ok((measured, report));
                }
            }
            stream = connection.accept_uni(), if !pool.is_empty() => {
                let stream = stream.map_err(|error| error.to_string())?;
                if let Some(buffer) = pool.pop_front() {
                    readers.spawn(read(stream, buffer, copies));
                }
            }
        }
    }
}

/// Sends units in turn with the other writers, until an error shows that the reader is done.
async fn write(connection: quinn::Connection, units: Arc<[Bytes]>, sent: Arc<AtomicUsize>) {
    while let Ok(mut stream) = connection.open_uni().await {
        let unit = units[sent.fetch_add(1, Ordering::Relaxed) % units.len()].clone();
        if stream.write_chunk(unit).await.is_err() || stream.finish().is_err() {
            return;
        }
    }
}

async fn read(mut stream: quinn::RecvStream, mut buffer: Vec<u8>, copies: bool) -> Result<Vec<u8>, String> {
    let mut chunks: [Bytes; 32] = Default::default();
    let mut filled = 0;
    while let Some(count) = stream
        .read_chunks(&mut chunks)
        .await
        .map_err(|error| error.to_string())?
    {
        for chunk in &mut chunks[..count] {
            let chunk = std::mem::take(chunk);
            if copies {
                buffer[filled..filled + chunk.len()].copy_from_slice(&chunk);
            }
            filled += chunk.len();
        }
    }
    if filled == buffer.len() {
        Ok(buffer)
    } else {
        Err(format!("a unit ended after {filled} of {} bytes", buffer.len()))
    }
}
