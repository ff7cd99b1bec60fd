//! data_service_ops_test: the elements that datasets yield through a service, and registration under ids.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use millstream::client::{MaxOutstanding, ReaderConfig};
use millstream::control::{Code, DatasetId, Policy};
use millstream::element::{Dtype, Element, ElementSpec, Structure, TensorSpec};
use millstream::pipeline::exec::{ExecError, Functions, PreparedMap, Source, SourceFactory, Tensor, Value};
use millstream::pipeline::graph::{
    Cardinality, ConstantTensor, Dataset, Params, ServiceReader, SourceDeclaration, SourceSignature,
    SpecField,
};
use millstream::{LocalReader, ReadRequest, functions, service_reader};
use minicbor::{Decode, Encode};

use super::harness::{distribute, from_id, range, refusal, sorted};
use crate::support::cluster::{Cluster, number};
use crate::support::links::Mechanism;
use crate::support::watched;

/// Starts a service with one worker over a network, so that elements are packed, sent and unpacked.
fn cluster() -> Cluster {
    Cluster::plain(Mechanism::Quic, 1)
}

fn knowing(functions: Functions) -> Cluster {
    Cluster::start(Mechanism::Quic, vec![functions])
}

fn id(text: &str) -> DatasetId {
    DatasetId::new(text).expect("an id")
}

/// Returns the numbers from 0 to `count` (exclusive), in order.
fn once(count: i64) -> Vec<i64> {
    (0..count).collect()
}

/// Returns a constant tensor of these items.
fn constant(items: &[i64]) -> ConstantTensor {
    let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_le_bytes()).collect();
    ConstantTensor::fixed(bytes)
}

/// Returns all elements of a dataset, read from the service.
fn elements(cluster: &Cluster, dataset: Dataset) -> Vec<Element> {
    let reader = distribute(cluster.service(), dataset, Policy::Off).reader();
    reader
        .map(|element| element.expect("the reader proceeds"))
        .collect()
}

fn items(element: &Element, path: &str) -> Vec<i64> {
    let part = element.named(path).expect("a part of this name");
    part.as_slice::<i64>().expect("numbers").to_vec()
}

#[test]
fn data_service_ops_test__distribute_sparse() {
    watched("sparse", || {
        let parts = vec![
            TensorSpec::fixed(Dtype::I64, &[1, 1]),
            TensorSpec::fixed(Dtype::I64, &[1]),
            TensorSpec::fixed(Dtype::I64, &[1]),
        ];
        let spec = ElementSpec::new(Structure::Sparse, parts).expect("a sparse tensor");
        let tensors = vec![constant(&[0]), constant(&[0]), constant(&[1])];
        let found = elements(&cluster(), Dataset::tensors(spec.clone(), tensors));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].spec(), &spec);
        let mut dense = vec![-1; items(&found[0], "dense_shape")[0] as usize];
        dense[items(&found[0], "indices")[0] as usize] = items(&found[0], "values")[0];
        assert_eq!(dense, [0]);
    });
}

#[test]
fn data_service_ops_test__distribute_ragged() {
    watched("ragged", || {
        let filling = Functions::new().with_map("fill", |_, _| {
            let call = |value: Value| {
                let number = value.first().and_then(Tensor::as_i64).ok_or("no number")?;
                let bytes = number.to_le_bytes().repeat(number as usize);
                Ok(Value::from_iter([Tensor::fixed(
                    Dtype::I64,
                    &[number as u64],
                    bytes,
                )?]))
            };
            Ok(PreparedMap {
                output: vector(),
                call: Arc::new(call),
            })
        });
        let lengths = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[5])).expect("a vector");
        let dataset = Dataset::tensor_slices(lengths, vec![constant(&[1, 5, 3, 2, 8])])
            .map_declared("fill", Params::none(), vector())
            .ragged_batch(2, false);
        let found = elements(&knowing(filling), dataset);
        let batches: Vec<Vec<Vec<i64>>> = found.iter().map(padded).collect();
        let row = |number: i64, zeros: usize| [vec![number; number as usize], vec![0; zeros]].concat();
        let expected = [
            vec![row(1, 4), row(5, 0)],
            vec![row(3, 0), row(2, 1)],
            vec![row(8, 0)],
        ];
        assert_eq!(batches, expected);
    });
}

fn vector() -> ElementSpec {
    ElementSpec::single(TensorSpec::with_dims(Dtype::I64, &[None])).expect("a vector")
}

/// Returns the rows of a ragged tensor, padded with zeros to the longest row.
fn padded(ragged: &Element) -> Vec<Vec<i64>> {
    let (values, ends) = (items(ragged, "values"), items(ragged, "row_splits.0"));
    let rows = ends
        .windows(2)
        .map(|ends| values[ends[0] as usize..ends[1] as usize].to_vec());
    let mut rows: Vec<Vec<i64>> = rows.collect();
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    rows.iter_mut().for_each(|row| row.resize(longest, 0));
    rows
}

/// A lookup table that is a part of the dataset: the parameters of the function that looks up values.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
struct Table {
    #[n(0)]
    values: BTreeMap<i64, Vec<i64>>,
    #[n(1)]
    default: Vec<i64>,
}

impl Table {
    /// Returns the spec of the values that are looked up: scalars or vectors.
    fn output(&self) -> ElementSpec {
        if self.default.len() == 1 {
            number()
        } else {
            vector()
        }
    }

    fn params(&self) -> Params {
        Params::encode(self).expect("it can be encoded")
    }
}

/// Registers the function `look_up`, which returns the value of a number in the table of its parameters.
fn looking_up() -> Functions {
    Functions::new().with_map("look_up", |params, _| {
        let table: Table = params.decode()?;
        let output = table.output();
        let rank = output.components()[0].dims().map_or(0, <[_]>::len);
        let call = move |value: Value| {
            let key = value.first().and_then(Tensor::as_i64).ok_or("no number")?;
            let found = table.values.get(&key).unwrap_or(&table.default);
            let bytes: Vec<u8> = found.iter().flat_map(|item| item.to_le_bytes()).collect();
            let dims = &[found.len() as u64][..rank];
            Ok(Value::from_iter([Tensor::fixed(Dtype::I64, dims, bytes)?]))
        };
        Ok(PreparedMap {
            output,
            call: Arc::new(call),
        })
    })
}

/// Returns the table's values for these keys, looked up by a worker.
fn looked_up(cluster: &Cluster, keys: Dataset, table: &Table) -> Vec<Vec<i64>> {
    let dataset = keys.map_declared("look_up", table.params(), table.output());
    let found = elements(cluster, dataset);
    found.iter().map(|element| items(element, "")).collect()
}

#[test]
fn data_service_ops_test__distribute_lookup_table() {
    watched("a table", || {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "10\n11\n").expect("written");
        let text = std::fs::read_to_string(file.path()).expect("read");
        let lines = text.lines().map(|line| line.parse().expect("a number"));
        let of_dataset = LocalReader::open(
            Dataset::range(10, 12, 1),
            Arc::new(functions::builtin(None)),
            1,
            0,
        );
        let of_dataset = of_dataset.expect("it opens").map(|value| {
            let value = value.expect("a number");
            value[0].as_i64().expect("a number")
        });
        let origins: [Vec<i64>; 3] = [lines.collect(), vec![10, 11], of_dataset.collect()];
        // The file is gone when the worker uses the table.
        drop(file);
        let cluster = knowing(looking_up());
        for values in origins {
            let table = Table {
                values: (0..).zip(values).map(|(key, value)| (key, vec![value])).collect(),
                default: vec![-1],
            };
            assert_eq!(looked_up(&cluster, range(3), &table), [[10], [11], [-1]]);
        }
    });
}

/// A dataset contains the table's content at the time when the dataset was created.
#[test]
fn data_service_ops_test__distribute_mutable_hash_table() {
    watched("a filled table", || {
        let cluster = knowing(looking_up());
        let of_rank = |first: &[i64], second: &[i64], default: &[i64]| {
            let mut table = Table {
                values: BTreeMap::new(),
                default: default.to_vec(),
            };
            table.values.insert(0, first.to_vec());
            table.values.insert(1, second.to_vec());
            let found = looked_up(&cluster, range(3), &table);
            assert_eq!(found, [first, second, default]);
        };
        of_rank(&[10], &[11], &[-1]);
        of_rank(&[10, 11], &[20, 21], &[-1, -2]);
    });
}

/// A parameter of the function replaces upstream's variable.
#[test]
fn data_service_ops_test__variables() {
    watched("a captured value", || {
        let adding = Functions::new().with_map("add", |params, input| {
            let captured: i64 = params.decode()?;
            let call = move |value: Value| {
                let number = value.first().and_then(Tensor::as_i64).ok_or("no number")?;
                Ok(Value::from_iter([Tensor::i64(number + captured)]))
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        });
        let captured = Params::encode(&10_i64).expect("a number");
        let dataset = range(3).map_declared("add", captured, number());
        let cluster = knowing(adding);
        let found = distribute(cluster.service(), dataset, Policy::Off).numbers();
        assert_eq!(found, [10, 11, 12]);
    });
}

/// A source that counts its elements in a variable of this process.
#[derive(Clone)]
struct Generator {
    yielded: Arc<AtomicI64>,
}

impl SourceFactory for Generator {
    fn signature(&self, _: &Params) -> Result<SourceSignature, String> {
        Ok(SourceSignature {
            spec: number(),
            cardinality: Cardinality::Unknown,
            indexable: false,
        })
    }

    fn open(&self, _: &Params, _: Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        Ok(Box::new(self.clone()))
    }
}

impl Source for Generator {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let number = self.yielded.fetch_add(1, Ordering::Relaxed);
        Ok((number < 10).then(|| Value::from_iter([Tensor::i64(number)])))
    }
}

#[test]
fn data_service_ops_test__from_generator() {
    watched("a generator", || {
        let yielded = Arc::new(AtomicI64::new(0));
        let generator = Generator {
            yielded: yielded.clone(),
        };
        let functions = Functions::new().with_source("generator", generator);
        let cluster = Cluster::start(Mechanism::Memory, vec![functions]);
        let declared = SourceDeclaration {
            spec: SpecField(number()),
            count: None,
            infinite: false,
            indexable: false,
        };
        let dataset = Dataset::declared_source("generator", Params::none(), declared);
        let found = distribute(cluster.service(), dataset, Policy::Off).numbers();
        assert_eq!(found, once(10));
        assert!(yielded.load(Ordering::Relaxed) > 10, "it ran in this process");
    });
}

#[test]
fn data_service_ops_test__distribute_large_graph() {
    watched("a large graph", || {
        let (spec, ones) = large();
        let found = elements(&cluster(), Dataset::tensors(spec, vec![ones.clone()]));
        assert_eq!(found.len(), 1);
        let tensor = found[0].component(0).expect("one component");
        assert_eq!(tensor.dims(), LARGE);
        assert!(tensor.bytes() == ones.fixed, "8 MB of ones");
    });
}

const LARGE: [u64; 3] = [2, 1000, 1000];

/// Returns the spec and the data of a tensor of 8 MB.
pub(super) fn large() -> (ElementSpec, ConstantTensor) {
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::F32, &LARGE)).expect("a tensor");
    let ones = 1_f32.to_le_bytes().repeat(LARGE.iter().product::<u64>() as usize);
    (spec, ConstantTensor::fixed(ones))
}

#[test]
fn data_service_ops_test__from_dataset_id() {
    watched("by id", || {
        let cluster = cluster();
        let dataset = cluster.service().register(range(10), None).expect("registered");
        let known = cluster.service().dataset(&dataset).expect("known");
        assert_eq!(known.spec, number());
        assert_eq!(
            from_id(cluster.service(), dataset, Policy::Off).numbers(),
            once(10)
        );
    });
}

/// Readers never declare a spec, because the service knows the spec.
#[test]
fn data_service_ops_test__py_string_dataset_id() {
    watched("by an id in letters", || {
        let cluster = cluster();
        let dataset = cluster.service().register(range(10), None).expect("registered");
        let text = dataset.to_string();
        assert_eq!(
            from_id(cluster.service(), id(&text), Policy::Off).numbers(),
            once(10)
        );
    });
}

#[test]
fn data_service_ops_test__from_dataset_id_shared_jobs() {
    watched("one name, two datasets", || {
        let cluster = Cluster::plain(Mechanism::Memory, 2);
        let service = cluster.service();
        let ranges = [("dataset_1", range(20)), ("dataset_2", Dataset::range(20, 40, 1))];
        let mut objects = Vec::new();
        for (name, dataset) in ranges {
            let dataset = service.register(dataset, Some(id(name))).expect("registered");
            for _ in 0..2 {
                let mut object = from_id(service, dataset.clone(), Policy::Dynamic);
                object.request = object.request.named_in_dataset("shared_job");
                object.config.max_outstanding = MaxOutstanding::Elements(2);
                objects.push(object);
            }
        }
        let mut readers: Vec<_> = objects.iter().map(|object| object.reader()).collect();
        let mut found = Vec::new();
        // The consumers read in turn, so that each consumer gets a part.
        while !readers.is_empty() {
            readers.retain_mut(|reader| {
                let element = reader.next_element().expect("the reader proceeds");
                found.extend(element.iter().flat_map(|element| items(element, "")));
                element.is_some()
            });
        }
        assert_eq!(sorted(found), once(40));
    });
}

#[test]
fn data_service_ops_test__from_dataset_id_multiple_components() {
    watched("a nested structure", || {
        let pair = Dataset::zip([range(10), range(10)]);
        let dataset = Dataset::zip_named([("a", pair), ("b", range(10))]);
        let cluster = cluster();
        let found = elements(&cluster, dataset);
        let structure = Structure::Dict(vec![
            (
                "a".to_owned(),
                Structure::Tuple(vec![Structure::Leaf, Structure::Leaf]),
            ),
            ("b".to_owned(), Structure::Leaf),
        ]);
        assert_eq!(found.len(), 10);
        for (number, element) in (0..).zip(&found) {
            assert_eq!(element.spec().structure(), &structure);
            for path in ["a.0", "a.1", "b"] {
                assert_eq!(items(element, path), [number], "{path}");
            }
        }
    });
}

#[test]
fn data_service_ops_test__from_dataset_id_wrong_element_spec() {
    watched("another specification", || {
        let cluster = cluster();
        let dataset = cluster.service().register(range(10), None).expect("registered");
        let request = ReadRequest::new(dataset, Policy::Off);
        let known = service_reader::dataset(cluster.service(), &request, &ReaderConfig::default())
            .and_then(|dataset| Ok(dataset.graph()?))
            .expect("it is known");
        let [node] = known.nodes() else {
            panic!("{known:?}")
        };
        let Some(reader) = node.op.of::<ServiceReader>() else {
            panic!("{node:?}")
        };
        let wrong = TensorSpec::with_dims(Dtype::String, &[None]);
        let wrong = Dataset::from_service(ServiceReader {
            spec: SpecField(ElementSpec::single(wrong).expect("a vector")),
            ..reader.clone()
        });
        let functions = Arc::new(functions::builtin(Some(&cluster.key)));
        let mut reader = LocalReader::open(wrong, functions, 1, 0).expect("it opens");
        let error = reader.next().expect("not the end").expect_err("another thing");
        let said = "found i64[] as component 0";
        assert!(error.to_string().contains(said), "{error}");
    });
}

#[test]
fn data_service_ops_test__from_dataset_id_not_registered() {
    watched("not registered", || {
        let cluster = cluster();
        let unknown = from_id(cluster.service(), id("UnregisteredID"), Policy::Off);
        let refusals = [
            refusal(unknown.iterate()),
            refusal(cluster.service().dataset(&id("UnregisteredID"))),
        ];
        for error in refusals {
            assert_eq!(error.code, Code::NotFound, "{error}");
            let said = "there is no dataset UnregisteredID";
            assert!(error.to_string().contains(said), "{error}");
        }
    });
}

#[test]
fn data_service_ops_test__register_different_datasets() {
    watched("two datasets", || {
        let cluster = cluster();
        let register = |count| {
            cluster
                .service()
                .register(range(count), None)
                .expect("registered")
        };
        let (first, second) = (register(10), register(20));
        assert_ne!(first, second);
        assert_eq!(from_id(cluster.service(), first, Policy::Off).numbers(), once(10));
        assert_eq!(
            from_id(cluster.service(), second, Policy::Off).numbers(),
            once(20)
        );
    });
}

#[test]
fn data_service_ops_test__register_with_explicit_dataset_id() {
    watched("an id of one's own", || {
        let cluster = cluster();
        let service = cluster.service();
        let registered = service
            .register(range(10), Some(id("dataset_id")))
            .expect("registered");
        assert_eq!(registered.as_str(), "dataset_id");
        for dataset in [registered, id("dataset_id")] {
            assert_eq!(from_id(service, dataset, Policy::Off).numbers(), once(10));
        }
    });
}

#[test]
fn data_service_ops_test__from_registered_string_dataset_id() {
    watched("by a literal id", || {
        let cluster = cluster();
        let registered = cluster.service().register(range(10), Some(id("dataset_id")));
        drop(registered.expect("registered"));
        assert_eq!(
            from_id(cluster.service(), id("dataset_id"), Policy::Off).numbers(),
            once(10)
        );
    });
}

#[test]
fn data_service_ops_test__register_same_dataset_ids() {
    watched("one id twice", || {
        let cluster = cluster();
        let service = cluster.service();
        let objects: Vec<_> = (0..2)
            .map(|_| {
                let dataset = service.register(range(10), Some(id("dataset_id")));
                from_id(service, dataset.expect("registered"), Policy::Off).named("job_name")
            })
            .collect();
        let status = service.status().expect("a status");
        assert_eq!(status.counts.datasets, 1, "{:?}", status.datasets);
        assert_eq!(objects[0].numbers(), once(10));
        assert_eq!(objects[1].numbers(), once(0));
    });
}

#[test]
fn data_service_ops_test__register_different_dataset_ids() {
    watched("two ids", || {
        let cluster = cluster();
        let service = cluster.service();
        for (name, second) in [("job_1", None), ("job_2", Some(id("dataset_id_2")))] {
            let ids = [Some(id("dataset_id_1")), second].map(|id| service.register(range(10), id));
            let [first, second] = ids.map(|id| id.expect("registered"));
            assert_ne!(first, second);
            for dataset in [first, second] {
                let mut object = from_id(service, dataset, Policy::Off);
                object.request = object.request.named_in_dataset(name);
                assert_eq!(object.numbers(), once(10));
            }
        }
    });
}

#[test]
fn data_service_ops_test__datasets_do_not_match() {
    watched("another structure", || {
        let cluster = cluster();
        let service = cluster.service();
        service
            .register(range(5), Some(id("dataset_id")))
            .expect("registered");
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::String, &[5])).expect("a vector");
        let strings = ConstantTensor::items(["v1", "v2", "v3", "v4", "v5"]);
        let strings = Dataset::tensor_slices(spec, vec![strings]);
        let error = refusal(service.register(strings, Some(id("dataset_id"))));
        assert_eq!(error.code, Code::InvalidArgument, "{error}");
        let said = "is registered already, and this one is different: the element specification differs";
        assert!(error.to_string().contains(said), "{error}");
    });
}
