//! The flags of `millstream`, and the help that teaches them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use millstream::client::OnLost;
use millstream::control::{DeploymentMode, TargetWorkers};

use crate::help;

/// Feeds GPU trainers: preprocessing on a pool of CPU workers, tensors over QUIC.
///
/// A service is one dispatcher and any number of workers; trainers read from it with the
/// client library. To see one at work, run `millstream demo`. By hand, in terminals of their own:
///
///   millstream dispatcher
///   millstream worker
///   millstream read --files 'examples/data/*.tar'
///   millstream status
///
/// On one machine the cluster key is made on first use and found by itself; between machines
/// give each process the same key (see `millstream key --help`).
///
/// Results go to standard output, everything else to standard error. Every command exits with 0 on
/// success, 1 if it failed or was interrupted, and 2 if its flags are wrong.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, verbatim_doc_comment)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Says more on standard error; repeat for still more. RUST_LOG overrides it.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a dispatcher: who reads what, and which worker does it.
    Dispatcher(DispatcherArgs),
    /// Runs a worker: computes elements and serves them.
    Worker(WorkerArgs),
    /// Reads a dataset and prints counts and a digest: a small consumer.
    Read(ReadArgs),
    /// Draws a dataset as it is executed and, having run it here, what its stages cost.
    Explain(ExplainArgs),
    /// Shows what a service is doing.
    Status(StatusArgs),
    /// Ends a service: its workers and its dispatcher, and whatever is read from it.
    Shutdown(ShutdownArgs),
    /// Prints or makes keys.
    Key(KeyArgs),
    /// Streams real pictures through a service of its own and checks that each was seen once an epoch.
    Demo(DemoArgs),
    /// Prints a script that completes the commands and flags in a shell.
    Completions(CompletionsArgs),
    /// Writes manual pages for `man`.
    Man(ManArgs),
}

/// The key of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeyFlag {
    /// The file with the cluster key or a role key. Without it, the variable MILLSTREAM_KEY names the file or
    /// is the key itself; without both, the command uses the key in the user's own directory, creates it if
    /// there is none, and serves this machine only.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<String>,
}

/// The identity of this process, and the list of certificates and keys that it refuses.
#[derive(Debug, Clone, Args)]
pub(crate) struct IdentityFlags {
    #[command(flatten)]
    pub(crate) key: KeyFlag,
    /// Refuses the certificates and keys that this file names, and closes their connections; the file is read
    /// again when it changes. See `millstream key --help`.
    #[arg(long, value_name = "FILE", env = "MILLSTREAM_REVOKED")]
    pub(crate) revoked: Option<PathBuf>,
}

/// The files that datasets may name.
#[derive(Debug, Clone, Args)]
pub(crate) struct AccessFlag {
    /// Reads files below this folder, or with URLs that begin like this (`s3://bucket/train/`,
    /// `https://host/`), and no others; repeat for more. Without it everything is read that this user may
    /// read, but no server by which a cloud gives machines their credentials.
    #[arg(long, value_name = "FOLDER|URL")]
    pub(crate) allow_path: Vec<String>,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::DISPATCHER)]
pub(crate) struct DispatcherArgs {
    /// The address to listen at. Beyond loopback only with an explicit --key.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "IP:PORT")]
    pub(crate) bind: SocketAddr,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// Keeps its records in this directory and goes on from those it finds there: killed and started again,
    /// it loses nothing. Without it they are in memory, and end with it.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) work_dir: Option<PathBuf>,
    /// Appends to this file, as lines of JSON, who connected, registered, created a job, opened an iteration,
    /// joined as a worker or ended the service. Lines name the role, address and certificate, and no key.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: AccessFlag,
    /// The workers that there are, for the static sharding policies; no others may register. A port may be
    /// left open: HOST:%port% is one worker on that host, whatever its port.
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT,...")]
    pub(crate) worker_addresses: Vec<String>,
    /// The way in which trainers and workers are placed: colocated, remote or hybrid. Where they are
    /// colocated, static sharding has each program read the shares of its own workers.
    #[arg(
        long,
        default_value = "unspecified",
        hide_default_value = true,
        value_name = "MODE"
    )]
    pub(crate) deployment_mode: DeploymentMode,
    /// Seconds of silence after which other readers no longer wait for a reader. A silent worker counts as
    /// dead after three times as long; one whose process has ended is missed within about a second.
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    pub(crate) liveness_s: f64,
    /// Seconds for which a dispatcher that is told to end the service waits for workers and readers to go.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    pub(crate) shutdown_quiet_period_s: f64,
    #[command(flatten)]
    pub(crate) lifetimes: Lifetimes,
    /// Ends when standard input closes; for programs that start it.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// The lifetimes of unused records.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Lifetimes")]
pub(crate) struct Lifetimes {
    /// The time between two searches for unused records.
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) job_gc_check_interval_s: Duration,
    /// Iterations that nobody reads, and jobs without any, are collected after this; `never`, or -1, keeps
    /// them.
    #[arg(long, default_value = "300", value_name = "SECONDS|never", value_parser = parse_lifetime, allow_hyphen_values = true)]
    pub(crate) job_gc_timeout_s: Lifetime,
    /// Also collects unfinished iterations under the sharding policy `dynamic`, which otherwise wait for a
    /// trainer that comes back.
    #[arg(long)]
    pub(crate) gc_dynamic_sharding_jobs: bool,
    /// Datasets that no job reads are collected after this and when the process that registered them is gone.
    /// Those with an id of the user's choice stay until room is needed. `never`, or -1, keeps all.
    #[arg(long, default_value = "3600", value_name = "SECONDS|never", value_parser = parse_lifetime, allow_hyphen_values = true)]
    pub(crate) dataset_gc_timeout_s: Lifetime,
    /// Readers that are silent for this long are released.
    #[arg(long, default_value = "300", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) client_timeout_s: Duration,
    /// A coordinated read of which consumers are missing for this long fails, and names them.
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) consumer_timeout_s: Duration,
    /// Dead workers are shown in `status` for this long.
    #[arg(long, default_value = "600", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) worker_timeout_s: Duration,
}

/// A time, or for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime(pub(crate) Option<Duration>);

fn parse_lifetime(text: &str) -> Result<Lifetime, String> {
    if matches!(text, "never" | "-1") {
        return Ok(Lifetime(None));
    }
    let seconds = parse_seconds(text).map_err(|error| format!("{error}, or `never`"))?;
    Ok(Lifetime(Some(seconds)))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| format!("`{text}` is no time: write seconds, 0 or more"))
}

/// The compression of packs on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionFlag {
    /// Nothing.
    None,
    /// LZ4, where it makes a pack smaller.
    Lz4,
    /// LZ4 for readers that get their elements sooner so, by measurement; nothing for others.
    Auto,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::WORKER)]
pub(crate) struct WorkerArgs {
    /// The dispatcher to work for.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT")]
    pub(crate) dispatcher: String,
    /// The address to serve elements at; port 0 takes a free one. Beyond loopback only with an explicit
    /// --key.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "IP:PORT")]
    pub(crate) bind: SocketAddr,
    /// The address that trainers reach this worker at. By default it is the bound one, or this machine's
    /// address on the way to the dispatcher where 0.0.0.0 is bound.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) advertise: Option<String>,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// Threads that compute; by default one a processor.
    #[arg(long, value_name = "COUNT")]
    pub(crate) threads: Option<usize>,
    /// The Python that runs users' code, with the package millstream installed: started when there is code of
    /// Python to run. The default is the value of MILLSTREAM_PYTHON. Without it, it is the Python beside this
    /// command, as in an environment with the wheel, else python3 on the PATH.
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// A variable of this environment that users' code sees, beside those of the interpreter, locale,
    /// libraries and frameworks; may be repeated. `*` shows all of them but MILLSTREAM_KEY.
    /// MILLSTREAM_PYTHON_ENV names some, too, separated by commas.
    #[arg(long, value_name = "NAME")]
    pub(crate) python_env: Vec<String>,
    /// How users' code of Python is kept from what this worker may do. `limits`: time, memory and processes.
    /// `strict`: it also reads only Python, its libraries and the paths of --allow-path. It writes only to a
    /// folder of its own, and opens no connection (Linux 5.13 or later). Without it, what
    /// MILLSTREAM_ISOLATION says, else `limits`.
    #[arg(long, value_name = "limits|strict")]
    pub(crate) isolation: Option<String>,
    /// Bytes of elements that wait, are on their way, or are kept for the trainers of a cross-trainer cache.
    #[arg(long, default_value_t = 1 << 30, value_name = "BYTES")]
    pub(crate) memory_bytes: usize,
    /// Bytes of these that each task with the cross-trainer cache keeps, half of --memory-bytes at most; by
    /// default a quarter.
    #[arg(long, value_name = "BYTES")]
    pub(crate) cross_trainer_cache_bytes: Option<u64>,
    /// Bytes of --memory-bytes that may be shared with readers of this host, who then need no copy; by
    /// default three quarters. 0: they are served over the network too.
    #[arg(long, value_name = "BYTES")]
    pub(crate) shm_bytes: Option<usize>,
    /// Bytes of these that one task may share; by default half of --memory-bytes.
    #[arg(long, value_name = "BYTES")]
    pub(crate) shm_bytes_per_task: Option<usize>,
    /// Makes shared memory of huge pages where the system has some set aside. Each task then takes its share
    /// as a whole.
    #[arg(long)]
    pub(crate) huge_pages: bool,
    /// A directory for the socket that readers of this host come in by, where they are in containers that
    /// share it but no network namespace. Made with mode 0700 if it is missing. By default there is no file.
    #[arg(long, value_name = "DIR")]
    pub(crate) shm_dir: Option<PathBuf>,
    /// Directory that keeps blocks of remote files (s3://, gs://, az://, http://) after they were read.
    /// Workers of one machine may share it; made if it is missing.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Bytes that the files in --cache-dir may have together, at least 64 MiB; what was used least recently
    /// goes first.
    #[arg(long, default_value_t = 64 << 30, requires = "cache_dir", value_name = "BYTES")]
    pub(crate) cache_bytes: u64,
    #[command(flatten)]
    pub(crate) access: AccessFlag,
    /// A label; repeat for more. Shown in `status`. Readers elsewhere leave a worker that is tagged
    /// COLOCATED, in any case, to those of its process, unless they ask for all workers.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Compression on the network, of datasets that do not say otherwise.
    #[arg(long, value_enum, default_value_t = CompressionFlag::Auto)]
    pub(crate) compression: CompressionFlag,
    /// Seconds that a worker told to leave (SIGTERM) waits for readers to take what it has begun.
    #[arg(long, default_value_t = 25.0, value_name = "SECONDS")]
    pub(crate) drain_deadline_s: f64,
    /// Seconds for which a worker whose service was shut down waits for its readers to go.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    pub(crate) shutdown_quiet_period_s: f64,
    /// UDP payload of a packet, in bytes; found by probing when not given.
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u16>,
    /// Seconds to wait for a dispatcher that is not there yet. One that was there is looked for as long as
    /// the worker lives.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    pub(crate) wait_s: f64,
    /// Ends when standard input closes; for programs that start it.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// The sharding policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sharding {
    /// Every worker yields the whole dataset.
    Off,
    /// Each part of the dataset goes to one worker, as they ask for more.
    Dynamic,
    /// Each worker of the dispatcher's --worker-addresses reads files of its own.
    File,
    /// Each of those workers computes everything and yields elements of its own.
    Data,
    /// By files where the dataset has some, else by elements.
    #[value(name = "file_or_data", alias = "file-or-data")]
    FileOrData,
    /// Divided where the dataset says; where it says nothing, every worker yields all of it.
    Hint,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::READ)]
pub(crate) struct ReadArgs {
    /// The dispatcher to read from.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT")]
    pub(crate) dispatcher: String,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// WebDataset tars of JPEGs to read, as a glob pattern. The dispatcher lists them and the workers
    /// read them, so the paths must mean the same to both.
    #[arg(long, conflicts_with = "range", value_name = "PATTERN")]
    pub(crate) files: Option<String>,
    /// Reads the numbers from 0 up to this instead.
    #[arg(long, value_name = "N")]
    pub(crate) range: Option<u64>,
    /// Elements of one batch; 0 for single elements.
    #[arg(long, default_value_t = 32, value_name = "ELEMENTS")]
    pub(crate) batch: u64,
    /// Elements of the source in one split, 1 to 4096; by default as many as make about 1024 splits. For
    /// --range under `dynamic`.
    #[arg(long, value_name = "ELEMENTS", requires = "range")]
    pub(crate) split_size: Option<u64>,
    /// The way in which the dataset is dealt out to the workers.
    #[arg(long, visible_alias = "policy", value_enum, default_value_t = Sharding::Dynamic)]
    pub(crate) sharding: Sharding,
    /// Passes over the dataset.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub(crate) epochs: u64,
    /// The workers that are read: `any` or all; `host`: those of this machine; `auto`: all but those that are
    /// tagged COLOCATED, which serve the programs that they run in. There is none in this program, which
    /// `local` would ask for.
    #[arg(long, default_value = "auto", value_name = "WORKERS")]
    pub(crate) target_workers: TargetWorkers,
    /// Elements outstanding at most; 0 sizes it by itself.
    #[arg(long, default_value_t = 0, value_name = "ELEMENTS")]
    pub(crate) max_outstanding: u64,
    /// Readers that give the same name share one reading, first come, first served.
    #[arg(long, value_name = "NAME")]
    pub(crate) job_name: Option<String>,
    /// The number of readers that advance in step: in each step all of them take an element of the same group
    /// of one worker. The dataset is repeated without end; each reader says which one it is, and stops after
    /// so many steps.
    #[arg(long, value_name = "COUNT", requires_all = ["consumer", "steps", "job_name"])]
    pub(crate) num_consumers: Option<u32>,
    /// The number of this reader among them, from 0. Each reads an epoch once: started again it needs a new
    /// --job-name.
    #[arg(long, value_name = "NUMBER", requires = "num_consumers")]
    pub(crate) consumer: Option<u32>,
    /// Elements of an epoch, in batches as they come; what is behind them is not read.
    #[arg(long, value_name = "COUNT")]
    pub(crate) steps: Option<u64>,
    /// Reads through the cross-trainer cache, as this trainer: trainers that give the same --job-name get the
    /// same elements, which are computed once. The dataset is repeated without end; each trainer stops after
    /// so many steps.
    #[arg(long, value_name = "ID", requires_all = ["steps", "job_name"])]
    pub(crate) trainer_id: Option<String>,
    /// Reads workers of this machine over the network too, instead of sharing memory with them.
    #[arg(long)]
    pub(crate) no_shm: bool,
    /// The end of an epoch of which splits were lost with a worker: `raise` ends the command with 1, `warn`
    /// says what was lost and goes on, `ignore` goes on.
    #[arg(long, default_value = "raise", value_name = "raise|warn|ignore")]
    pub(crate) on_lost: OnLost,
    /// Seconds to wait for a dispatcher that is not there yet.
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    pub(crate) wait_s: f64,
    /// Seconds for which a dispatcher that was there may be out of reach; then the command fails. What
    /// workers have ready is read meanwhile.
    #[arg(long, default_value_t = 600.0, value_name = "SECONDS")]
    pub(crate) dispatcher_timeout_s: f64,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::EXPLAIN)]
pub(crate) struct ExplainArgs {
    /// A file with the definition of a dataset, as `Graph::to_bytes` writes it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "range", "dataset"])]
    pub(crate) definition: Option<PathBuf>,
    /// The dataset of this id, as it is registered with the service of --dispatcher. Asks for a key that may
    /// register datasets.
    #[arg(long, value_name = "ID", conflicts_with_all = ["files", "range"])]
    pub(crate) dataset: Option<String>,
    /// The dispatcher to ask for it.
    #[arg(
        long,
        default_value = "127.0.0.1:5050",
        value_name = "HOST:PORT",
        requires = "dataset"
    )]
    pub(crate) dispatcher: String,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// The dataset that `read --files` reads.
    #[arg(long, value_name = "PATTERN", conflicts_with = "range")]
    pub(crate) files: Option<String>,
    /// The numbers from 0 up to this.
    #[arg(long, value_name = "N")]
    pub(crate) range: Option<u64>,
    /// Elements of one batch, of --files and --range; 0 for single elements.
    #[arg(long, default_value_t = 32, value_name = "ELEMENTS")]
    pub(crate) batch: u64,
    /// Executes the dataset in this process for so many seconds, or to its end, and shows what each stage
    /// took. Functions that only a worker's binary knows are not known here.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) run_s: Option<f64>,
    /// Threads that compute; by default one a processor.
    #[arg(long, value_name = "COUNT", requires = "run_s")]
    pub(crate) threads: Option<usize>,
    /// Prints the language of Graphviz, for `dot -Tsvg`.
    #[arg(long)]
    pub(crate) dot: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::STATUS)]
pub(crate) struct StatusArgs {
    /// The dispatcher to ask.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT")]
    pub(crate) dispatcher: String,
    /// Prints one JSON object with everything that is known.
    #[arg(long, conflicts_with = "metrics")]
    pub(crate) json: bool,
    /// Prints gauges in the text format that Prometheus reads.
    #[arg(long)]
    pub(crate) metrics: bool,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::SHUTDOWN)]
pub(crate) struct ShutdownArgs {
    /// The dispatcher of the service.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT")]
    pub(crate) dispatcher: String,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::KEY)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    pub(crate) key: KeyFlag,
    /// Prints what a process of this role needs, and no more: `read` can read, `submit` can also run code on
    /// workers.
    #[arg(long, value_parser = ["read", "submit", "worker", "dispatcher"])]
    pub(crate) role: Option<String>,
    /// Prints the public half of the key, which a key file may list so that the key's holders are accepted;
    /// see below.
    #[arg(long, conflicts_with_all = ["role", "generate"])]
    pub(crate) public: bool,
    /// Makes a new cluster key, and prints it unless --out is given.
    #[arg(long, conflicts_with = "role")]
    pub(crate) generate: bool,
    /// Writes the key to this new file, which only its owner can read, instead of printing it. A file that is
    /// there is left as it is.
    #[arg(long, value_name = "FILE", conflicts_with = "path")]
    pub(crate) out: Option<PathBuf>,
    /// Prints where the key of this user is kept.
    #[arg(long, conflicts_with_all = ["role", "generate", "public"])]
    pub(crate) path: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::DEMO)]
pub(crate) struct DemoArgs {
    /// Passes over the pictures.
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    pub(crate) epochs: u64,
    /// Worker processes.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub(crate) workers: u32,
    /// A directory of WebDataset tars of JPEGs (`.jpg`) with labels (`.cls`); without it the photographs that
    /// the command brings with it.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: Option<PathBuf>,
    /// Pictures of one batch.
    #[arg(long, default_value_t = 8, value_name = "PICTURES")]
    pub(crate) batch: u64,
    /// Writes every key that was seen to this file, one a line, in order.
    #[arg(long, value_name = "FILE")]
    pub(crate) dump_keys: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// The shell that reads the script.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::MAN)]
pub(crate) struct ManArgs {
    /// The directory for the pages; it is created if it is missing.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub(crate) out: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_seconds_or_never() {
        let seconds = |seconds| Ok(Lifetime(Some(Duration::from_secs_f64(seconds))));
        assert_eq!(parse_lifetime("0.02"), seconds(0.02));
        assert_eq!(parse_lifetime("300"), seconds(300.0));
        for never in ["never", "-1"] {
            assert_eq!(parse_lifetime(never), Ok(Lifetime(None)));
        }
        for wrong in ["-2", "soon", "", "nan", "inf", "1e30"] {
            assert!(parse_lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
