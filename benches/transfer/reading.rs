//! The reading end of the service under load: the public client, restricted to the transport to measure.
//!
//! Counts elements when the reader returns them, and waits until worker and reader are idle. Does not know
//! how workers are started.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::Policy;
use millstream::dataplane::transport::LinkReport;
use millstream::exactly_once::{ExactReader, ExactTerms};
use millstream::link::{EndpointConfig, LoadedKey};
use millstream::{LocalWorkers, ReadRequest, Service, ServiceConfig, Worker};

use crate::args::{Load, Transport, Visitation};
use crate::gauge::Gauge;
use crate::report::Record;
use crate::stamp::{self, Checker};
use crate::tally::{Tallied, Tally};
use crate::yardstick::Meter;

/// The interval at which a worker records its copied bytes and its MTU.
pub(crate) const NOTE_EVERY: Duration = Duration::from_millis(50);

/// The time limit for workers to become idle. With `--rate`, workers may need longer to use up their credits;
/// elements sent after the limit then do not count as copied.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// The duration of a pause with `--pause-at`, long enough for workers to use up every credit.
const PAUSE: Duration = Duration::from_secs(1);

/// The producers of a run's elements.
pub(crate) struct Producers<'a> {
    pub(crate) key: &'a LoadedKey,
    pub(crate) dispatcher: &'a str,
    /// The transport to measure.
    pub(crate) transport: Transport,
    pub(crate) visitation: Visitation,
    pub(crate) local: LocalWorkers,
    pub(crate) workers: Workers<'a>,
}

/// The workers, as the reader's process sees them.
pub(crate) enum Workers<'a> {
    /// Workers in this process.
    Here(&'a [Worker]),
    /// Workers in processes on this host, with these process ids.
    Elsewhere(Vec<u32>),
    /// Workers on another host, whose counters are unknown.
    Remote,
}

impl Workers<'_> {
    fn pids(&self) -> Vec<u32> {
        match self {
            Self::Here(_) | Self::Remote => Vec::new(),
            Self::Elsewhere(pids) => pids.clone(),
        }
    }

    /// Returns the payload bytes that the workers copied, as far as this host knows.
    fn copied(&self, gauge: &Gauge) -> u64 {
        match self {
            Self::Here(workers) => workers.iter().map(copied_by).sum(),
            Self::Elsewhere(_) => gauge.copied(),
            Self::Remote => 0,
        }
    }

    /// Waits until no more elements leave the workers, and returns the number of elements that they sent.
    /// Returns `None` for workers on another host. The reader takes no elements meanwhile, so the workers use
    /// up their credits. Both ends' counts then refer to the same elements.
    fn settle(&self, gauge: &Gauge) -> Option<u64> {
        let noted = match self {
            Self::Here(_) => 0,
            Self::Elsewhere(pids) => pids.len() as u64,
            Self::Remote => return None,
        };
        let deadline = Instant::now() + SETTLE_MAX;
        loop {
            let (left, notes) = (gauge.left(), gauge.notes());
            std::thread::sleep(NOTE_EVERY);
            // Each worker must record twice, because its first record may have begun before.
            while gauge.notes() < notes + 2 * noted && Instant::now() < deadline {
                std::thread::sleep(NOTE_EVERY / 10);
            }
            if gauge.left() == left || Instant::now() >= deadline {
                return Some(left);
            }
        }
    }
}

/// Returns the payload bytes that a worker of this process copied.
pub(crate) fn copied_by(worker: &Worker) -> u64 {
    worker.server().counters().bytes_copied.load(Ordering::Relaxed)
}

/// Reads for the duration in the load, and returns the record.
pub(crate) fn read(
    record: Record,
    load: &Load,
    element_bytes: u64,
    producers: Producers<'_>,
    gauge: &Arc<Gauge>,
) -> Result<Record, String> {
    let Producers {
        key,
        dispatcher,
        transport,
        visitation,
        local,
        workers,
    } = producers;
    let endpoint = EndpointConfig {
        mtu: load.mtu,
        ..EndpointConfig::default()
    };
    let config = ServiceConfig {
        endpoint,
        local,
        no_shared_memory: transport != Transport::Shm,
        ..ServiceConfig::default()
    };
    let service = Service::connect(key, dispatcher, config).map_err(|error| error.to_string())?;
    let handed = gauge.clone();
    let config = ReaderConfig {
        max_outstanding: match load.max_outstanding {
            0 => MaxOutstanding::Auto,
            elements => MaxOutstanding::Elements(elements),
        },
        max_outstanding_bytes: ReaderConfig::default()
            .max_outstanding_bytes
            .max(4 * element_bytes),
        on_handed: Some(Arc::new(move || handed.count_handed())),
        ..ReaderConfig::default()
    };
    let mut reader = Reading::open(&service, (load, element_bytes), visitation, &config)?;
    let taken = take(&mut reader, load, element_bytes, workers.pids(), gauge)?;
    let elements_in_all = workers.settle(gauge).unwrap_or(reader.reader().stats().elements);
    let links = reader.reader().links();
    let link = check_links(&links, transport)?;
    let copied_here: u64 = links.values().map(|link| link.bytes_copied).sum();
    let copied = copied_here + workers.copied(gauge);
    let record = Record {
        paused_outstanding: taken.paused_outstanding,
        bytes_copied_per_element: copied as f64 / elements_in_all.max(1) as f64,
        peak_outstanding: Some(gauge.peak()),
        mtu: link.mtu,
        peer_mtu: gauge.worker_mtu(),
        gso: link.mtu.map(|_| link.gso),
        gro: link.mtu.map(|_| link.gro),
        rcvbuf: link.rcvbuf_bytes,
        cipher: link.cipher.clone(),
        lost_packets: link.mtu.map(|_| link.lost_packets),
        ..record
    };
    Ok(taken.tallied.into_record(record))
}

/// Returns the first link if all links use the transport to measure. Otherwise returns the reason.
fn check_links(links: &BTreeMap<String, LinkReport>, transport: Transport) -> Result<LinkReport, String> {
    if let Some((worker, link)) = links.iter().find(|(_, link)| link.transport != transport.name()) {
        let why = link.not_better.as_deref().unwrap_or("the reason is unknown");
        return Err(format!(
            "worker {worker} was read over {}, expected {}: {why}",
            link.transport,
            transport.name()
        ));
    }
    let first = links.values().next().cloned();
    first.ok_or_else(|| "no worker has a link at the end".to_owned())
}

/// The counts and times of the elements that the reader received.
struct Taken {
    tallied: Tallied,
    paused_outstanding: Option<u64>,
}

/// The reader of a run, with the check of its elements.
struct Reading {
    reader: Opened,
    checker: Checker,
}

enum Opened {
    Plain(Box<Reader>),
    Exact(Box<ExactReader>),
}

impl Reading {
    fn open(
        service: &Service,
        (load, element_bytes): (&Load, u64),
        visitation: Visitation,
        config: &ReaderConfig,
    ) -> Result<Self, String> {
        let dataset = match visitation {
            Visitation::Off => stamp::dataset(element_bytes)?,
            Visitation::AtMostOnce | Visitation::ExactlyOnce => {
                stamp::counted_dataset(element_bytes, load.split_elements(element_bytes))?
            }
        };
        let dataset = service
            .register(dataset, None)
            .map_err(|error| error.to_string())?;
        let plain = |policy| {
            let job = service.job(&ReadRequest::new(dataset.clone(), policy))?;
            service
                .read(job, 0, config)
                .map(|reader| Opened::Plain(Box::new(reader)))
        };
        let reader = match visitation {
            Visitation::Off => plain(Policy::Off),
            Visitation::AtMostOnce => plain(Policy::Dynamic),
            Visitation::ExactlyOnce => {
                let request = ReadRequest::new(dataset.clone(), Policy::Dynamic);
                let request = request.exactly_once(ExactTerms::new(0));
                let reader = ExactReader::open(service, &request, 0, config);
                reader.map(|reader| Opened::Exact(Box::new(reader)))
            }
        };
        let checker = match visitation {
            Visitation::Off => Checker::new(load.workers, load.touch),
            Visitation::AtMostOnce if load.workers > 1 => Checker::unordered(load.touch),
            Visitation::AtMostOnce | Visitation::ExactlyOnce => Checker::new(1, load.touch),
        };
        Ok(Self {
            reader: reader.map_err(|error| error.to_string())?,
            checker,
        })
    }

    fn reader(&self) -> &Reader {
        match &self.reader {
            Opened::Plain(reader) => reader,
            Opened::Exact(reader) => reader.reader(),
        }
    }

    /// Takes the next element, and returns the time of its production.
    fn next(&mut self) -> Result<u64, String> {
        let (element, first) = match &mut self.reader {
            Opened::Plain(reader) => (reader.next_element().map_err(|error| error.to_string())?, 0),
            Opened::Exact(reader) => {
                let element = reader.next_element().map_err(|error| error.to_string())?;
                (element, ExactReader::FIRST_COMPONENT)
            }
        };
        let element = element.ok_or("the workers ended early")?;
        self.checker.check(&element, first)
    }
}

/// Takes elements until the tally is complete.
fn take(
    reader: &mut Reading,
    load: &Load,
    element_bytes: u64,
    pids: Vec<u32>,
    gauge: &Gauge,
) -> Result<Taken, String> {
    let mut tally = Tally::new(load, element_bytes, Meter::new(load.seconds, pids))?;
    let mut pause_at = load
        .pause_at
        .map(|seconds| (Instant::now(), Duration::from_secs_f64(seconds)));
    let mut paused_outstanding = None;
    loop {
        let produced_ns = reader.next()?;
        if let Some(tallied) = tally.count(produced_ns) {
            return Ok(Taken {
                tallied,
                paused_outstanding,
            });
        }
        if pause_at.is_some_and(|(since, at)| since.elapsed() >= at) {
            pause_at = None;
            std::thread::sleep(PAUSE);
            paused_outstanding = Some(gauge.outstanding());
        }
    }
}
