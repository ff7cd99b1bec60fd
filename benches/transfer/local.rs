//! Measurements on one host: starts the producing processes, reads from them, and builds the record.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use millstream_link::{ClusterKey, Endpoint, EndpointConfig, Lane, PathReport, Role};

use crate::args::{Load, Scenario, Transport, Visitation};
use crate::report::{Cpu, Printer, Record};
use crate::same_host;
use crate::yardstick::{Measured, Meter, memcpy, raw_quic, raw_tcp};

/// The time within which a producing process must print its address.
const LINE_DEADLINE: Duration = Duration::from_secs(30);

/// The capacity of the channel of a producing process's lines. The process prints two lines in total.
const LINES_MAX: usize = 4;

/// Runs all requested measurements, round by round.
pub(crate) fn run(scenario: &Scenario) -> Result<(), String> {
    let mut printer = Printer::new(scenario.json);
    let mut records = Vec::new();
    for _ in 0..scenario.rounds {
        for &element_bytes in &scenario.load.element_bytes {
            for (&transport, &visitation) in pairs(&scenario.transport, &scenario.visitation) {
                let record = measure(transport, visitation, &scenario.load, element_bytes)
                    .map_err(|error| format!("{} at {element_bytes} bytes: {error}", transport.name()))?;
                printer.print(&record).map_err(|error| error.to_string())?;
                records.push(record);
            }
        }
    }
    if scenario.rounds > 1 && !scenario.json {
        printer
            .print_medians(&records)
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns every transport with every visitation.
fn pairs<'a>(
    transports: &'a [Transport],
    visitations: &'a [Visitation],
) -> impl Iterator<Item = (&'a Transport, &'a Visitation)> {
    transports
        .iter()
        .flat_map(move |transport| visitations.iter().map(move |visitation| (transport, visitation)))
}

fn measure(
    transport: Transport,
    visitation: Visitation,
    load: &Load,
    element_bytes: u64,
) -> Result<Record, String> {
    let record = Record {
        transport: transport.name().to_owned(),
        visitation: visitation.name(),
        element_bytes,
        max_outstanding: Some(load.max_outstanding).filter(|elements| *elements > 0),
        ..Record::default()
    };
    match transport {
        Transport::Memcpy => {
            let measured = memcpy::measure(element_bytes, Meter::new(load.seconds, Vec::new()));
            Ok(with_bytes(
                Record {
                    bytes_copied_per_element: element_bytes as f64,
                    ..record
                },
                measured,
            ))
        }
        Transport::RawTcp => measure_tcp(record, load, element_bytes),
        Transport::RawQuic | Transport::RawQuicNocopy => measure_quic(record, load, element_bytes, transport),
        Transport::Quic | Transport::Shm | Transport::Memory => {
            crate::service::measure(record, load, element_bytes, (transport, visitation))
        }
        Transport::UnixSocket => same_host::measure_unix_socket(record, load, element_bytes),
        Transport::Ring | Transport::Futex => {
            same_host::measure_shared(record, load, element_bytes, transport)
        }
        Transport::Iceoryx2 => same_host::measure_iceoryx2(record, load, element_bytes),
        Transport::TouchLoop => same_host::measure_touch_loop(record, load, element_bytes),
    }
}

fn measure_tcp(record: Record, load: &Load, element_bytes: u64) -> Result<Record, String> {
    let key = ClusterKey::generate().map_err(|error| error.to_string())?;
    let mut producer = Producer::start("raw-tcp", &key, load, element_bytes, &[])?;
    let address = producer
        .read_line()?
        .parse::<SocketAddr>()
        .map_err(|error| error.to_string())?;
    let meter = Meter::new(load.seconds, vec![producer.pid()]);
    let measured = raw_tcp::receive(address, element_bytes, meter).map_err(|error| error.to_string())?;
    Ok(with_bytes(record, measured))
}

fn measure_quic(
    record: Record,
    load: &Load,
    element_bytes: u64,
    transport: Transport,
) -> Result<Record, String> {
    let key = ClusterKey::generate().map_err(|error| error.to_string())?;
    let mut producer = Producer::start("raw-quic", &key, load, element_bytes, &[])?;
    let address = producer
        .read_line()?
        .parse::<SocketAddr>()
        .map_err(|error| error.to_string())?;
    let lane = Lane::start("reader").map_err(|error| error.to_string())?;
    let meter = Meter::new(load.seconds, vec![producer.pid()]);
    let config = EndpointConfig {
        mtu: load.mtu,
        ..EndpointConfig::default()
    };
    let copies = transport == Transport::RawQuic;
    let credentials = key.credentials(Role::Read);
    let reading = lane.spawn(async move {
        let endpoint = Endpoint::client(credentials, config).map_err(|error| error.to_string())?;
        raw_quic::receive(endpoint, address, element_bytes, meter, copies).await
    });
    let (measured, path) = reading.wait().map_err(|error| error.to_string())??;
    let peer_mtu = producer.read_line().ok().and_then(|line| line.parse().ok());
    let bytes_copied_per_element = if copies { element_bytes as f64 } else { 0.0 };
    let record = Record {
        peer_mtu,
        bytes_copied_per_element,
        ..record
    };
    Ok(with_bytes(with_path(record, &path), measured))
}

/// Adds the throughput of a measurement that counted bytes.
pub(crate) fn with_bytes(record: Record, measured: Measured) -> Record {
    let elements = measured.units / record.element_bytes;
    with_cpu(record.with_rate(elements, measured.seconds), measured)
}

/// Adds the processor time per gigabyte.
pub(crate) fn with_cpu(record: Record, measured: Measured) -> Record {
    let gigabytes = record.gigabytes();
    let cpu_s_per_gb = Cpu {
        worker: measured.cpu.producers.map(|seconds| seconds / gigabytes),
        client: measured.cpu.reader / gigabytes,
    };
    Record {
        cpu_s_per_gb,
        ..record
    }
}

/// Adds the properties of the network path.
pub(crate) fn with_path(record: Record, path: &PathReport) -> Record {
    Record {
        mtu: Some(path.mtu),
        gso: Some(path.gso),
        gro: Some(path.gro),
        rcvbuf: Some(path.rcvbuf_bytes),
        cipher: Some(path.cipher.to_owned()),
        lost_packets: Some(path.lost_packets),
        ..record
    }
}

/// A producing process, which ends with its owner.
#[derive(Debug)]
pub(crate) struct Producer {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Producer {
    /// Starts this program in another role.
    pub(crate) fn start(
        role: &str,
        key: &ClusterKey,
        load: &Load,
        element_bytes: u64,
        more: &[String],
    ) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(program)
            .args(["child", "--role", role])
            .env("MILLSTREAM_KEY", key.to_text())
            .args(load.to_flags(element_bytes))
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a producing process: {error}"))?;
        let stdout = child.stdout.take().ok_or("the producing process has no output")?;
        let (line, lines) = mpsc::sync_channel(LINES_MAX);
        // The thread ends when the process closes its output.
        std::thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.send(text).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// Returns the next line that the process prints.
    pub(crate) fn read_line(&mut self) -> Result<String, String> {
        self.lines
            .recv_timeout(LINE_DEADLINE)
            .map_err(|error| match error {
                mpsc::RecvTimeoutError::Timeout => {
                    format!("the producing process printed nothing for {LINE_DEADLINE:?}")
                }
                mpsc::RecvTimeoutError::Disconnected => "the producing process ended early".to_owned(),
            })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // A process that ended normally is gone already; a failed kill is harmless.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
