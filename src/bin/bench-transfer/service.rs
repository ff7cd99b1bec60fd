//! The service under load: dispatcher, workers, tickets and the public client.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::{DispatcherConfig, Policy};
use millstream::dataplane::worker::ServerConfig;
use millstream::link::{ClusterKey, EndpointConfig, KeySource, LoadedKey};
use millstream::{Dispatcher, LocalWorkers, ReadRequest, Service, ServiceConfig, Worker, WorkerConfig};

use crate::args::{Child, ChildRole, Load, Pull, Serve, Transport};
use crate::child::announce;
use crate::gauge::Gauge;
use crate::local::{Producer, with_cpu};
use crate::report::{Latency, Printer, Record};
use crate::stamp::{self, Checker, Stamper};
use crate::yardstick::{Measured, Meter};

/// How often a worker notes the MTU in force.
const NOTE_EVERY: Duration = Duration::from_millis(50);

/// How long `--pause-at` pauses: ample for every credit to be used up.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest latency told apart: a minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// Elements between two looks at the clock when they are small and many.
const LOOK_EVERY: u64 = 64;

/// Plays a dispatcher or a worker until the parent kills it.
pub(crate) fn run_child(child: &Child) -> Result<(), String> {
    let key = load_key(Some(&child.key))?;
    match child.role {
        ChildRole::Dispatcher => {
            let functions = Arc::new(millstream::functions::builtin(None));
            let dispatcher = Dispatcher::start(&key, None, DispatcherConfig::default(), functions);
            let dispatcher = dispatcher.map_err(|error| error.to_string())?;
            announce(&dispatcher.local_addr().to_string())?;
            loop {
                std::thread::park();
            }
        }
        ChildRole::Worker => {
            let dispatcher = child.dispatcher.as_deref().ok_or("a worker needs --dispatcher")?;
            let gauge = child
                .gauge
                .as_deref()
                .map(Gauge::open)
                .transpose()
                .map_err(|error| error.to_string())?;
            let gauge = gauge.map(Arc::new);
            let element_bytes = child.load.element_bytes.first().copied().unwrap_or(1 << 20);
            let config = worker_config(&child.load, element_bytes, child.index, dispatcher, gauge.clone())?;
            let worker = Worker::start(&key, config).map_err(|error| error.to_string())?;
            announce(worker.address())?;
            loop {
                if let (Some(gauge), Some(mtu)) =
                    (&gauge, worker.server().links().iter().find_map(|link| link.mtu))
                {
                    gauge.note_worker_mtu(mtu);
                }
                std::thread::sleep(NOTE_EVERY);
            }
        }
        ChildRole::RawQuic | ChildRole::RawTcp => Err("not a part of the service".to_owned()),
    }
}

/// Measures the service over one transport.
pub(crate) fn measure(
    record: Record,
    load: &Load,
    element_bytes: u64,
    transport: Transport,
) -> Result<Record, String> {
    let key = ClusterKey::generate().map_err(|error| error.to_string())?;
    let loaded = load_key(Some(&key.to_text()))?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let gauge_path = directory.path().join("gauge");
    let gauge = Arc::new(Gauge::open(&gauge_path).map_err(|error| error.to_string())?);
    match transport {
        Transport::Memory => {
            let local = LocalWorkers::default();
            let functions = Arc::new(millstream::functions::builtin(None));
            let dispatcher = Dispatcher::start(&loaded, None, DispatcherConfig::default(), functions);
            let dispatcher = dispatcher.map_err(|error| error.to_string())?;
            let address = dispatcher.local_addr().to_string();
            let workers: Vec<Worker> = (0..load.workers)
                .map(|index| {
                    let mut config =
                        worker_config(load, element_bytes, index, &address, Some(gauge.clone()))?;
                    config.local = local.clone();
                    Worker::start(&loaded, config).map_err(|error| error.to_string())
                })
                .collect::<Result<_, String>>()?;
            let measured = read(
                record,
                load,
                element_bytes,
                &loaded,
                &address,
                local,
                &gauge,
                Vec::new(),
            );
            for worker in workers {
                worker.stop().map_err(|error| error.to_string())?;
            }
            dispatcher.stop().map_err(|error| error.to_string())?;
            measured
        }
        Transport::Quic
        | Transport::RawQuic
        | Transport::RawQuicNocopy
        | Transport::RawTcp
        | Transport::Memcpy => {
            let (_processes, address, pids) = start_processes(&key, load, element_bytes, &gauge_path)?;
            read(
                record,
                load,
                element_bytes,
                &loaded,
                &address,
                LocalWorkers::default(),
                &gauge,
                pids,
            )
        }
    }
}

/// Runs the producing end for a reader on another host, until it is interrupted.
pub(crate) fn serve(serve: &Serve) -> Result<(), String> {
    let key = load_key(serve.key.as_deref())?;
    let functions = Arc::new(millstream::functions::builtin(None));
    let dispatcher = Dispatcher::start(&key, Some(serve.bind), DispatcherConfig::default(), functions);
    let dispatcher = dispatcher.map_err(|error| error.to_string())?;
    let address = dispatcher.local_addr().to_string();
    let element_bytes = serve.load.one_size()?;
    let mut workers = Vec::new();
    for index in 0..serve.load.workers {
        let mut config = worker_config(&serve.load, element_bytes, index, &address, None)?;
        config.bind = Some(std::net::SocketAddr::new(serve.bind.ip(), 0));
        workers.push(Worker::start(&key, config).map_err(|error| error.to_string())?);
    }
    let touch = if serve.load.touch { " --touch" } else { "" };
    announce(&format!(
        "serving; on the other host: bench-transfer pull {address} --element-bytes {element_bytes} --workers {}{touch}",
        serve.load.workers
    ))?;
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
            .map_err(|error| error.to_string())?;
    signals.forever().next();
    for worker in workers {
        worker.stop().map_err(|error| error.to_string())?;
    }
    dispatcher.stop().map_err(|error| error.to_string())
}

/// Reads from a `serve`.
pub(crate) fn pull(pull: &Pull) -> Result<(), String> {
    let key = load_key(pull.key.as_deref())?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let gauge = Arc::new(Gauge::open(&directory.path().join("gauge")).map_err(|error| error.to_string())?);
    let mut printer = Printer::new(pull.json);
    let element_bytes = pull.load.one_size()?;
    let record = Record {
        transport: Transport::Quic.name().to_owned(),
        element_bytes,
        max_outstanding: Some(pull.load.max_outstanding).filter(|elements| *elements > 0),
        ..Record::default()
    };
    let local = LocalWorkers::default();
    let record = read(
        record,
        &pull.load,
        element_bytes,
        &key,
        &pull.dispatcher,
        local,
        &gauge,
        Vec::new(),
    )?;
    // What the workers counted is on the other host.
    printer
        .print(&Record {
            peak_outstanding: None,
            ..record
        })
        .map_err(|error| error.to_string())
}

fn load_key(key: Option<&str>) -> Result<LoadedKey, String> {
    let source = match key {
        Some(key) => KeySource::from_setting(key),
        None => {
            let (xdg, home) = (std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"));
            KeySource::own_file(xdg.as_deref(), home.as_deref()).map_err(|error| error.to_string())?
        }
    };
    source.load().map_err(|error| error.to_string())
}

fn worker_config(
    load: &Load,
    element_bytes: u64,
    index: u32,
    dispatcher: &str,
    gauge: Option<Arc<Gauge>>,
) -> Result<WorkerConfig, String> {
    let stamper = Stamper {
        worker: index,
        element_bytes,
        touch: load.touch,
        is_stuck: index < load.stuck_workers,
        rate: load.rate.map(|rate| rate / u64::from(load.workers.max(1))),
    };
    let mut config = WorkerConfig::new(dispatcher);
    config.functions = Arc::new(stamp::functions(stamper));
    config.endpoint = EndpointConfig {
        mtu: load.mtu,
        ..EndpointConfig::default()
    };
    config.threads = Some(1);
    config.server = ServerConfig {
        compression: load.compression,
        on_taken: gauge.map(|gauge| Arc::new(move |elements| gauge.count_left(elements)) as _),
        ..ServerConfig::default()
    };
    Ok(config)
}

/// The dispatcher and the workers as processes of their own; the dispatcher's address; the workers' process numbers.
fn start_processes(
    key: &ClusterKey,
    load: &Load,
    element_bytes: u64,
    gauge: &Path,
) -> Result<(Vec<Producer>, String, Vec<u32>), String> {
    let mut dispatcher = Producer::start("dispatcher", key, load, element_bytes, &[])?;
    let address = dispatcher.read_line()?;
    let mut processes = vec![dispatcher];
    let mut pids = Vec::new();
    for index in 0..load.workers {
        let more = [
            format!("--dispatcher={address}"),
            format!("--index={index}"),
            format!("--gauge={}", gauge.display()),
        ];
        let mut worker = Producer::start("worker", key, load, element_bytes, &more)?;
        worker.read_line()?;
        pids.push(worker.pid());
        processes.push(worker);
    }
    Ok((processes, address, pids))
}

#[expect(
    clippy::too_many_arguments,
    reason = "one call each for two hosts, two processes and one"
)]
fn read(
    record: Record,
    load: &Load,
    element_bytes: u64,
    key: &LoadedKey,
    dispatcher: &str,
    local: LocalWorkers,
    gauge: &Arc<Gauge>,
    pids: Vec<u32>,
) -> Result<Record, String> {
    let endpoint = EndpointConfig {
        mtu: load.mtu,
        ..EndpointConfig::default()
    };
    let config = ServiceConfig {
        endpoint,
        local,
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
    let taken = take(&mut reader, load, element_bytes, pids, gauge)?;
    let links = reader.links();
    let link = links.values().next().cloned().unwrap_or_default();
    let copied: u64 = links.values().map(|link| link.bytes_copied).sum();
    let elements_in_all = reader.stats().elements.max(1);
    let record = Record {
        latency_us: Latency::of(&taken.latency),
        paused_outstanding: taken.paused_outstanding,
        bytes_copied_per_element: copied as f64 / elements_in_all as f64,
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
    Ok(with_cpu(
        record.with_rate(taken.measured.units, taken.measured.seconds),
        taken.measured,
    ))
}

/// What the reader saw.
struct Taken {
    measured: Measured,
    latency: Histogram<u64>,
    paused_outstanding: Option<u64>,
}

/// Takes elements until the meter is done.
fn take(
    reader: &mut Reader,
    load: &Load,
    element_bytes: u64,
    pids: Vec<u32>,
    gauge: &Gauge,
) -> Result<Taken, String> {
    let mut checker = Checker::new(load.workers, load.touch);
    let mut latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).map_err(|error| error.to_string())?;
    let look_every = if element_bytes >= 4096 || load.rate.is_some() {
        1
    } else {
        LOOK_EVERY
    };
    let mut meter = Meter::new(load.seconds, pids);
    let mut pause_at = load
        .pause_at
        .map(|seconds| (Instant::now(), Duration::from_secs_f64(seconds)));
    let mut paused_outstanding = None;
    let mut unseen = 0;
    loop {
        let element = reader.next_element().map_err(|error| error.to_string())?;
        let element = element.ok_or("the workers ended early")?;
        let produced_ns = checker.check(&element)?;
        unseen += 1;
        if unseen < look_every {
            continue;
        }
        latency.saturating_record(stamp::now_ns().saturating_sub(produced_ns).max(1));
        if let Some(measured) = meter.count(std::mem::take(&mut unseen)) {
            return Ok(Taken {
                measured,
                latency,
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
