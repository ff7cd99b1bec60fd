//! Tests of the rows of batches. Threads of the pool compute each row once, directly in the batch. The
//! rows and failures equal those of batches that are made sequentially.

use std::sync::{Arc, Mutex};

use millstream_element::{Dtype, Element, ElementSpec, HeapAlloc, Layout, Origin, PackWriter, TensorSpec};
use millstream_pipeline::exec::{
    ErrorKind, ExecContext, ExecError, Executor, Fill, Functions, PreparedMap, Stop, Tensor, Value,
};
use millstream_pipeline::graph::{Dataset, ErrorPolicy, Graph, Params};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{functions, pool};

const ROW_BYTES: usize = 1000;

/// The numbers of computed rows, with the memory addresses of the rows.
type Trace = Arc<Mutex<Vec<(i64, usize)>>>;

/// A deferred row whose bytes all equal its number. `is_certain` declares that computing the row cannot
/// fail; `fails` makes it fail.
#[derive(Debug)]
struct Row {
    number: i64,
    is_certain: bool,
    fails: bool,
    trace: Trace,
}

impl Fill for Row {
    fn fill(&self, destination: &mut [u8]) -> Result<(), ExecError> {
        let place = destination.as_ptr() as usize;
        self.trace.lock().unwrap().push((self.number, place));
        if self.fails {
            return Err(ExecError::new(ErrorKind::Data, "row", "does not like its number"));
        }
        destination.fill(self.number as u8);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        8
    }

    fn is_certain(&self) -> bool {
        self.is_certain
    }
}

/// The ways in which the map function `row` makes a row from a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Computes the row at once.
    Computed,
    /// Defers the row, and declares that computing it cannot fail.
    Certain,
    /// Defers the row, whose computation might fail.
    Uncertain,
    /// Defers the row, and fails when the row is computed.
    FailsLate,
    /// Fails at once.
    Fails,
}

/// Returns the map function `row`, which returns `u8[ROW_BYTES]`. The rows are made in the ways
/// `kinds`, in turn.
fn rows(kinds: &[Kind], trace: &Trace) -> Functions {
    let (kinds, trace) = (kinds.to_vec(), Arc::clone(trace));
    functions().with_map("row", move |_, _| {
        let (kinds, trace) = (kinds.clone(), Arc::clone(&trace));
        let call = move |value: Value| {
            let number = value[0].as_i64().unwrap();
            let kind = kinds[number as usize % kinds.len()];
            let dims = [ROW_BYTES as u64];
            let row = Row {
                number,
                is_certain: kind == Kind::Certain,
                fails: kind == Kind::FailsLate,
                trace: Arc::clone(&trace),
            };
            let tensor = match kind {
                Kind::Fails => return Err("does not like its number".into()),
                Kind::Computed => Tensor::fixed(Dtype::U8, &dims, vec![number as u8; ROW_BYTES])?,
                Kind::Certain | Kind::Uncertain | Kind::FailsLate => {
                    Tensor::deferred(Dtype::U8, &dims, Arc::new(row))?
                }
            };
            Ok(Value::from_buf([tensor]))
        };
        let row = TensorSpec::fixed(Dtype::U8, &[ROW_BYTES as u64]);
        Ok(PreparedMap {
            output: ElementSpec::single(row).map_err(|error| error.to_string())?,
            call: Arc::new(call),
        })
    })
}

/// Returns the address and the bytes of every batch, and the failure at the end if one occurred.
fn written(graph: &Graph, functions: Functions) -> (Vec<(usize, Vec<u8>)>, Option<String>) {
    let context = ExecContext::new(1, Arc::new(functions), pool());
    let mut executor = Executor::open(graph, context).unwrap();
    let layout = Layout::new(executor.spec().clone()).unwrap();
    let mut found = Vec::new();
    loop {
        let (mut pack, taken) = PackWriter::open(&HeapAlloc, 1 << 20, 1).unwrap();
        let filled = executor.write(&layout, &mut pack, 1);
        while let Some(pack) = taken.take(usize::MAX, u64::MAX) {
            for slot in pack.slots() {
                let element = Element::open(slot, &layout, Origin::Foreign).unwrap();
                let bytes = element.component(0).unwrap().bytes().to_vec();
                let place = element.component(0).unwrap().bytes().as_ptr() as usize;
                found.push((place, bytes));
            }
        }
        match filled {
            Ok(filled) if filled.stop == Stop::End => return (found, None),
            Ok(_) => {}
            Err(error) => return (found, Some(error.to_string())),
        }
    }
}

#[test]
fn parallel_rows_are_computed_in_place() {
    let trace = Trace::default();
    let map = || Dataset::range(0, 10, 1).map("row", Params::none());
    let functions = || rows(&[Kind::Certain], &trace);
    let in_place = |dataset: Dataset| {
        let (batches, failed) = written(&dataset.graph().unwrap(), functions());
        assert_eq!((batches.len(), failed), (3, None));
        let mut found = std::mem::take(&mut *trace.lock().unwrap());
        found.sort_unstable();
        let numbers: Vec<i64> = found.iter().map(|(number, _)| *number).collect();
        assert_eq!(
            numbers,
            (0..10).collect::<Vec<_>>(),
            "expected every row to be computed once"
        );
        let rows = batches
            .iter()
            .flat_map(|(place, bytes)| (0..bytes.len() / ROW_BYTES).map(move |row| place + row * ROW_BYTES));
        rows.zip(&found).all(|(place, (_, computed))| place == *computed)
    };
    assert!(in_place(map().parallel(2).batch(4, false)));
    assert!(in_place(map().parallel(2).batch(4, false).prefetch(1)));
    assert!(
        in_place(map().batch(4, false)),
        "expected rows computed in the batch without parallel calls too"
    );
    assert!(
        !in_place(map().parallel(2).prefetch(1).batch(4, false)),
        "expected a prefetch to compute the rows before the batch"
    );
}

#[cfg(feature = "images")]
#[test]
fn picture_batches_ignore_how_rows_are_made() {
    use millstream_pipeline::graph::{ConstantTensor, RandomResizedCrop};

    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/images");
    let names = [
        "baseline-420.jpg",
        "progressive.jpg",
        "rgba.png",
        "lossy.webp",
        "restarts.jpg",
    ];
    let files = names.map(|name| std::fs::read(folder.join(name)).unwrap());
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::Bytes, &[5])).unwrap();
    let batches = |threads: u32, skips: bool| {
        let crop = RandomResizedCrop {
            seed: Some(1),
            ..RandomResizedCrop::new("", 20, 24)
        };
        let dataset =
            Dataset::tensor_slices(spec.clone(), vec![ConstantTensor::items(files.iter().cloned())])
                .repeat(Some(3))
                .decode_image("")
                .parallel(threads)
                .random_resized_crop_with(crop)
                .parallel(threads)
                .random_flip_left_right("", Some(2))
                .parallel(threads)
                .batch(4, false);
        let dataset = if skips {
            dataset.on_error(ErrorPolicy::SKIP)
        } else {
            dataset
        };
        let (batches, failed) = written(&dataset.graph().unwrap(), functions());
        assert_eq!((batches.len(), failed), (4, None));
        batches
            .into_iter()
            .flat_map(|(_, bytes)| bytes)
            .collect::<Vec<u8>>()
    };
    let expected = batches(1, false);
    for (threads, skips) in [(0, false), (2, false), (3, true)] {
        assert!(batches(threads, skips) == expected, "{threads} threads");
    }
}

proptest! {
    #![proptest_config(rounds(60))]

    #[test]
    fn rows_in_place_equal_copied_rows(
        count in 0i64..40, batch in 1u64..9, drop_remainder: bool, threads in 0u32..4, skips: bool,
        kinds in prop::collection::vec(
            prop_oneof![
                6 => Just(Kind::Certain), 3 => Just(Kind::Computed), 3 => Just(Kind::Uncertain),
                1 => Just(Kind::FailsLate), 1 => Just(Kind::Fails),
            ],
            1..12,
        ),
    ) {
        let threads = if threads == 1 { 2 } else { threads };
        let map = || Dataset::range(0, count, 1).map("row", Params::none()).parallel(threads);
        let said = |dataset: Dataset| {
            let dataset = if skips { dataset.on_error(ErrorPolicy::SKIP) } else { dataset };
            let (batches, failed) = written(&dataset.graph().unwrap(), rows(&kinds, &Trace::default()));
            let bytes: Vec<Vec<u8>> = batches.into_iter().map(|(_, bytes)| bytes).collect();
            (bytes, failed)
        };
        let straight = said(map().batch(batch, drop_remainder));
        // An operation between the map and the batch computes the rows before they are stacked.
        let copied = said(map().prefetch(1).batch(batch, drop_remainder));
        prop_assert_eq!(straight, copied);
    }
}
