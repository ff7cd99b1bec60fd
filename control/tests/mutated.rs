//! Tests of requests that are changed at random: each is answered, nothing panics, and the memory stays
//! constant.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use millstream_control::Code;
use millstream_link::Role;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::hostile::{every_request, patient};
use crate::support::Cluster;
use crate::support::honest::{HONEST, Honest};
use crate::support::raw::{Raw, request};

/// The number of requests in a usual run; `MILLSTREAM_FRAMES` sets another number.
const FRAMES: usize = 10_000;

/// The number of requests between two measurements of the memory, and the number of requests in flight.
const BLOCK: usize = 2_000;
const UNDER_WAY: usize = 32;

/// The bytes by which two measurements may differ, because the allocator keeps freed memory.
const GROWTH_BYTES_MAX: u64 = 16 << 20;

/// The deadline of an answer, a thousand times its usual latency.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the resident memory of this process.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * 4096
}

/// Returns a request with changed, missing or additional bytes.
fn mutated(random: &mut StdRng) -> Vec<u8> {
    let requests = every_request();
    let number = random.random_range(0..300);
    let message = requests[random.random_range(0..requests.len())].0.clone();
    let mut bytes = request(number, 1, message);
    for _ in 0..random.random_range(1..5) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..6) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.insert(at, random.random()),
            2 => bytes[at] = random.random::<u8>() | 0xf8,
            _ => bytes[at] ^= 1 << random.random_range(0..8),
        }
    }
    bytes
}

/// Sends a share of the requests, one after the other.
async fn send(raw: &Raw, mut random: StdRng, count: usize) {
    for _ in 0..count {
        let bytes = mutated(&mut random);
        let answer = tokio::time::timeout(PATIENCE, raw.send(&bytes)).await;
        let answer = answer.unwrap_or_else(|_| panic!("not answered: {bytes:?}"));
        assert!(
            !answer.is_err_and(|error| error.code == Code::Internal),
            "taken for a defect of the dispatcher: {bytes:?}"
        );
    }
}

/// C1.2, C1.7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_requests_are_answered_and_leave_nothing_behind() {
    let frames = std::env::var("MILLSTREAM_FRAMES").map_or(FRAMES, |frames| frames.parse().unwrap());
    let seed: u64 = rand::rng().random();
    let cluster = Cluster::new();
    let server = patient(&cluster, |_| {});
    let honest = Honest::new(&cluster, &server).await;
    let raw = Raw::greeted(&cluster, Role::Read, server.local_addr(), 1).await;
    let (begun, mut memory) = (Instant::now(), Vec::new());
    for block in 0..frames.div_ceil(BLOCK) {
        let shares = (0..UNDER_WAY).map(|share| {
            let random = StdRng::seed_from_u64(seed ^ (block * UNDER_WAY + share) as u64);
            send(&raw, random, BLOCK / UNDER_WAY)
        });
        honest.meanwhile(join_all(shares)).await;
        memory.push(resident_bytes());
    }
    assert!(raw.connection.close_reason().is_none(), "the connection goes on");
    drop(raw);
    assert_eq!(honest.counts().await.workers, HONEST.workers);
    // The first blocks fill caches and tables up to their limits.
    let settled = memory[memory.len() / 2];
    let last = memory[memory.len() - 1];
    let kib = |bytes: u64| bytes >> 10;
    print(&format!(
        "{frames} mutated requests, seed {seed}, {:.0} a second: {} KiB in the middle, {} KiB at the end",
        frames as f64 / begun.elapsed().as_secs_f64(),
        kib(settled),
        kib(last)
    ));
    assert!(last <= settled + GROWTH_BYTES_MAX, "memory grows: {memory:?}");
}

#[expect(clippy::print_stdout, reason = "the figure of the attack")]
fn print(text: &str) {
    println!("{text}");
}
