//! Tests that the elements written into packs equal the elements that the pipeline yields.

use std::sync::Arc;

use millstream_element::{
    Dtype, Element, HeapAlloc, Layout, OpenPack, Origin, PackWriter, TensorBytes, TensorRef,
};
use millstream_pipeline::exec::{
    ErrorKind, ExecContext, ExecError, Executor, Filled, Pool, Source, SourceFactory, Stop, Tensor, Value,
};
use millstream_pipeline::graph::{Cardinality, Dataset, Graph, Params, SourceSignature};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Allowed, Model, chain, context, functions, open, scalar};

const EVERYTHING: Allowed = Allowed {
    shuffle: true,
    counting: true,
    repeat: true,
};

/// Writes all elements into packs of `pack_bytes`, or into larger packs for larger elements, and reads
/// them back.
fn through_packs(executor: &mut Executor, pack_bytes: usize, limit: usize) -> Vec<Model> {
    let layout = Layout::new(executor.spec().clone()).unwrap();
    let mut found = Vec::new();
    let mut size_bytes = pack_bytes;
    loop {
        let (mut pack, taken) = PackWriter::open(&HeapAlloc, size_bytes, 100).unwrap();
        size_bytes = pack_bytes;
        let stop = loop {
            let filled = executor.write(&layout, &mut pack, limit).unwrap();
            match filled.stop {
                Stop::Limit => assert_eq!(filled.count, limit),
                Stop::End => break Stop::End,
                Stop::Full { needed_bytes } => {
                    if pack.is_empty() {
                        size_bytes = needed_bytes;
                    }
                    break filled.stop;
                }
            }
        };
        read(&taken, &layout, &mut found);
        if stop == Stop::End {
            return found;
        }
    }
}

fn read(taken: &OpenPack, layout: &Arc<Layout>, found: &mut Vec<Model>) {
    while let Some(pack) = taken.take(usize::MAX, u64::MAX) {
        for slot in pack.slots() {
            let element = Element::open(slot, layout, Origin::Foreign).unwrap();
            assert_eq!(element.sequence(), found.len() as u64);
            let view = element.component(0).unwrap();
            let tensor = Tensor::fixed(view.dtype(), view.dims(), view.bytes().to_vec()).unwrap();
            found.push(crate::support::model_of(&Value::from_buf([tensor])));
        }
    }
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn what_is_written_is_what_is_yielded(
        chain in chain(EVERYTHING, 0..40),
        pack_bytes in 64usize..2000,
        limit in 1usize..8,
    ) {
        let graph = chain.graph();
        let mut yielded = Vec::new();
        let mut executor = open(&graph);
        while let Some(item) = executor.next().unwrap() {
            yielded.push(crate::support::model_of(&item.value));
        }
        prop_assert_eq!(through_packs(&mut open(&graph), pack_bytes, limit), yielded);
    }
}

#[test]
fn an_element_held_back_is_saved() {
    let graph = Dataset::range(0, 5, 1).graph().unwrap();
    let mut executor = open(&graph);
    let layout = Layout::new(executor.spec().clone()).unwrap();
    let (mut pack, _taken) = PackWriter::open(&HeapAlloc, 128, 1).unwrap();
    let filled = executor.write(&layout, &mut pack, 9).unwrap();
    assert!(
        matches!(
            filled,
            Filled {
                count: 1,
                stop: Stop::Full { .. }
            }
        ),
        "{filled:?}"
    );
    let state = executor.save().unwrap();
    let mut restored = open(&graph);
    restored.restore(&state).unwrap();
    assert_eq!(restored.handed(), 1);
    assert_eq!(
        crate::support::drain(&mut restored),
        (1..5).map(Model::Scalar).collect::<Vec<_>>()
    );
}

/// A source of five elements, which the function `open` opens.
struct Opens<F> {
    open: F,
}

impl<F, S> SourceFactory for Opens<F>
where
    F: Fn() -> Result<S, ExecError> + Send + Sync,
    S: Source + 'static,
{
    fn signature(&self, _: &Params) -> Result<SourceSignature, String> {
        Ok(SourceSignature {
            spec: scalar(),
            cardinality: Cardinality::Finite(5),
            indexable: true,
        })
    }

    fn open(&self, _: &Params, _: std::ops::Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        Ok(Box::new((self.open)()?))
    }
}

fn opens<S: Source + 'static>(open: impl Fn() -> Result<S, ExecError> + Send + Sync + 'static) -> Executor {
    let graph = Dataset::registered_source("five", Params::none())
        .graph()
        .unwrap();
    let functions = Arc::new(functions().with_source("five", Opens { open }));
    Executor::open(
        &graph,
        ExecContext {
            functions,
            ..context()
        },
    )
    .unwrap()
}

/// Writes up to `limit` elements into a new pack.
fn write(executor: &mut Executor, limit: usize) -> Result<Filled, ExecError> {
    let layout = Layout::new(executor.spec().clone()).unwrap();
    let (mut pack, _taken) = PackWriter::open(&HeapAlloc, 4096, 100).unwrap();
    executor.write(&layout, &mut pack, limit)
}

#[test]
fn an_unopenable_source_is_an_error() {
    let refuses = || Err::<BulkReader, _>(ExecError::new(ErrorKind::Data, "five", "connection refused"));
    let panics = || -> Result<BulkReader, ExecError> { panic!("the test makes this source panic") };
    for (mut executor, message) in [
        (opens(refuses), "connection refused"),
        (opens(panics), "panicked"),
    ] {
        for _ in 0..2 {
            let error = write(&mut executor, 10).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }
    assert_eq!(opens(refuses).next().unwrap_err().kind(), ErrorKind::Data);
}

#[test]
fn a_bulk_source_gets_its_positions_only() {
    let layout = Layout::new(scalar()).unwrap();
    let endless = move || {
        Ok(BulkReader {
            layout: Arc::clone(&layout),
            next: 0,
            end: i64::MAX,
        })
    };
    let mut executor = opens(endless);
    let filled = |count, stop| Filled { count, stop };
    assert_eq!(write(&mut executor, 3).unwrap(), filled(3, Stop::Limit));
    assert_eq!(write(&mut executor, 3).unwrap(), filled(2, Stop::End));
    assert_eq!(write(&mut executor, 3).unwrap(), filled(0, Stop::End));
}

#[test]
fn an_idle_bulk_source_is_to_blame() {
    struct Still;
    impl Source for Still {
        fn next(&mut self) -> Result<Option<Value>, ExecError> {
            Ok(None)
        }
        fn fill_pack(&mut self, _: &mut PackWriter, _: u64, _: usize) -> Option<Result<Filled, ExecError>> {
            Some(Ok(Filled {
                count: 0,
                stop: Stop::Limit,
            }))
        }
    }
    let error = write(&mut opens(|| Ok(Still)), 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UserFunction, "{error}");
}

/// A source that counts up, and that can write directly into packs.
struct Bulk;

struct BulkReader {
    layout: Arc<Layout>,
    next: i64,
    end: i64,
}

impl SourceFactory for Bulk {
    fn signature(&self, params: &Params) -> Result<SourceSignature, String> {
        Ok(SourceSignature {
            spec: scalar(),
            cardinality: Cardinality::Finite(params.decode()?),
            indexable: true,
        })
    }

    fn open(&self, _: &Params, positions: std::ops::Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        let layout = Layout::new(scalar()).unwrap();
        Ok(Box::new(BulkReader {
            layout,
            next: positions.start as i64,
            end: positions.end as i64,
        }))
    }
}

impl Source for BulkReader {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let value = (self.next < self.end).then(|| Value::from_buf([Tensor::i64(self.next)]));
        self.next += 1;
        Ok(value)
    }

    fn fill_pack(
        &mut self,
        pack: &mut PackWriter,
        sequence: u64,
        limit: usize,
    ) -> Option<Result<Filled, ExecError>> {
        let mut count = 0;
        while count < limit && self.next < self.end {
            let bytes = self.next.to_le_bytes();
            let tensor = TensorRef {
                dtype: Dtype::I64,
                dims: &[],
                data: TensorBytes::Raw(&bytes),
            };
            if pack
                .push(&self.layout, &[tensor], sequence + count as u64, &[])
                .is_err()
            {
                return Some(Ok(Filled {
                    count,
                    stop: Stop::Full { needed_bytes: 64 },
                }));
            }
            (self.next, count) = (self.next + 1, count + 1);
        }
        let stop = if self.next < self.end {
            Stop::Limit
        } else {
            Stop::End
        };
        Some(Ok(Filled { count, stop }))
    }
}

fn bulk(graph: &Graph) -> Executor {
    let functions = Arc::new(functions().with_source("bulk", Bulk));
    Executor::open(
        graph,
        ExecContext {
            functions,
            ..context()
        },
    )
    .unwrap()
}

#[test]
fn bulk_sources_equal_single_elements() {
    let graph = Dataset::registered_source("bulk", Params::encode(&1000u64).unwrap())
        .graph()
        .unwrap();
    let expected: Vec<_> = (0..1000).map(Model::Scalar).collect();
    let mut executor = bulk(&graph);
    let mut found = Vec::new();
    let layout = Layout::new(executor.spec().clone()).unwrap();
    loop {
        let (mut pack, taken) = PackWriter::open(&HeapAlloc, 4096, 100).unwrap();
        let filled = executor.write(&layout, &mut pack, 500).unwrap();
        read(&taken, &layout, &mut found);
        if filled.stop == Stop::End {
            break;
        }
    }
    assert_eq!(found, expected);
    assert_eq!(executor.handed(), 1000);
    assert_eq!(crate::support::drain(&mut bulk(&graph)), expected);
}

#[test]
fn a_pool_outlives_its_pipelines() {
    let pool = Arc::new(Pool::new(1).unwrap());
    for _ in 0..3 {
        let context = ExecContext::new(1, Arc::new(functions()), Arc::clone(&pool));
        let graph = Dataset::range(0, 10, 1)
            .map("add", Params::encode(&1i64).unwrap())
            .parallel(2)
            .graph()
            .unwrap();
        Executor::open(&graph, context).unwrap().next().unwrap().unwrap();
    }
}
