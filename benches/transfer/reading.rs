//! The reading end of the service under load: the public client, by the transport that is to be measured and
//! no other.
//!
//! Owns what is counted at hand-over, and when both ends have come to rest. Refuses to know how workers are
//! started.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::Policy;
use millstream::dataplane::transport::LinkReport;
use millstream::link::{EndpointConfig, LoadedKey};
use millstream::{LocalWorkers, ReadRequest, Service, ServiceConfig, Worker};

use crate::args::{Load, Transport};
use crate::gauge::Gauge;
use crate::report::Record;
use crate::stamp::{self, Checker};
use crate::tally::{Tallied, Tally};
use crate::yardstick::Meter;

/// How often a worker notes what it copied, and the MTU in force.
pub(crate) const NOTE_EVERY: Duration = Duration::from_millis(50);

/// How long to wait for the workers to come to rest. With `--rate` they may take longer to use up the
/// credits; then what left them in the last moments is not counted as copied.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// How long `--pause-at` pauses: ample for every credit to be used up.
const PAUSE: Duration = Duration::from_secs(1);

/// The source of a run's elements.
pub(crate) struct Producers<'a> {
    pub(crate) key: &'a LoadedKey,
    pub(crate) dispatcher: &'a str,
    /// The one that is to be measured.
    pub(crate) transport: Transport,
    pub(crate) local: LocalWorkers,
    pub(crate) workers: Workers<'a>,
}

/// The workers, as the reader's side sees them.
pub(crate) enum Workers<'a> {
    /// They run in this process.
    Here(&'a [Worker]),
    /// They run in processes of these numbers on this host.
    Elsewhere(Vec<u32>),
    /// They run on another host, and nothing is known of them.
    Remote,
}

impl Workers<'_> {
    fn pids(&self) -> Vec<u32> {
        match self {
            Self::Here(_) | Self::Remote => Vec::new(),
            Self::Elsewhere(pids) => pids.clone(),
        }
    }

    /// Payload bytes that they copied, as far as they are known to this host.
    fn copied(&self, gauge: &Gauge) -> u64 {
        match self {
            Self::Here(workers) => workers.iter().map(copied_by).sum(),
            Self::Elsewhere(_) => gauge.copied(),
            Self::Remote => 0,
        }
    }

    /// Elements that they sent; `None` where nobody says. Waits until they say that none leaves them any
    /// more, so that what both ends copied is of the same elements: what the reader does not take uses up its
    /// credits.
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
            // Each worker notes twice, since the first may have begun before.
            while gauge.notes() < notes + 2 * noted && Instant::now() < deadline {
                std::thread::sleep(NOTE_EVERY / 10);
            }
            if gauge.left() == left || Instant::now() >= deadline {
                return Some(left);
            }
        }
    }
}

/// Payload bytes that a worker of this process copied.
pub(crate) fn copied_by(worker: &Worker) -> u64 {
    worker.server().counters().bytes_copied.load(Ordering::Relaxed)
}

/// Reads for as long as the load says.
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
    let dataset = service
        .register(stamp::dataset(element_bytes)?, None)
        .map_err(|error| error.to_string())?;
    let request = ReadRequest::new(dataset, Policy::Off);
    let job = service.job(&request).map_err(|error| error.to_string())?;
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
    let mut reader = service.read(job, 0, &config).map_err(|error| error.to_string())?;
    let taken = take(&mut reader, load, element_bytes, workers.pids(), gauge)?;
    let elements_in_all = workers.settle(gauge).unwrap_or(reader.stats().elements);
    let links = reader.links();
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

/// The first link, if all are by the transport that is to be measured; else why not.
fn check_links(links: &BTreeMap<String, LinkReport>, transport: Transport) -> Result<LinkReport, String> {
    if let Some((worker, link)) = links.iter().find(|(_, link)| link.transport != transport.name()) {
        let why = link.not_better.as_deref().unwrap_or("no reason is known");
        return Err(format!(
            "worker {worker} was read over {}, not {}: {why}",
            link.transport,
            transport.name()
        ));
    }
    let first = links.values().next().cloned();
    first.ok_or_else(|| "no worker has a link at the end".to_owned())
}

/// Counts and times of the elements that the reader received.
struct Taken {
    tallied: Tallied,
    paused_outstanding: Option<u64>,
}

/// Takes elements until the tally is done.
fn take(
    reader: &mut Reader,
    load: &Load,
    element_bytes: u64,
    pids: Vec<u32>,
    gauge: &Gauge,
) -> Result<Taken, String> {
    let mut checker = Checker::new(load.workers, load.touch);
    let mut tally = Tally::new(load, element_bytes, Meter::new(load.seconds, pids))?;
    let mut pause_at = load
        .pause_at
        .map(|seconds| (Instant::now(), Duration::from_secs_f64(seconds)));
    let mut paused_outstanding = None;
    loop {
        let element = reader.next_element().map_err(|error| error.to_string())?;
        let element = element.ok_or("the workers ended early")?;
        let produced_ns = checker.check(&element)?;
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
