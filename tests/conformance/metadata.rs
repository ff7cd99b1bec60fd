//! The rows of metadata_test and data_transfer_test: the metadata of a dataset by its id, and the transports
//! of its elements.

use millstream::control::{Cardinality, DatasetId, Policy};
use millstream::dataplane::transport::Compression;
use millstream::element::{Dtype, Element, ElementSpec, TensorSpec};
use millstream::pipeline::exec::Functions;
use millstream::pipeline::exec::{PreparedMap, Tensor, Value};
use millstream::pipeline::graph::{self, ConstantTensor, Dataset, NoFunctions, Options, Params, Travel};
use millstream::{DatasetMetadata, Service, ServiceConfig, service_reader};

use super::harness::{distribute, from_id, range};
use crate::support::cluster::{Cluster, numbers};
use crate::support::links::Mechanism;
use crate::support::watched;

/// Returns datasets with the cardinality that their distribution must have: infinite, empty or finite.
fn cardinalities() -> Vec<(Dataset, Policy, Cardinality)> {
    let endless = || range(10).repeat(None);
    let mut table = Vec::new();
    for policy in [Policy::Off, Policy::Dynamic, Policy::Data] {
        table.push((endless(), policy, Cardinality::Infinite));
    }
    for policy in [Policy::Off, Policy::Dynamic, Policy::Data, Policy::FileOrData] {
        table.push((range(0), policy, Cardinality::Finite(0)));
    }
    // Upstream reports an unknown cardinality for a shard with an unknown number. Millstream reports 0,
    // because every share of an empty dataset is empty.
    table.push((range(0).shard_hint(), Policy::Hint, Cardinality::Finite(0)));
    table.push((range(10), Policy::Off, Cardinality::Unknown));
    table.push((endless(), Policy::FileOrData, Cardinality::Unknown));
    table.push((endless().shard_hint(), Policy::Hint, Cardinality::Unknown));
    table
}

#[test]
fn metadata_test__cardinality() {
    watched("cardinality", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        for (dataset, policy, cardinality) in cardinalities() {
            let distributed = distribute(cluster.service(), dataset, policy);
            let source =
                service_reader::dataset(cluster.service(), &distributed.request, &distributed.config);
            let graph = source.expect("a dataset").graph().expect("a graph");
            let found = match graph.facts(&NoFunctions).expect("facts").cardinality {
                graph::Cardinality::Infinite => Cardinality::Infinite,
                graph::Cardinality::Unknown => Cardinality::Unknown,
                graph::Cardinality::Finite(elements) => Cardinality::Finite(elements),
            };
            assert_eq!(found, cardinality, "{policy}");
        }
    });
}

#[test]
fn metadata_test__from_dataset_id_cardinality() {
    watched("cardinality by id", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        for (dataset, policy, cardinality) in cardinalities() {
            let id = cluster.service().register(dataset, None).expect("registered");
            let found = cluster.service().dataset(&id).expect("known");
            assert_eq!(
                found.distributed_cardinality(policy, None),
                cardinality,
                "{policy}"
            );
        }
    });
}

fn string() -> ElementSpec {
    ElementSpec::single(TensorSpec::scalar(Dtype::String)).expect("a scalar")
}

/// Returns the dataset of all letters, capitalised by a function of the workers.
fn letters() -> Dataset {
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::String, &[26])).expect("26 strings");
    let letters = ConstantTensor::items(('a'..='z').map(|letter| letter.to_string()));
    Dataset::tensor_slices(spec, vec![letters]).map_declared("upper", Params::none(), string())
}

fn upper() -> Functions {
    Functions::new().with_map("upper", |_, _| {
        let call = |value: Value| {
            let text = value[0].contiguous().ok_or("no string")?;
            let text = std::str::from_utf8(text)?.to_uppercase();
            Ok(Value::from_buf([Tensor::string(text)]))
        };
        Ok(PreparedMap {
            output: string(),
            call: std::sync::Arc::new(call),
        })
    })
}

fn text(element: &Element) -> String {
    let strings = element.component(0).expect("one component").strings();
    let strings = strings.expect("strings");
    strings.iter_str().map(|text| text.expect("UTF-8")).collect()
}

/// Returns the metadata and the elements that a trainer finds by the id alone.
fn by_id(travel: Option<Travel>) -> (DatasetMetadata, Vec<String>) {
    let cluster = Cluster::start(Mechanism::Quic, vec![upper()]);
    let id = DatasetId::new("letters").expect("an id");
    let dataset = letters().with_options(Options {
        compression: travel,
        ..Options::default()
    });
    let registered = cluster.service().register(dataset, Some(id.clone()));
    assert_eq!(registered.expect("registered"), id);
    let other = Service::connect(&cluster.key, &cluster.address, ServiceConfig::default());
    let other = other.expect("another trainer");
    let known = other.dataset(&id).expect("known");
    let reader = from_id(&other, id, Policy::Off).reader();
    let found = reader
        .map(|element| text(&element.expect("the reader proceeds")))
        .collect();
    other.close();
    (known, found)
}

fn capitals() -> Vec<String> {
    ('A'..='Z').map(|letter| letter.to_string()).collect()
}

/// The compressions that datasets declare, each with the compression found by the dataset's id. `None` leaves
/// the choice to each worker.
const COMPRESSIONS: [(Option<Travel>, Option<Compression>); 4] = [
    (None, None),
    (Some(Travel::Plain), Some(Compression::None)),
    (Some(Travel::Lz4), Some(Compression::Lz4)),
    (Some(Travel::Auto), Some(Compression::Auto)),
];

#[test]
fn metadata_test__from_dataset_id_omits_compression() {
    watched("compression", || {
        for (travel, compression) in COMPRESSIONS {
            let (known, found) = by_id(travel);
            assert_eq!(known.compression, compression);
            assert_eq!(found, capitals(), "{travel:?}");
        }
    });
}

#[test]
fn metadata_test__from_dataset_id_omits_element_spec_and_compression() {
    watched("specification and compression", || {
        for (travel, compression) in COMPRESSIONS {
            let (known, found) = by_id(travel);
            assert_eq!((known.spec, known.compression), (string(), compression));
            assert_eq!(found, capitals(), "{travel:?}");
        }
    });
}

/// A reader chooses its transport itself: memory for workers in its process, the network for other workers.
/// Upstream's bad protocol with a fallback corresponds to a worker whose memory the reader cannot see.
#[test]
fn data_transfer_test__alt_protocol_succeeds() {
    watched("transports", || {
        for mechanism in [Mechanism::Memory, Mechanism::Quic] {
            let cluster = Cluster::plain(mechanism, 1);
            let elsewhere = Service::connect(&cluster.key, &cluster.address, ServiceConfig::default());
            let elsewhere = elsewhere.expect("another trainer");
            for service in [cluster.service(), &elsewhere] {
                let reader = distribute(service, range(10), Policy::Off).reader();
                let found = reader.flat_map(|element| numbers(&element.expect("the reader proceeds")));
                assert_eq!(found.collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
            }
            elsewhere.close();
        }
    });
}
