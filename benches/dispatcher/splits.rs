//! The throughput of splits, end to end: a dispatcher, workers and a counting reader, each a process, over
//! QUIC on loopback.

use std::time::Instant;

use millstream::client::ReaderConfig;
use millstream::control::Policy;
use millstream::element::Element;
use millstream::exactly_once::{ExactReader, ExactTerms};
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};
#[cfg(feature = "etcd")]
use millstream_testkit::EtcdCluster;
use tempfile::TempDir;

use super::Scale;
use super::processes::{Key, Server, own_cpu_seconds};
use super::table;

/// The number of elements in the dataset `range(0, …)`.
const ELEMENTS: u64 = 10_000_000;
const ELEMENTS_SMALL: u64 = 2_000;
/// The numbers of elements in a split. The targets are rates of splits of at most 1 000 elements, and of
/// splits of one element.
const SPLIT_SIZES: [u64; 4] = [1, 10, 100, 1000];
const WORKERS: usize = 2;

/// The place of the dispatcher's records.
#[derive(Clone, Copy)]
enum Place {
    Memory,
    Disk,
    #[cfg(feature = "etcd")]
    Etcd,
}

impl Place {
    const ALL: &[Place] = &[
        Place::Memory,
        Place::Disk,
        #[cfg(feature = "etcd")]
        Place::Etcd,
    ];

    fn name(self) -> &'static str {
        match self {
            Place::Memory => "memory",
            Place::Disk => "disk",
            #[cfg(feature = "etcd")]
            Place::Etcd => "etcd",
        }
    }
}

/// The guarantee of the job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visitation {
    AtMostOnce,
    ExactlyOnce,
}

impl Visitation {
    fn name(self) -> &'static str {
        match self {
            Visitation::AtMostOnce => "at most once",
            Visitation::ExactlyOnce => "exactly once",
        }
    }
}

/// The parts that must outlive the dispatcher, and the flags that name them.
struct Records {
    flags: Vec<String>,
    _folder: TempDir,
    #[cfg(feature = "etcd")]
    _etcd: Option<EtcdCluster>,
}

impl Records {
    /// Prepares a place for records. Returns `None` for etcd where etcd is not installed.
    fn new(place: Place) -> Result<Option<Records>, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        #[cfg(feature = "etcd")]
        let mut etcd = None;
        let flags = match place {
            Place::Memory => Vec::new(),
            Place::Disk => vec!["--work-dir".to_owned(), folder.path().display().to_string()],
            #[cfg(feature = "etcd")]
            Place::Etcd => {
                let Some(cluster) = EtcdCluster::start(1, &[]) else {
                    return Ok(None);
                };
                let store = format!("etcd://{}/bench", cluster.addresses());
                etcd = Some(cluster);
                vec!["--store".to_owned(), store]
            }
        };
        Ok(Some(Records {
            flags,
            _folder: folder,
            #[cfg(feature = "etcd")]
            _etcd: etcd,
        }))
    }
}

/// Reads the dataset with each split size, and with the records in each place.
pub(crate) fn run(scale: Scale) -> Result<(), String> {
    let elements = scale.elements.unwrap_or(scale.pick(ELEMENTS, ELEMENTS_SMALL));
    table::say(&format!(
        "splits: range({elements}) under DYNAMIC, {WORKERS} workers and one reader that counts; processor time in µs a split"
    ))?;
    table::header(&[
        "store",
        "visitation",
        "elements/split",
        "splits",
        "seconds",
        "splits/s",
        "elements/s",
        "cpu dispatcher",
        "cpu workers",
        "cpu reader",
    ])?;
    for place in Place::ALL {
        for visitation in [Visitation::AtMostOnce, Visitation::ExactlyOnce] {
            for split_size in SPLIT_SIZES {
                measure(*place, visitation, elements, split_size)?;
            }
        }
    }
    Ok(())
}

fn measure(place: Place, visitation: Visitation, elements: u64, split_size: u64) -> Result<(), String> {
    let key = Key::generate()?;
    let Some(records) = Records::new(place)? else {
        return Ok(());
    };
    let flags: Vec<&str> = records.flags.iter().map(String::as_str).collect();
    let dispatcher = Server::dispatcher(&key, &flags)?;
    let workers: Vec<Server> = (0..WORKERS)
        .map(|_| Server::worker(&key, &dispatcher.address))
        .collect::<Result<_, String>>()?;
    let cpu = || {
        let of_workers = workers.iter().map(Server::cpu_seconds).sum::<f64>();
        [dispatcher.cpu_seconds(), of_workers, own_cpu_seconds()]
    };
    let service = Service::connect(&key.loaded, &dispatcher.address, ServiceConfig::default());
    let service = service.map_err(|error| error.to_string())?;
    let before = cpu();
    let began = Instant::now();
    read(&service, visitation, elements, split_size)?;
    let seconds = began.elapsed().as_secs_f64();
    let after = cpu();
    service.close();
    let splits = elements.div_ceil(split_size) as f64;
    let mut cells = vec![
        place.name().to_owned(),
        visitation.name().to_owned(),
        split_size.to_string(),
        splits.to_string(),
        format!("{seconds:.2}"),
        format!("{:.0}", splits / seconds),
        format!("{:.0}", elements as f64 / seconds),
    ];
    let cpu = after.iter().zip(before);
    cells.extend(cpu.map(|(after, before)| format!("{:.2}", (after - before) * 1e6 / splits)));
    table::row(&cells)
}

/// Reads all elements, and checks their count and their sum, so that a missing or repeated element is an
/// error.
fn read(service: &Service, visitation: Visitation, elements: u64, split_size: u64) -> Result<(), String> {
    let stop = i64::try_from(elements).map_err(|error| error.to_string())?;
    let dataset = Dataset::range(0, stop, 1).split_size(split_size);
    let dataset = service
        .register(dataset, None)
        .map_err(|error| error.to_string())?;
    let request = ReadRequest::new(dataset, Policy::Dynamic);
    let config = ReaderConfig::default();
    let (count, sum) = match visitation {
        Visitation::AtMostOnce => {
            let job = service.job(&request).map_err(|error| error.to_string())?;
            let mut reader = service.read(job, 0, &config).map_err(|error| error.to_string())?;
            total(0, || reader.next_element().map_err(|error| error.to_string()))?
        }
        Visitation::ExactlyOnce => {
            let request = request.exactly_once(ExactTerms::new(0));
            let reader = ExactReader::open(service, &request, 0, &config);
            let mut reader = reader.map_err(|error| error.to_string())?;
            let next = || reader.next_element().map_err(|error| error.to_string());
            total(ExactReader::FIRST_COMPONENT, next)?
        }
    };
    if (count, sum) != (elements, stop * (stop - 1) / 2) {
        return Err(format!(
            "expected {elements} elements, found {count} with the sum {sum}"
        ));
    }
    Ok(())
}

/// Returns the number of elements, and the sum of the numbers in this component.
fn total(
    component: usize,
    mut next: impl FnMut() -> Result<Option<Element>, String>,
) -> Result<(u64, i64), String> {
    let (mut count, mut sum) = (0_u64, 0_i64);
    while let Some(element) = next()? {
        let number = element
            .component(component)
            .ok_or("an element without a component")?;
        let number: &[i64] = number.as_slice().map_err(|error| error.to_string())?;
        count += 1;
        sum += number.iter().sum::<i64>();
    }
    Ok((count, sum))
}
