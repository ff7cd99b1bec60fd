//! Benchmarks of each step of a pack next to the yardsticks: joining, dividing, framing and assembling.

mod yardstick;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millstream::dataplane::TaskId;
use millstream::dataplane::proto::receive::ReceiveError;
use millstream::dataplane::proto::send::TaskPack;
use millstream::dataplane::transport::Admission;
use millstream::dataplane::transport::quic::frame::{Assembler, encode};
use millstream::element::{HeapAlloc, Pack, Pool, SlotAlloc};

/// The size of an element in bytes. A pack contains all elements that fit.
const ELEMENT_BYTES: u64 = 1024;

/// The bytes that a stream returns at a time, which is about the result of one receive call.
const CHUNK_BYTES: usize = 16 * 1024;

#[derive(Debug)]
struct All(Pool);

impl Admission for All {
    fn admit(&self, _: TaskId, _: u64, _: u64, _: u64) -> Result<(), ReceiveError> {
        Ok(())
    }

    fn slot_alloc(&self) -> &dyn SlotAlloc {
        &self.0
    }
}

fn pack(bytes: usize) -> Pack {
    let mut slot = HeapAlloc.alloc(bytes).expect("memory");
    slot.fill(7);
    Pack::from_parts(slot.freeze(), &lens(bytes)).expect("a pack")
}

fn lens(bytes: usize) -> Vec<u64> {
    vec![ELEMENT_BYTES; bytes / ELEMENT_BYTES as usize]
}

fn framed(pack: &Pack) -> [bytes::Bytes; 2] {
    encode(TaskPack {
        task: TaskId(1),
        first: 0,
        pack: pack.clone().into(),
    })
}

fn packs(c: &mut Criterion) {
    let mut group = c.benchmark_group("pack");
    group
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    let raw_quic = yardstick::RawQuic::connect();
    for kib in [64, 256, 1024] {
        let bytes = kib << 10;
        group.throughput(Throughput::Bytes(bytes as u64));
        let name = |what| BenchmarkId::new(what, format!("{kib} KiB"));
        let whole = pack(bytes);
        group.bench_function(name("join parts"), |b| {
            b.iter(|| Pack::from_parts(whole.region().clone(), &lens(bytes)).expect("a pack"));
        });
        group.bench_function(name("divide in eight"), |b| {
            b.iter(|| {
                let mut rest = whole.clone();
                while !rest.is_empty() {
                    black_box(rest.split_to((whole.len() / 8).min(rest.len())));
                }
            });
        });
        group.bench_function(name("frame"), |b| b.iter(|| black_box(framed(&whole))));
        let stream = framed(&whole).concat();
        let admission: Arc<dyn Admission> = Arc::new(All(Pool::new(64 << 20)));
        group.bench_function(name("assemble"), |b| {
            b.iter(|| {
                let mut assembler = Assembler::new(admission.clone());
                for chunk in stream.chunks(CHUNK_BYTES) {
                    assembler.push(chunk).expect("sound");
                }
                assembler.finish().expect("whole")
            });
        });
        raw_quic.stand_beside(&mut group, &format!("{kib} KiB"), bytes);
    }
    group.finish();
}

criterion_group!(benches, packs);
criterion_main!(benches);
