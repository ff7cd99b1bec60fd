//! The flags of `bench-transfer`, and the checked scenario that they come to.

use std::net::SocketAddr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use millstream::dataplane::transport::Compression;

use crate::payload::Payload;

/// Longest measurement, in seconds: an hour.
const SECONDS_MAX: f64 = 3600.0;

const FIGURES: &str = "\
Figures, each of the measured seconds alone:
  elements/s, GB/s   handed over; 1 GB is 10^9 bytes of payload
  p50 us, p99 us     from an element's production to its hand-over, in microseconds. Without --rate the buffers are
                     full, and it is mostly the time that an element waits in them
  cpu wrk, cpu cli   processor seconds per GB, user and system: all workers (or the sender), and the reader
  mtu                UDP payload of a packet in force at the end, in bytes (JSON: also the other end's)
  peak               elements that had left all task buffers and were not yet handed over, at most
The medians of --rounds show each transport's ratio to the first one of --transport at the same size.

Examples:
  bench-transfer local
  bench-transfer local --transport quic,raw-quic --mtu 8952 --rounds 5 --seconds 1
  bench-transfer local --transport quic,shm,memory --element-bytes 64,1k,1M --json
  bench-transfer local --transport quic --workers 3 --stuck-workers 1 --max-outstanding 1
  bench-transfer local --transport quic --element-bytes 1k --rate 10000
  bench-transfer local --transport shm,ring,unix-socket --element-bytes 64,1M --rounds 5
  bench-transfer local --transport shm,futex --element-bytes 64 --rate 1000
  bench-transfer local --transport shm,touch-loop --touch";

/// Measures how fast elements travel, beside yardsticks taken in the same run.
///
/// Figures mean something as ratios within one run on one machine. Transports are measured in turn, round
/// after round; with --rounds above 1 the medians are shown.
#[derive(Debug, Parser)]
#[command(name = "bench-transfer", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Both ends on this host: producer and reader in processes of their own.
    #[command(after_help = FIGURES)]
    Local(Scenario),
    /// The producing end, for a reader on another host: a dispatcher and workers.
    Serve(Serve),
    /// The reading end, of a `serve` on another host.
    Pull(Pull),
    /// One producing process of `local`; not for people.
    #[command(hide = true)]
    Child(Child),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Scenario {
    /// Things to measure, comma-separated: the service over quic, shm or memory, or a yardstick.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "quic,raw-quic,raw-tcp"
    )]
    pub(crate) transport: Vec<Transport>,
    #[command(flatten)]
    pub(crate) load: Load,
    /// Rounds; transports alternate within each.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The elements of a run, and how they travel.
#[derive(Debug, Clone, Args)]
pub(crate) struct Load {
    /// Sizes of one element's payload, in bytes, comma-separated; k, M and G stand for powers of 1024.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1M", value_parser = parse_bytes)]
    pub(crate) element_bytes: Vec<u64>,
    /// Seconds to measure each, behind a short warm-up.
    #[arg(long, value_name = "S", default_value = "3", value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Elements outstanding per reader at most; 0 sizes it by element size.
    #[arg(long, value_name = "M", default_value_t = 0)]
    pub(crate) max_outstanding: u64,
    /// Compression on the network: none, lz4 or auto.
    #[arg(long, value_name = "CODEC", default_value = "none")]
    pub(crate) compression: Compression,
    /// Content of an element between its stamps.
    #[arg(long, value_enum, default_value_t = Payload::Zeros)]
    pub(crate) payload: Payload,
    /// Workers, each a process (memory: all in this one).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) workers: u32,
    /// Workers among them whose function never returns.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) stuck_workers: u32,
    /// UDP payload of a packet, in bytes; found by probing when not given.
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u16>,
    /// Elements per second to produce, in all; without it as many as go. For latency.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Writes every byte when producing and reads every byte when reading.
    #[arg(long)]
    pub(crate) touch: bool,
    /// Seconds behind its start at which the reader pauses for one second and then shows what is outstanding.
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub(crate) pause_at: Option<f64>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    /// Address that the dispatcher listens on; beyond loopback only with an explicit key (MILLSTREAM_KEY or
    /// --key).
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5060")]
    pub(crate) bind: SocketAddr,
    /// The file with the cluster key. Without it, the variable MILLSTREAM_KEY names the file or is the key
    /// itself.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Pull {
    /// The dispatcher that `serve` printed.
    #[arg(value_name = "HOST:PORT")]
    pub(crate) dispatcher: String,
    /// The file with the cluster key. Without it, the variable MILLSTREAM_KEY names the file or is the key
    /// itself.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) load: Load,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Child {
    /// The part to play.
    #[arg(long)]
    pub(crate) role: ChildRole,
    /// The cluster key. From the environment, since everybody on the host can read a command line.
    #[arg(long, env = "MILLSTREAM_KEY", hide_env_values = true)]
    pub(crate) key: String,
    /// The dispatcher, for a worker.
    #[arg(long)]
    pub(crate) dispatcher: Option<String>,
    /// This worker's number.
    #[arg(long, default_value_t = 0)]
    pub(crate) index: u32,
    /// A file of counters shared with the reader.
    #[arg(long)]
    pub(crate) gauge: Option<std::path::PathBuf>,
    /// Meeting point of a yardstick's two processes: a socket, the reader's memory, or a name.
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

/// Things that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// The service over QUIC: dispatcher, workers, tickets, the public client.
    Quic,
    /// The service through memory that the processes share.
    Shm,
    /// The service within this process.
    Memory,
    /// Bare quinn, same configuration, no elements, each chunk copied into a pooled contiguous buffer.
    RawQuic,
    /// Bare quinn without the reader's copy.
    RawQuicNocopy,
    /// Plaintext TCP with large buffers and one read into memory of its own.
    RawTcp,
    /// A copy through a Unix stream socket with large buffers.
    UnixSocket,
    /// Descriptors, one an element, through a bare ring in shared memory, futexes for who sleeps, stamps in
    /// the slots.
    Ring,
    /// Wake-ups of a sleeping process by a bare futex, 1000 a second without --rate; no bytes.
    Futex,
    /// Stamped slots passed by iceoryx2; needs a build with --features iceoryx2.
    Iceoryx2,
    /// Every byte written and read in one process, two threads: the yardstick of --touch.
    TouchLoop,
    /// A copy from memory to memory.
    Memcpy,
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
    /// The flags that hand this load to a child process, for one element size.
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

    /// Refuses what no single flag's range shows.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.stuck_workers >= self.workers {
            return Err(format!(
                "--stuck-workers {} leaves none of --workers {} to measure; at least one must produce",
                self.stuck_workers, self.workers
            ));
        }
        if self.touch && self.payload != Payload::Zeros {
            return Err(format!(
                "--touch writes every byte of each element, so that --payload {} would show nothing; leave one of them out",
                self.payload.name()
            ));
        }
        Ok(())
    }

    /// The only element size, for commands that measure one.
    pub(crate) fn one_size(&self) -> Result<u64, String> {
        match self.element_bytes[..] {
            [element_bytes] => Ok(element_bytes),
            _ => Err("--element-bytes takes one size here; both ends must name the same".to_owned()),
        }
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds| *seconds > 0.0 && *seconds <= SECONDS_MAX);
    seconds.ok_or_else(|| format!("`{text}` is not a time; write seconds above 0, {SECONDS_MAX} at most"))
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let scale: u64 = match unit.trim_end_matches(['i', 'B', 'b']) {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err(format!("`{text}` is not a size; write 64, 1k, 1M or 1G")),
    };
    let count: u64 = digits
        .parse()
        .map_err(|_| format!("`{text}` is not a size; write 64, 1k, 1M or 1G"))?;
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
