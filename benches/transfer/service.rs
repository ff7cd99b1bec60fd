//! The service under load: dispatcher, workers, tickets and the public client.

use std::path::Path;
use std::sync::Arc;

use millstream::control::DispatcherConfig;
use millstream::dataplane::worker::ServerConfig;
use millstream::link::{ClusterKey, EndpointConfig, KeySource, LoadedKey};
use millstream::{Dispatcher, LocalWorkers, Worker, WorkerConfig};

use crate::args::{Child, ChildRole, Load, Pull, Serve, Transport, Visitation};
use crate::child::announce;
use crate::gauge::Gauge;
use crate::local::Producer;
use crate::reading::{NOTE_EVERY, Producers, Workers, copied_by, read};
use crate::report::{Printer, Record};
use crate::stamp::{self, Stamper};

const NO_PART: &str = "this role does not belong to the service";

/// Runs a dispatcher or a worker until the parent kills the process.
pub(crate) fn run_child(child: &Child) -> Result<(), String> {
    let key = load_from(&KeySource::from_setting(&child.key))?;
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
            let mut copied = 0;
            loop {
                if let Some(gauge) = &gauge {
                    let now = copied_by(&worker);
                    gauge.note_copied(now - std::mem::replace(&mut copied, now));
                }
                if let (Some(gauge), Some(mtu)) =
                    (&gauge, worker.server().links().iter().find_map(|link| link.mtu))
                {
                    gauge.note_worker_mtu(mtu);
                }
                std::thread::sleep(NOTE_EVERY);
            }
        }
        ChildRole::RawQuic
        | ChildRole::RawTcp
        | ChildRole::UnixSocket
        | ChildRole::Ring
        | ChildRole::Futex
        | ChildRole::Iceoryx2 => Err(NO_PART.to_owned()),
    }
}

/// Measures the service over one transport.
pub(crate) fn measure(
    record: Record,
    load: &Load,
    element_bytes: u64,
    (transport, visitation): (Transport, Visitation),
) -> Result<Record, String> {
    let key = ClusterKey::generate().map_err(|error| error.to_string())?;
    let loaded = load_from(&KeySource::from_setting(&key.to_text()))?;
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
            let producers = Producers {
                key: &loaded,
                dispatcher: &address,
                transport,
                visitation,
                local,
                workers: Workers::Here(&workers),
            };
            let measured = read(record, load, element_bytes, producers, &gauge);
            for worker in workers {
                worker.stop().map_err(|error| error.to_string())?;
            }
            dispatcher.stop().map_err(|error| error.to_string())?;
            measured
        }
        Transport::Quic | Transport::Shm => {
            let (_processes, address, pids) = start_processes(&key, load, element_bytes, &gauge_path)?;
            let producers = Producers {
                key: &loaded,
                dispatcher: &address,
                transport,
                visitation,
                local: LocalWorkers::default(),
                workers: Workers::Elsewhere(pids),
            };
            read(record, load, element_bytes, producers, &gauge)
        }
        Transport::RawQuic
        | Transport::RawQuicNocopy
        | Transport::RawTcp
        | Transport::UnixSocket
        | Transport::Ring
        | Transport::Futex
        | Transport::Iceoryx2
        | Transport::TouchLoop
        | Transport::Memcpy => Err(NO_PART.to_owned()),
    }
}

/// Runs the producing end for a reader on another host, until the command is interrupted.
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

/// Reads from a `serve` on another host.
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
    let producers = Producers {
        key: &key,
        dispatcher: &pull.dispatcher,
        transport: Transport::Quic,
        visitation: Visitation::Off,
        local: LocalWorkers::default(),
        workers: Workers::Remote,
    };
    let record = read(record, &pull.load, element_bytes, producers, &gauge)?;
    // The workers' counters are on the other host, so the peak is unknown.
    printer
        .print(&Record {
            peak_outstanding: None,
            ..record
        })
        .map_err(|error| error.to_string())
}

/// Loads the key that an argument names, or else the key from the environment.
fn load_key(argument: Option<&str>) -> Result<LoadedKey, String> {
    let source = match argument {
        Some(argument) => KeySource::from_argument(argument),
        None => KeySource::from_environment(|name| std::env::var_os(name)),
    };
    load_from(&source.map_err(|error| error.to_string())?)
}

fn load_from(source: &KeySource) -> Result<LoadedKey, String> {
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
        block: load.payload.block(),
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

/// Starts the dispatcher and the workers as separate processes. Returns the processes, the dispatcher's
/// address, and the process ids of the workers.
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
