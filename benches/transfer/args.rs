//! The flags of `bench-transfer`, with their help texts and checks.

use std::net::SocketAddr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use millstream::dataplane::transport::Compression;
use millstream::pipeline::graph::SPLIT_SIZE_MAX;

use crate::payload::Payload;

/// The longest measurement in seconds: an hour.
const SECONDS_MAX: f64 = 3600.0;
/// The maximum number of bytes in a split, unless the flag sets its number of elements.
const SPLIT_BYTES: u64 = 32 << 20;

const FIGURES: &str = "\
Figures, without the warm-up:
  elements/s, GB/s   elements and payload that the reader returned; 1 GB is 10^9 bytes
  p50 us, p99 us     time from an element's production until the reader returns it, in microseconds. Without
                     --rate the buffers are full, so elements mostly wait in buffers
  cpu wrk, cpu cli   processor seconds per GB, user and system: of all workers (or the sender), and of the reader
  mtu                UDP payload of a packet at the end of the run, in bytes (JSON: also of the other end)
  peak               maximum number of elements that had left the task buffers and were not returned yet
The medians of --rounds include each transport's ratio to the first transport of --transport at the same size.

Examples:
  bench-transfer local
  bench-transfer local --transport quic,raw-quic --mtu 8952 --rounds 5 --seconds 1
  bench-transfer local --transport quic,shm,memory --element-bytes 64,1k,1M --json
  bench-transfer local --transport quic --workers 3 --stuck-workers 1 --max-outstanding 1
  bench-transfer local --transport quic --element-bytes 1k --rate 10000
  bench-transfer local --transport shm,ring,unix-socket --element-bytes 64,1M --rounds 5
  bench-transfer local --transport shm,futex --element-bytes 64 --rate 1000
  bench-transfer local --transport shm,touch-loop --touch
  bench-transfer local --transport shm --visitation at-most-once,exactly-once --rounds 5";

/// Measures the throughput of elements, next to yardsticks in the same run.
///
/// The figures are meaningful as ratios within one run on one machine. In each round, the program measures
/// all transports in turn; with --rounds above 1, it also prints the medians.
#[derive(Debug, Parser)]
#[command(name = "bench-transfer", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measures on this host, with producer and reader in separate processes.
    #[command(after_help = FIGURES)]
    Local(Scenario),
    /// Runs the producing end (a dispatcher and workers), for a reader on another host.
    Serve(Serve),
    /// Runs the reading end, for a `serve` on another host.
    Pull(Pull),
    /// Runs one producing process of `local`. The program uses this command internally.
    #[command(hide = true)]
    Child(Child),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Scenario {
    /// The transports to measure, comma-separated: the service over quic, shm or memory, or a yardstick.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "quic,raw-quic,raw-tcp"
    )]
    pub(crate) transport: Vec<Transport>,
    #[command(flatten)]
    pub(crate) load: Load,
    /// The divisions of the elements among workers to measure, comma-separated. With the first two, the
    /// service reads a dataset of finite splits.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "off")]
    pub(crate) visitation: Vec<Visitation>,
    /// The number of rounds. Each round measures all transports.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// Prints one JSON object per line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The elements of a run, and the settings of their transfer.
#[derive(Debug, Clone, Args)]
pub(crate) struct Load {
    /// The payload sizes of one element in bytes, comma-separated; k, M and G stand for powers of 1024.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1M", value_parser = parse_bytes)]
    pub(crate) element_bytes: Vec<u64>,
    /// The seconds of each measurement, after a short warm-up.
    #[arg(long, value_name = "S", default_value = "3", value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// The maximum number of outstanding elements for each reader; 0 derives the number from the element
    /// size.
    #[arg(long, value_name = "M", default_value_t = 0)]
    pub(crate) max_outstanding: u64,
    /// The compression on the network: none, lz4 or auto.
    #[arg(long, value_name = "CODEC", default_value = "none")]
    pub(crate) compression: Compression,
    /// The content of an element between its stamps.
    #[arg(long, value_enum, default_value_t = Payload::Zeros)]
    pub(crate) payload: Payload,
    /// The number of elements in a split, unless workers send endless sequences. 0 means 4096 elements, as in
    /// a dataset of more than 4 million elements, or fewer if they have more than 32 MiB.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=4096))]
    pub(crate) split_elements: u64,
    /// The number of workers. Each worker is a process; for the transport memory, all workers run in the
    /// reader's process.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) workers: u32,
    /// The number of workers whose function never returns; --workers includes them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) stuck_workers: u32,
    /// The UDP payload of a packet, in bytes. By default the program finds the payload by probing.
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u16>,
    /// The number of elements to produce per second, over all workers; use this flag to measure latency.
    /// Without the flag, workers produce at full speed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Writes every byte of an element when producing it, and reads every byte when reading it.
    #[arg(long)]
    pub(crate) touch: bool,
    /// The seconds after the start at which the reader pauses for one second. The program then prints the
    /// number of outstanding elements.
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub(crate) pause_at: Option<f64>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    /// The address that the dispatcher listens on. An address beyond loopback needs an explicit key
    /// (MILLSTREAM_KEY or --key).
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5060")]
    pub(crate) bind: SocketAddr,
    /// The file with the cluster key. Without this flag, the variable MILLSTREAM_KEY names the file or
    /// contains the key itself.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Pull {
    /// The dispatcher's address, as `serve` prints it.
    #[arg(value_name = "HOST:PORT")]
    pub(crate) dispatcher: String,
    /// The file with the cluster key. Without this flag, the variable MILLSTREAM_KEY names the file or
    /// contains the key itself.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) load: Load,
    /// Prints one JSON object per line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Child {
    /// The role of the process.
    #[arg(long)]
    pub(crate) role: ChildRole,
    /// The cluster key. The environment passes the key, because every user on the host can read a command
    /// line.
    #[arg(long, env = "MILLSTREAM_KEY", hide_env_values = true)]
    pub(crate) key: String,
    /// The address of the dispatcher, for a worker.
    #[arg(long)]
    pub(crate) dispatcher: Option<String>,
    /// The number of this worker.
    #[arg(long, default_value_t = 0)]
    pub(crate) index: u32,
    /// A file of counters that the process shares with the reader.
    #[arg(long)]
    pub(crate) gauge: Option<std::path::PathBuf>,
    /// The meeting point of a yardstick's two processes: the path of a socket, the reader's memory, or a
    /// name.
    #[arg(long)]
    pub(crate) meet: Option<String>,
    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChildRole {
    Dispatcher,
    Worker,
    RawQuic,
    RawTcp,
    UnixSocket,
    Ring,
    Futex,
    Iceoryx2,
}

/// The transports and yardsticks to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// The service over QUIC, with dispatcher, workers, tickets and the public client.
    Quic,
    /// The service over shared memory between processes.
    Shm,
    /// The service within this process.
    Memory,
    /// Bare quinn with the service's configuration and without elements. The reader copies each chunk into a
    /// pooled contiguous buffer.
    RawQuic,
    /// Bare quinn without the reader's copy.
    RawQuicNocopy,
    /// Plaintext TCP with large buffers. The reader reads each byte once into its own memory.
    RawTcp,
    /// A copy through a Unix stream socket with large buffers.
    UnixSocket,
    /// A bare ring in shared memory with one descriptor per element. Sleeping processes wait at futexes, and
    /// the slots contain the stamps.
    Ring,
    /// Wake-ups of a sleeping process with a bare futex, without payload. The default is 1000 wake-ups a
    /// second; --rate changes the number.
    Futex,
    /// Stamped slots sent through iceoryx2. The program must be built with --features iceoryx2.
    Iceoryx2,
    /// Writing and reading every byte in one process with two threads. The measurement is the yardstick of
    /// --touch.
    TouchLoop,
    /// A copy within memory.
    Memcpy,
}

/// The divisions of the elements among workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Visitation {
    /// Each split goes to one worker, and is lost with this worker.
    AtMostOnce,
    /// Each split is read exactly once, in a fixed order.
    ExactlyOnce,
    /// Each worker sends an endless sequence of its own.
    Off,
}

impl Visitation {
    /// Returns the name; `None` for the default.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::AtMostOnce => Some("at-most-once"),
            Self::ExactlyOnce => Some("exactly-once"),
            Self::Off => None,
        }
    }
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::Shm => "shm",
            Self::Memory => "memory",
            Self::RawQuic => "raw-quic",
            Self::RawQuicNocopy => "raw-quic-nocopy",
            Self::RawTcp => "raw-tcp",
            Self::UnixSocket => "unix-socket",
            Self::Ring => "ring",
            Self::Futex => "futex",
            Self::Iceoryx2 => "iceoryx2",
            Self::TouchLoop => "touch-loop",
            Self::Memcpy => "memcpy",
        }
    }
}

impl Load {
    /// Returns the number of elements in a split. Large elements stand for batches, of which each split has
    /// few.
    pub(crate) fn split_elements(&self, element_bytes: u64) -> u64 {
        match self.split_elements {
            0 => (SPLIT_BYTES / element_bytes.max(1)).clamp(1, SPLIT_SIZE_MAX),
            elements => elements,
        }
    }

    /// Returns the flags that pass this load to a child process, for one element size.
    pub(crate) fn to_flags(&self, element_bytes: u64) -> Vec<String> {
        let mut flags = vec![
            format!("--element-bytes={element_bytes}"),
            format!("--seconds={}", self.seconds),
            format!("--compression={}", self.compression.name()),
            format!("--payload={}", self.payload.name()),
            format!("--workers={}", self.workers),
            format!("--stuck-workers={}", self.stuck_workers),
        ];
        flags.extend(self.mtu.map(|mtu| format!("--mtu={mtu}")));
        flags.extend(self.rate.map(|rate| format!("--rate={rate}")));
        flags.extend(self.touch.then(|| "--touch".to_owned()));
        flags
    }

    /// Checks combinations of flags that clap cannot check.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.stuck_workers >= self.workers {
            return Err(format!(
                "--stuck-workers {} must be less than --workers {}, because at least one worker must produce elements",
                self.stuck_workers, self.workers
            ));
        }
        if self.touch && self.payload != Payload::Zeros {
            return Err(format!(
                "--touch overwrites every byte of each element, so --payload {} has no effect; omit one of the two flags",
                self.payload.name()
            ));
        }
        Ok(())
    }

    /// Returns the only element size, for commands that measure one size.
    pub(crate) fn one_size(&self) -> Result<u64, String> {
        match self.element_bytes[..] {
            [element_bytes] => Ok(element_bytes),
            _ => Err(
                "--element-bytes takes only one size for this command; both ends must use the same size"
                    .to_owned(),
            ),
        }
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds| *seconds > 0.0 && *seconds <= SECONDS_MAX);
    seconds.ok_or_else(|| format!("invalid time `{text}`: expected seconds above 0, at most {SECONDS_MAX}"))
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let scale: u64 = match unit.trim_end_matches(['i', 'B', 'b']) {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => {
            return Err(format!(
                "invalid size `{text}`: expected a number such as 64, 1k, 1M or 1G"
            ));
        }
    };
    let count: u64 = digits
        .parse()
        .map_err(|_| format!("invalid size `{text}`: expected a number such as 64, 1k, 1M or 1G"))?;
    let bytes = count
        .checked_mul(scale)
        .filter(|bytes| (16..=1 << 31).contains(bytes));
    bytes.ok_or_else(|| format!("`{text}` is out of range: an element takes 16 bytes (two stamps) to 2 GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_measure_nothing_are_refused() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        for text in ["0", "-1", "nan", "inf", "1e9", "soon"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_worker_that_produces_must_be_left() {
        let load = |arguments: &[&str]| {
            let program = ["bench-transfer", "local"];
            match Cli::parse_from(program.iter().chain(arguments)).command {
                Command::Local(scenario) => scenario.load,
                other @ (Command::Serve(_) | Command::Pull(_) | Command::Child(_)) => panic!("{other:?}"),
            }
        };
        assert!(load(&["--workers=2", "--stuck-workers=1"]).check().is_ok());
        assert!(load(&["--stuck-workers=1"]).check().is_err());
        assert!(load(&["--payload=random"]).check().is_ok());
        assert!(load(&["--payload=random", "--touch"]).check().is_err());
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parse_bytes("64"), Ok(64));
        assert_eq!(parse_bytes("1k"), Ok(1024));
        assert_eq!(parse_bytes("1MiB"), Ok(1 << 20));
        assert!(parse_bytes("8").is_err());
        assert!(parse_bytes("1x").is_err());
        assert!(parse_bytes("99999999999999999999").is_err());
    }
}
