//! Benchmarks of writing and reading one element, at every size, next to the yardsticks.

mod yardstick;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millstream::element::{
    Dtype, Element, ElementSpec, Layout, Origin, Pack, PackWriter, Pool, TensorBytes, TensorRef, TensorSpec,
};

/// The number of elements in one pack, so that opening the pack costs little per element.
const BATCH: usize = 64;

/// The pool's size in bytes: room for the largest pack and the pack before it.
const POOL_BYTES: usize = 512 << 20;

struct Case {
    /// The pool, which reuses its memory as a worker's pool does.
    pool: Pool,
    name: &'static str,
    layout: Arc<Layout>,
    dims: Vec<u64>,
    data: Vec<u8>,
    strings: Vec<&'static [u8]>,
}

impl Case {
    fn new(name: &'static str, dtype: Dtype, dim: Option<u64>, items: u64) -> Self {
        let spec = ElementSpec::single(TensorSpec::with_dims(dtype, &[dim])).expect("a spec");
        let data = vec![7; items as usize];
        Self {
            pool: Pool::new(POOL_BYTES),
            name,
            layout: Layout::new(spec).expect("a layout"),
            dims: vec![items],
            data,
            strings: Vec::new(),
        }
    }

    fn strings() -> Self {
        let case = Self::new("16 strings", Dtype::String, None, 16);
        Self {
            strings: vec![b"a sentence of some length, as records hold it"; 16],
            ..case
        }
    }

    fn write(&self) -> Pack {
        let dtype = self.layout.spec().components()[0].dtype();
        let data = if self.strings.is_empty() {
            TensorBytes::Raw(&self.data)
        } else {
            TensorBytes::Strings(&self.strings)
        };
        let tensor = TensorRef {
            dtype,
            dims: &self.dims,
            data,
        };
        let capacity = BATCH * (self.data.len() + 4096);
        let (mut writer, open) = PackWriter::open(&self.pool, capacity, BATCH).expect("memory");
        for sequence in 0..BATCH as u64 {
            writer.push(&self.layout, &[tensor], sequence, &[]).expect("room");
        }
        drop(writer);
        open.take(BATCH, u64::MAX).expect("what was written")
    }

    fn read(&self, pack: &Pack) {
        for slot in pack.slots() {
            let element = Element::open(slot, &self.layout, Origin::Foreign).expect("sound");
            black_box(element.component(0).expect("one component").bytes());
        }
    }
}

fn archive(c: &mut Criterion) {
    let cases = [
        Case::new("64 B", Dtype::U8, Some(64), 64),
        Case::new("1 KiB", Dtype::U8, Some(1024), 1024),
        Case::new("1 MiB", Dtype::U8, Some(1 << 20), 1 << 20),
        Case::new("1 KiB, shape unknown", Dtype::U8, None, 1024),
        Case::strings(),
    ];
    let mut group = c.benchmark_group("archive");
    group
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    group.throughput(Throughput::Elements(BATCH as u64));
    let raw_quic = yardstick::RawQuic::connect();
    for case in &cases {
        group.bench_function(BenchmarkId::new("write", case.name), |b| {
            b.iter(|| black_box(case.write()))
        });
        let pack = case.write();
        group.bench_function(BenchmarkId::new("open and view", case.name), |b| {
            b.iter(|| case.read(&pack))
        });
        raw_quic.stand_beside(&mut group, case.name, pack.region().len());
    }
    group.finish();
}

criterion_group!(benches, archive);
criterion_main!(benches);
