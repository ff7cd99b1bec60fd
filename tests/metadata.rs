//! Tests of the metadata of a dataset by its id, and of the meaning of ids and names.

use millstream::client::{MaxOutstanding, ReaderConfig};
use millstream::control::{Cardinality, Code, DatasetId, DispatcherConfig, Policy};
use millstream::dataplane::transport::Compression;
use millstream::element::{Dtype, ElementSpec, TensorSpec};
use millstream::pipeline::graph::{Dataset, Options, Travel};
use millstream::{ReadRequest, ServiceError};

use crate::support::cluster::{Cluster, drain, number, prompt};
use crate::support::links::Mechanism;
use crate::support::watched;

#[test]
fn an_id_tells_spec_and_cardinality() {
    watched("metadata", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let service = cluster.service();
        let endless = Dataset::range(0, 9, 1).repeat(None).batch(4, true);
        let batches = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[4])).expect("a specification");
        for (dataset, spec, cardinality, distributed) in [
            (
                Dataset::range(0, 10, 1),
                number(),
                Cardinality::Finite(10),
                Cardinality::Unknown,
            ),
            (
                Dataset::range(0, 0, 1),
                number(),
                Cardinality::Finite(0),
                Cardinality::Finite(0),
            ),
            (endless, batches, Cardinality::Infinite, Cardinality::Infinite),
        ] {
            let id = service.register(dataset, None).expect("registered");
            let found = service.dataset(&id).expect("known");
            assert_eq!(
                (&found.id, &found.spec, found.cardinality),
                (&id, &spec, cardinality)
            );
            assert_eq!(found.distributed_cardinality(Policy::Dynamic, None), distributed);
            let hinted = found.distributed_cardinality(Policy::Hint, None);
            assert_eq!(
                hinted == Cardinality::Finite(0),
                cardinality == Cardinality::Finite(0)
            );
            // A coordinated read ends with its dataset.
            assert_eq!(found.distributed_cardinality(Policy::Off, Some(2)), distributed);
        }
        let unknown = DatasetId::new("nobody").expect("an id");
        match service.dataset(&unknown) {
            Err(ServiceError::Dispatcher(error)) => assert_eq!(error.code, Code::NotFound, "{error}"),
            other => panic!("{other:?}"),
        }
    });
}

/// C2.2
#[test]
fn an_id_means_one_structure() {
    watched("ids", || {
        let folder = tempfile::tempdir().expect("a directory");
        let work_dir = folder.path().join("deep/er");
        std::fs::create_dir_all(&work_dir).expect("a directory");
        let config = DispatcherConfig {
            work_dir: Some(work_dir.clone()),
            ..prompt()
        };
        let cluster = Cluster::plain_with(Mechanism::Quic, config, 0);
        let service = cluster.service();
        for id in ["../../x", "/x", "..", "a/../b"] {
            assert!(DatasetId::new(id).is_err(), "{id}");
        }
        let id = DatasetId::new("a=b:c_d-e.f").expect("an id");
        for _ in 0..2 {
            let found = service.register(Dataset::range(0, 10, 1), Some(id.clone()));
            assert_eq!(found.expect("the same"), id);
        }
        for other in [Dataset::range(0, 11, 1), Dataset::range(0, 10, 1).batch(1, true)] {
            match service.register(other, Some(id.clone())) {
                Err(ServiceError::Dispatcher(error)) => {
                    assert_eq!(error.code, Code::InvalidArgument);
                    assert!(error.message.contains("a=b:c_d-e.f"), "{error}");
                }
                other => panic!("{other:?}"),
            }
        }
        let names = |folder: &std::path::Path| -> Vec<String> {
            let entries = std::fs::read_dir(folder).expect("a directory");
            let name = |entry: std::io::Result<std::fs::DirEntry>| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            };
            entries.map(name).collect()
        };
        assert_eq!(names(folder.path()), ["deep"]);
        assert!(
            !names(&work_dir).iter().any(|name| name.contains("a=b")),
            "{:?}",
            names(&work_dir)
        );
    });
}

/// A job name belongs to one dataset, unless it is scoped to its dataset (C2.3).
#[test]
fn datasets_may_share_job_names() {
    watched("scoped names", || {
        let cluster = Cluster::plain(Mechanism::Memory, 1);
        let service = cluster.service();
        let register = |stop| {
            service
                .register(Dataset::range(0, stop, 1), None)
                .expect("registered")
        };
        let [ten, five] = [10, 5].map(register);
        let plain = |dataset: &DatasetId| ReadRequest::new(dataset.clone(), Policy::Dynamic);
        service.job(&plain(&ten).named("name")).expect("a job");
        match service.job(&plain(&five).named("name")) {
            Err(ServiceError::Dispatcher(error)) => {
                assert_eq!(error.code, Code::InvalidArgument);
                assert!(error.message.contains("dataset is"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        for (dataset, stop) in [(&ten, 10), (&five, 5)] {
            let job = service
                .job(&plain(dataset).named_in_dataset("name"))
                .expect("a job");
            let config = millstream::client::ReaderConfig {
                max_outstanding: MaxOutstanding::Elements(4),
                ..Default::default()
            };
            let mut reader = service.read(job, 0, &config).expect("a reader");
            assert_eq!(drain(&mut reader), (0..stop).collect::<Vec<i64>>());
        }
        let name = format!("dataset_id={five}/name");
        let jobs = service.status().expect("the status").jobs;
        assert!(jobs.iter().any(|job| job.name == name), "{jobs:?}");
    });
}

/// C2.2
#[test]
fn a_dataset_states_its_compression_to_readers() {
    watched("compression", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let service = cluster.service();
        let travelling = |compression| {
            Dataset::range(0, 1000, 1)
                .batch(100, false)
                .with_options(Options {
                    compression,
                    ..Options::default()
                })
        };
        let id = Some(DatasetId::new("travels").expect("an id"));
        let travels = [None, Some(Travel::Plain), Some(Travel::Lz4), Some(Travel::Auto)];
        for (travel, found) in travels.into_iter().zip([
            None,
            Some(Compression::None),
            Some(Compression::Lz4),
            Some(Compression::Auto),
        ]) {
            let dataset = service.register(travelling(travel), None).expect("registered");
            assert_eq!(service.dataset(&dataset).expect("known").compression, found);
            let job = service
                .job(&ReadRequest::new(dataset, Policy::Off))
                .expect("a job");
            let mut reader = service.read(job, 0, &ReaderConfig::default()).expect("a reader");
            assert!(drain(&mut reader).into_iter().eq(0..1000), "{travel:?}");
        }
        service
            .register(travelling(travels[1]), id.clone())
            .expect("registered");
        service
            .register(travelling(travels[1]), id.clone())
            .expect("the same");
        match service.register(travelling(travels[2]), id) {
            Err(ServiceError::Dispatcher(error)) => {
                assert_eq!(error.code, Code::InvalidArgument);
                assert!(
                    error.message.contains("the compression is none, not lz4"),
                    "{error}"
                );
            }
            other => panic!("{other:?}"),
        }
    });
}
