//! Floods a server with first packets from invented addresses, while a connection is in use and clients
//! connect. Prints figures.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::*;
use crate::tls::Identity;

/// The number of first packets that the flood repeats in a cycle. The server has forgotten a packet long
/// before it is repeated.
const INITIALS: usize = 20_000;
/// The number of first packets per second, sent in bursts.
const PER_SECOND: usize = 5_000;
const BURST: usize = 50;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
/// The number of addresses from which the packets seem to come.
const ADDRESSES: u8 = 200;

/// Makes the first packets of clients with a key, each of a different connection.
fn initials(to: std::net::SocketAddr) -> Vec<Vec<u8>> {
    let identity = Identity::new(cluster().credentials(Role::Read)).unwrap();
    let crypto = identity.client(Role::Worker, ALPN).unwrap();
    let config = quinn_proto::ClientConfig::new(crypto);
    let mut endpoint = quinn_proto::Endpoint::new(Arc::default(), None, true, None);
    let mut initial = || {
        let now = Instant::now();
        let (_, mut connection) = endpoint
            .connect(now, config.clone(), to, Role::Worker.dns_name())
            .unwrap();
        let mut datagram = Vec::new();
        let _ = connection.poll_transmit(now, 1, &mut datagram).unwrap();
        datagram
    };
    (0..INITIALS).map(|_| initial()).collect()
}

/// Sends first packets while `is_on`, until `is_over`.
fn flood(to: std::net::SocketAddr, initials: &[Vec<u8>], is_on: &AtomicBool, is_over: &AtomicBool) {
    let sockets: Vec<UdpSocket> = (1..=ADDRESSES)
        .map(|last| UdpSocket::bind((Ipv4Addr::new(127, 0, 77, last), 0)).unwrap())
        .collect();
    let mut packets = initials.iter().zip(sockets.iter().cycle()).cycle();
    let pause = Duration::from_secs(1) * BURST as u32 / PER_SECOND as u32;
    let mut due = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        if is_on.load(Ordering::Relaxed) {
            for (packet, socket) in packets.by_ref().take(BURST) {
                // A full buffer loses packets, like a network.
                let _ = socket.send_to(packet, to);
            }
        }
        due += pause;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Reads as fast as the server writes, and counts the bytes.
async fn read(connection: Connection, received: Arc<AtomicU64>) {
    let mut stream = connection.accept_uni().await.unwrap();
    while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX, true).await {
        received.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
    }
}

async fn write(connection: Connection) {
    let mut stream = connection.open_uni().await.unwrap();
    let block = [7; 1 << 16];
    while stream.write_all(&block).await.is_ok() {}
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute and prints figures, which count only in a release build: ci/full runs it"]
async fn a_flood_of_initials_spares_readers() {
    let mut server = Server::worker();
    let to = server.endpoint.local_addr();
    let reader = client(cluster().credentials(Role::Read));
    let connection = connect(&reader, &server).await.unwrap();
    let accepted = server.accept().await;
    tokio::spawn(write(accepted.connection.clone()));
    let received = Arc::new(AtomicU64::new(0));
    tokio::spawn(read(connection, Arc::clone(&received)));
    let (is_on, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let packets = initials(to);
    let (on, over) = (Arc::clone(&is_on), Arc::clone(&is_over));
    let flooding = std::thread::spawn(move || flood(to, &packets, &on, &over));
    let (mut ratios, mut connecting) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut rates = [0.0; 2];
        for (rate, flooded) in rates.iter_mut().zip([false, true]) {
            is_on.store(flooded, Ordering::Relaxed);
            let (begun, before) = (Instant::now(), received.load(Ordering::Relaxed));
            tokio::time::sleep(ROUND).await;
            *rate = (received.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
        }
        ratios.push(rates[1] / rates[0]);
        let begun = Instant::now();
        let newcomer = client(cluster().credentials(Role::Read));
        while connect(&newcomer, &server).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        connecting.push(begun.elapsed().as_secs_f64());
        server.accept().await;
    }
    is_over.store(true, Ordering::Relaxed);
    flooding.join().unwrap();
    let counts = *server.counts.borrow();
    println!(
        "{PER_SECOND} first packets a second: a reader has {:.2} of its rate, a new one connects after {:.3} s, the last of {ROUNDS} \
         after {:.3} s; {counts:?}",
        median(ratios),
        median(connecting.clone()),
        connecting.iter().copied().fold(0.0, f64::max),
    );
    assert!(counts.retried > 0, "the flood did not reach the server");
}
