//! Tests that every element is visited as often as the policy promises, for random services and readers.

use std::sync::Arc;

use millstream::client::{MaxOutstanding, Reader};
use millstream::control::Policy;
use millstream::dataplane::worker::BufferLimits;
use millstream::element::{Dtype, ElementSpec, TensorSpec};
use millstream::link::EndpointConfig;
use millstream::pipeline::exec::{Functions, PreparedMap, Tensor, Value};
use millstream::pipeline::graph::{Dataset, Params};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::cluster::{Cluster, numbers};
use crate::support::links::Mechanism;
use crate::support::watched;

/// The number of cases. The number is small, because each case starts a service and reads it in several
/// shapes.
const CASES: u32 = 8;

/// The maximum number of numbers in one read, including repeated numbers.
const NUMBERS_MAX: u64 = 1_000_000;

/// The shape of a random service: its workers, their buffers, and the datasets to read.
#[derive(Debug, Clone)]
struct Service {
    workers: usize,
    /// The limits of a task's buffer. A pack is never larger than the buffer.
    buffer: BufferLimits,
    shapes: Vec<Shape>,
}

#[derive(Debug, Clone)]
struct Shape {
    elements: u64,
    /// The number of copies of a number in its element. A wide element fills a pack; narrow elements fit into
    /// a pack by the thousands.
    width: u64,
    max_outstanding: u64,
    batch: Option<u64>,
}

fn services() -> impl Strategy<Value = Service> {
    let limits = (
        prop_oneof![1..=8_u64, 1..=65_536_u64],
        prop_oneof![1..=4_096_u64, 1..=4_194_304_u64],
    );
    let limits = limits.prop_map(|(elements, bytes)| BufferLimits { elements, bytes });
    let shapes = proptest::collection::vec(shape(), 1..=5);
    (1..=3_usize, limits, shapes).prop_map(|(workers, buffer, shapes)| Service {
        workers,
        buffer,
        shapes,
    })
}

fn shape() -> impl Strategy<Value = Shape> {
    let widths = prop_oneof![4 => Just(1_u64), 2 => 2..=64_u64, 1 => 10_000..=50_000_u64];
    let batches = proptest::option::of(1..=33_u64);
    let shape = (0..2000_u64, widths, 1..=100_u64, batches);
    shape.prop_map(|(elements, width, max_outstanding, batch)| Shape {
        elements: elements.min(NUMBERS_MAX / width),
        width,
        max_outstanding,
        batch,
    })
}

fn every_number_comes_as_often_as_promised(mechanism: Mechanism, service: &Service) {
    let functions = vec![widening(); service.workers];
    let cluster = Cluster::start_with(mechanism, functions, &EndpointConfig::default(), |config| {
        config.server.buffer = service.buffer;
    });
    for shape in &service.shapes {
        read_in_shape(&cluster, shape);
    }
}

fn read_in_shape(cluster: &Cluster, shape: &Shape) {
    let workers = cluster.workers.len();
    for (policy, times) in [(Policy::Off, workers), (Policy::Dynamic, 1)] {
        let mut dataset = Dataset::range(0, shape.elements as i64, 1);
        if shape.width > 1 {
            let width = Params::encode(&shape.width).expect("a number");
            dataset = dataset.map_declared("widen", width, wide(shape.width));
        }
        if let Some(size) = shape.batch {
            dataset = dataset.batch(size, false);
        }
        let bound = MaxOutstanding::Elements(shape.max_outstanding);
        let mut reader = cluster.read(dataset, policy, bound);
        let mut seen = rows(&mut reader, shape.width as usize);
        seen.sort_unstable();
        let promised: Vec<i64> = (0..shape.elements as i64)
            .flat_map(|number| std::iter::repeat_n(number, times))
            .collect();
        assert!(
            seen == promised,
            "{policy}: read {} numbers, expected {}",
            seen.len(),
            promised.len()
        );
        assert!(matches!(reader.next_element(), Ok(None)), "an end is final");
        assert!(
            reader.stats().lost_splits.is_empty(),
            "nothing is lost while all processes live"
        );
    }
}

/// Returns the numbers; each number occurs `width` times in its row.
fn rows(reader: &mut Reader, width: usize) -> Vec<i64> {
    let mut all = Vec::new();
    for element in reader {
        let numbers = numbers(&element.expect("the reader proceeds"));
        for row in numbers.chunks(width) {
            assert!(row.iter().all(|number| *number == row[0]), "rows are mixed");
            all.push(row[0]);
        }
    }
    all
}

/// Registers the function `widen`, which repeats a number as often as its parameter says.
fn widening() -> Functions {
    Functions::new().with_map("widen", |params, _| {
        let width: u64 = params.decode()?;
        let call = move |value: Value| {
            let number = value.first().and_then(Tensor::as_i64).ok_or("not a number")?;
            let bytes = number.to_le_bytes().repeat(width as usize);
            let wide = Tensor::fixed(Dtype::I64, &[width], bytes)?;
            Ok(Value::from_iter([wide]))
        };
        Ok(PreparedMap {
            output: wide(width),
            call: Arc::new(call),
        })
    })
}

fn wide(width: u64) -> ElementSpec {
    ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[width])).expect("a vector")
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20, ..rounds(CASES) })]

    #[test]
    fn numbers_come_as_promised_over_memory(service in services()) {
        let what = format!("{service:?}");
        watched(&what, move || every_number_comes_as_often_as_promised(Mechanism::Memory, &service));
    }

    #[test]
    fn numbers_come_as_promised_over_quic(service in services()) {
        let what = format!("{service:?}");
        watched(&what, move || every_number_comes_as_often_as_promised(Mechanism::Quic, &service));
    }
}
