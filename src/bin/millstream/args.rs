//! The flags of `millstream`, with their help texts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use millstream::client::OnLost;
use millstream::control::{DeploymentMode, TargetWorkers};
use millstream::link::HostPort;

use crate::admin::AdminFlags;
use crate::autoscale::{AutoscaleArgs, ScalingFlags};
use crate::config::{ConfigArgs, ConfigFlag};
use crate::console::LogFormat;
use crate::doctor::DoctorArgs;
use crate::generated::{CompletionsArgs, ManArgs};
use crate::help;
use crate::key::KeyArgs;
use crate::status::StatusArgs;
use crate::top::TopArgs;
use crate::traces::TraceFlags;
use crate::up::UpArgs;

/// Feeds GPU trainers: CPU workers preprocess the data and send tensors over QUIC or shared memory.
///
/// A service is one dispatcher and any number of workers. Trainers read from the service with the
/// client library. To see a service at work, run `millstream demo`. To run a service on this machine,
/// run the first command in a terminal, and the others in another terminal:
///
///   millstream up --workers 4
///   millstream read --files 'examples/data/*.tar'
///   millstream status
///
/// The commands `dispatcher` and `worker` run the processes of a service one by one.
///
/// On one machine, the first command creates the cluster key, and later commands find the key by
/// themselves. On several machines, give each process a key of the same cluster (see
/// `millstream key --help`).
///
/// Results go to standard output, and all other messages to standard error. Every command exits with
/// 0 on success, 1 if it failed or was interrupted, and 2 if its flags are wrong.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, verbatim_doc_comment)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Prints more log messages on standard error; repeat the flag for more detail. The variable RUST_LOG
    /// overrides the flag.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// The form of messages on standard error: lines for people, or one JSON object in each line.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        env = "MILLSTREAM_LOG_FORMAT"
    )]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a whole service on this machine, and restarts its processes when they die.
    Up(UpArgs),
    /// Runs a dispatcher, which assigns jobs, tasks and splits to workers and readers.
    Dispatcher(Box<DispatcherArgs>),
    /// Runs a worker, which computes elements and serves them to readers.
    Worker(Box<WorkerArgs>),
    /// Reads a dataset, and prints counts and a digest of the rows.
    Read(ReadArgs),
    /// Draws the operations of a dataset; with --run-s also runs the dataset here and shows the cost of each
    /// stage. With --job, names the records of a step of an exactly-once job.
    Explain(ExplainArgs),
    /// Shows the workers, datasets, jobs, iterations, tasks and clients of a service.
    Status(StatusArgs),
    /// Shows the state of a service on a terminal, live: whether training waits for data, and why.
    Top(TopArgs),
    /// Starts and ends workers as the service wants them.
    Autoscale(Box<AutoscaleArgs>),
    /// Checks this machine and a service, and names the cure of each fault.
    Doctor(DoctorArgs),
    /// Ends a service: its dispatcher, its workers, and all its readers.
    Shutdown(ShutdownArgs),
    /// Prints or generates keys.
    Key(KeyArgs),
    /// Shows the settings of a command, and where each value comes from.
    Config(ConfigArgs),
    /// Streams real pictures through a service that the command starts, and checks that each picture is seen
    /// once per epoch.
    Demo(DemoArgs),
    /// Prints a script that completes the commands and flags in a shell.
    Completions(CompletionsArgs),
    /// Writes manual pages for `man`.
    Man(ManArgs),
}

/// The key that the command uses.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeyFlag {
    /// The file with the cluster key or a role key. Without this flag, the variable MILLSTREAM_KEY names the
    /// file or contains the key itself. Without the flag and the variable, the command uses the key in the
    /// user's own directory. A command without a key creates the user's key, and then serves this machine
    /// only.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<String>,
}

/// The identity of this process, and the list of the certificates and keys that this process refuses.
#[derive(Debug, Clone, Args)]
pub(crate) struct IdentityFlags {
    #[command(flatten)]
    pub(crate) key: KeyFlag,
    /// Refuses the certificates and keys that this file lists, and closes their connections. The process
    /// reads the file again when it changes. See `millstream key --help`.
    #[arg(long, value_name = "FILE", env = "MILLSTREAM_REVOKED")]
    pub(crate) revoked: Option<PathBuf>,
}

/// The restriction of the files that datasets may name.
#[derive(Debug, Clone, Args)]
pub(crate) struct AccessFlag {
    /// Allows datasets to read files below this folder, or URLs with this prefix (`s3://bucket/train/`,
    /// `https://host/`), and no other files; repeat the flag for several. Without this flag, datasets may
    /// read every file that this user may read. A cloud's credential servers stay forbidden.
    #[arg(long, value_name = "FOLDER|URL")]
    pub(crate) allow_path: Vec<String>,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::DISPATCHER)]
pub(crate) struct DispatcherArgs {
    /// The address to listen at. An address beyond loopback needs an explicit --key.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "IP:PORT")]
    pub(crate) bind: SocketAddr,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// Keeps the dispatcher's records in this directory. A dispatcher that was killed and started again
    /// continues from these records and loses nothing. Without this flag, the records are in memory and end
    /// with the process.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "store")]
    pub(crate) work_dir: Option<PathBuf>,
    /// Appends audit events to this file, as lines of JSON: connections, registrations, created jobs, opened
    /// iterations, joined workers, and the end of the service. Each line names the role, the address and the
    /// certificate of the process, but never a key.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: AccessFlag,
    /// The fixed list of workers for the static sharding policies; no other worker may register. HOST:%port%
    /// stands for one worker on that host with any port.
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT,...")]
    pub(crate) worker_addresses: Vec<String>,
    /// The placement of trainers and workers: colocated, remote or hybrid. With `colocated`, static sharding
    /// lets each program read the shares of its own workers.
    #[arg(
        long,
        default_value = "unspecified",
        hide_default_value = true,
        value_name = "MODE"
    )]
    pub(crate) deployment_mode: DeploymentMode,
    /// Seconds without a heartbeat after which other readers no longer wait for a reader. The dispatcher
    /// declares a silent worker dead after three times as long. The dispatcher notices a worker process that
    /// has ended within about a second.
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    pub(crate) liveness_s: f64,
    /// Seconds for which a dispatcher that ends the service waits for workers and readers to disconnect.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    pub(crate) shutdown_quiet_period_s: f64,
    #[command(flatten)]
    pub(crate) several: Several,
    #[command(flatten)]
    pub(crate) admin: AdminFlags,
    #[command(flatten)]
    pub(crate) traces: TraceFlags,
    #[command(flatten)]
    pub(crate) lifetimes: Lifetimes,
    #[command(flatten)]
    pub(crate) scaling: ScalingFlags,
    /// Ends the command when standard input closes. Programs that start the command as a child process use
    /// this flag.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// The store of a service with several dispatchers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Several dispatchers")]
pub(crate) struct Several {
    /// Keeps the records in etcd, which several dispatchers may share. One of them leads, and the others take
    /// its place within about three seconds after its end. With etcds:// the connection is encrypted, which
    /// members on other hosts require. The dispatcher needs a build with the feature `etcd`.
    #[arg(long, value_name = "etcd://HOST:PORT,.../PREFIX")]
    pub(crate) store: Option<String>,
    /// The address at which workers and readers reach this dispatcher. The default is the bound address. An
    /// address such as 0.0.0.0 needs this flag, and so does a loopback address if etcd is on another host.
    #[arg(long, value_name = "HOST:PORT", requires = "store")]
    pub(crate) advertise: Option<HostPort>,
    /// The user of etcd.
    #[arg(long, value_name = "NAME", requires = "store_password_file")]
    pub(crate) store_user: Option<String>,
    /// The file with the password of the user of etcd, on its first line.
    #[arg(long, value_name = "FILE", requires = "store_user")]
    pub(crate) store_password_file: Option<PathBuf>,
    /// The file with the certificates (PEM) that sign the certificates of etcd. Required with etcds://.
    #[arg(long, value_name = "FILE", requires = "store")]
    pub(crate) store_ca: Option<PathBuf>,
    /// The file with the certificate (PEM) that this dispatcher shows to etcd.
    #[arg(long, value_name = "FILE", requires = "store_key")]
    pub(crate) store_cert: Option<PathBuf>,
    /// The file with the private key (PEM) of --store-cert.
    #[arg(long, value_name = "FILE", requires = "store_cert")]
    pub(crate) store_key: Option<PathBuf>,
}

/// The lifetimes of unused records.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Lifetimes")]
pub(crate) struct Lifetimes {
    /// The time between two searches for unused records.
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) job_gc_check_interval_s: Duration,
    /// The time after which iterations without readers, and jobs without iterations, are deleted. The value
    /// `never`, or -1, keeps iterations and jobs for ever.
    #[arg(long, default_value = "300", value_name = "SECONDS|never", value_parser = parse_lifetime, allow_hyphen_values = true)]
    pub(crate) job_gc_timeout_s: Lifetime,
    /// Also deletes unfinished iterations under the sharding policy `dynamic`. Without this flag, such an
    /// iteration waits for a trainer that returns.
    #[arg(long)]
    pub(crate) gc_dynamic_sharding_jobs: bool,
    /// The time after which a dataset that no job reads is deleted, once the process that registered the
    /// dataset is gone. Datasets with an id that the user chose stay until their room is needed. The value
    /// `never`, or -1, keeps all datasets.
    #[arg(long, default_value = "3600", value_name = "SECONDS|never", value_parser = parse_lifetime, allow_hyphen_values = true)]
    pub(crate) dataset_gc_timeout_s: Lifetime,
    /// The time without a heartbeat after which the dispatcher releases a reader.
    #[arg(long, default_value = "300", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) client_timeout_s: Duration,
    /// The time after which a coordinated read with missing consumers fails. The error names the missing
    /// consumers.
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) consumer_timeout_s: Duration,
    /// The time for which `status` shows a dead worker.
    #[arg(long, default_value = "600", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) worker_timeout_s: Duration,
}

/// A time limit in seconds; `None` stands for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime(pub(crate) Option<Duration>);

fn parse_lifetime(text: &str) -> Result<Lifetime, String> {
    if matches!(text, "never" | "-1") {
        return Ok(Lifetime(None));
    }
    let seconds = parse_seconds(text).map_err(|error| format!("{error}, or `never`"))?;
    Ok(Lifetime(Some(seconds)))
}

pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| format!("invalid time `{text}`: expected a number of seconds, 0 or more"))
}

/// The compression of packs on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionFlag {
    /// No compression.
    None,
    /// LZ4 for each pack that LZ4 makes smaller.
    Lz4,
    /// LZ4 for each reader whose elements arrive sooner with LZ4, by measurement; no compression for other
    /// readers.
    Auto,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::WORKER)]
pub(crate) struct WorkerArgs {
    /// The dispatcher that the worker registers with. For a service with several dispatchers, name all of
    /// them: a:5050,b:5050.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT,...")]
    pub(crate) dispatcher: String,
    /// The address to serve elements at; port 0 takes a free port. An address beyond loopback needs an
    /// explicit --key.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "IP:PORT")]
    pub(crate) bind: SocketAddr,
    /// The address at which trainers reach this worker. The default is the bound address. If the bound
    /// address is 0.0.0.0, the default is the address from which this machine reaches the dispatcher.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) advertise: Option<String>,
    #[command(flatten)]
    pub(crate) admin: AdminFlags,
    #[command(flatten)]
    pub(crate) traces: TraceFlags,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// The number of threads that compute elements. The default is the number of processors.
    #[arg(long, value_name = "COUNT")]
    pub(crate) threads: Option<usize>,
    /// The Python interpreter that runs users' code; the package millstream must be installed in its
    /// environment. The worker starts the interpreter when a dataset contains Python code. The default is the
    /// value of MILLSTREAM_PYTHON. Without the variable, the default is the Python in the directory of this
    /// command (as in an environment with the wheel), else python3 on PATH.
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// An environment variable that users' code may see, in addition to the variables of the interpreter, the
    /// locale, libraries and frameworks. Repeat the flag for more variables. `*` passes all variables except
    /// MILLSTREAM_KEY. The variable MILLSTREAM_PYTHON_ENV adds names, separated by commas.
    #[arg(long, value_name = "NAME")]
    pub(crate) python_env: Vec<String>,
    /// The isolation of users' Python code. `limits` limits its time, memory and processes. `strict` also
    /// lets the code read only Python, its libraries and the paths of --allow-path. Under `strict` the code
    /// writes only to a folder of its own, and opens no connections (Linux 5.13 or later). The default is the
    /// value of MILLSTREAM_ISOLATION, or else `limits`.
    #[arg(long, value_name = "limits|strict")]
    pub(crate) isolation: Option<String>,
    /// Maximum bytes of elements that are buffered, in flight, or kept for the trainers of a cross-trainer
    /// cache.
    #[arg(long, default_value_t = 1 << 30, value_name = "BYTES")]
    pub(crate) memory_bytes: usize,
    /// Bytes of --memory-bytes that each task with the cross-trainer cache keeps, at most half of
    /// --memory-bytes. The default is a quarter of --memory-bytes.
    #[arg(long, value_name = "BYTES")]
    pub(crate) cross_trainer_cache_bytes: Option<u64>,
    /// Bytes of --memory-bytes that may be shared with readers on this host, which then read without a copy.
    /// The default is three quarters of --memory-bytes. With 0, readers on this host read over the network.
    #[arg(long, value_name = "BYTES")]
    pub(crate) shm_bytes: Option<usize>,
    /// Bytes of --shm-bytes that one task may share. The default is half of --memory-bytes, but at most
    /// --shm-bytes.
    #[arg(long, value_name = "BYTES")]
    pub(crate) shm_bytes_per_task: Option<usize>,
    /// Allocates shared memory from huge pages if the system has reserved some. Each task then reserves its
    /// whole share at once.
    #[arg(long)]
    pub(crate) huge_pages: bool,
    /// The directory for the socket that readers on this host connect to. Containers that share a directory
    /// but no network namespace need this flag. The worker creates a missing directory with mode 0700. By
    /// default the socket has no file.
    #[arg(long, value_name = "DIR")]
    pub(crate) shm_dir: Option<PathBuf>,
    /// The directory that caches blocks of remote files (s3://, gs://, az://, http://). Workers of one
    /// machine may share the directory. The worker creates the directory if it is missing.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Maximum bytes of all files in --cache-dir together, at least 64 MiB. The worker evicts the least
    /// recently used blocks first.
    #[arg(long, default_value_t = 64 << 30, value_name = "BYTES")]
    pub(crate) cache_bytes: u64,
    #[command(flatten)]
    pub(crate) access: AccessFlag,
    /// A label of the worker, which `status` shows; repeat the flag for more labels. A worker with the tag
    /// COLOCATED (in upper or lower case) serves only the readers in its own process. Readers in other
    /// processes read from a COLOCATED worker only if they ask for all workers.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// The compression on the network for datasets that set no compression of their own.
    #[arg(long, value_enum, default_value_t = CompressionFlag::Auto)]
    pub(crate) compression: CompressionFlag,
    /// Seconds for which a worker in graceful shutdown (SIGTERM) waits for readers to take the elements that
    /// it has begun.
    #[arg(long, default_value_t = 25.0, value_name = "SECONDS")]
    pub(crate) drain_deadline_s: f64,
    /// Seconds for which a worker whose service was shut down waits for its readers to disconnect.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    pub(crate) shutdown_quiet_period_s: f64,
    /// The UDP payload of a packet, in bytes. By default the worker finds the payload by probing.
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u16>,
    /// Seconds for which the worker waits for the first contact with the dispatcher. After the first contact,
    /// the worker searches for a lost dispatcher as long as the worker lives.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    pub(crate) wait_s: f64,
    /// Ends the command when standard input closes. Programs that start the command as a child process use
    /// this flag.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// The sharding policy, which decides which worker reads which part of the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sharding {
    /// Every worker yields the whole dataset.
    Off,
    /// Each split of the dataset goes to one worker, whenever a worker asks for more splits.
    Dynamic,
    /// Each worker of the dispatcher's --worker-addresses reads its own share of the files.
    File,
    /// Each worker of the dispatcher's --worker-addresses computes the whole dataset and yields its own share
    /// of the elements.
    Data,
    /// The policy `file` for a dataset that reads files, else the policy `data`.
    #[value(name = "file_or_data", alias = "file-or-data")]
    FileOrData,
    /// Sharding at the place that the dataset marks. Without a mark, every worker yields the whole dataset.
    Hint,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::READ)]
pub(crate) struct ReadArgs {
    /// The dispatcher to read from, or all dispatchers of its service.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT,...")]
    pub(crate) dispatcher: String,
    #[command(flatten)]
    pub(crate) traces: TraceFlags,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// The WebDataset tars of JPEGs to read, as a glob pattern. The dispatcher lists the tars and the workers
    /// read them, so the paths must mean the same to dispatcher and workers.
    #[arg(long, conflicts_with = "range", value_name = "PATTERN")]
    pub(crate) files: Option<String>,
    /// Reads the numbers from 0 up to N (exclusive) instead of files.
    #[arg(long, value_name = "N")]
    pub(crate) range: Option<u64>,
    /// The number of elements in one batch; 0 reads single elements.
    #[arg(long, default_value_t = 32, value_name = "ELEMENTS")]
    pub(crate) batch: u64,
    /// The number of source elements in one split, from 1 to 4096. The default makes about 1024 splits. The
    /// flag applies to --range under `dynamic`.
    #[arg(long, value_name = "ELEMENTS", requires = "range")]
    pub(crate) split_size: Option<u64>,
    /// The sharding policy of the job.
    #[arg(long, visible_alias = "policy", value_enum, default_value_t = Sharding::Dynamic)]
    pub(crate) sharding: Sharding,
    /// The number of passes over the dataset.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub(crate) epochs: u64,
    /// The workers to read from. `any` reads all workers. `host` reads the workers of this machine. `auto`
    /// reads all workers except those with the tag COLOCATED, which serve the programs that they run in.
    /// `local` asks for workers in this program, which has none.
    #[arg(long, default_value = "auto", value_name = "WORKERS")]
    pub(crate) target_workers: TargetWorkers,
    /// The maximum number of outstanding elements; 0 lets the reader choose the number.
    #[arg(long, default_value_t = 0, value_name = "ELEMENTS")]
    pub(crate) max_outstanding: u64,
    /// The name of the job. Readers with the same job name share one pass over the dataset: each element goes
    /// to the reader that is ready first.
    #[arg(long, value_name = "NAME")]
    pub(crate) job_name: Option<String>,
    /// The number of readers that advance in step. In each step, every reader takes one element from the same
    /// group of one worker. All readers end in the same step. Each reader sets --consumer.
    #[arg(long, value_name = "COUNT", requires_all = ["consumer", "job_name"])]
    pub(crate) num_consumers: Option<u32>,
    /// The number of this reader among the --num-consumers readers, from 0. Each reader reads an epoch once;
    /// a restarted reader needs a new --job-name.
    #[arg(long, value_name = "NUMBER", requires = "num_consumers")]
    pub(crate) consumer: Option<u32>,
    /// The number of elements (batches with --batch) to read in each epoch. The command does not read the
    /// rest of the epoch.
    #[arg(long, value_name = "COUNT")]
    pub(crate) steps: Option<u64>,
    /// Reads through the cross-trainer cache, as the trainer with this id. Trainers with the same --job-name
    /// get the same elements, which the workers compute once. The dataset repeats without end; each trainer
    /// stops after --steps elements.
    #[arg(long, value_name = "ID", requires_all = ["steps", "job_name"])]
    pub(crate) trainer_id: Option<String>,
    /// Reads the workers of this machine over the network instead of through shared memory.
    #[arg(long)]
    pub(crate) no_shm: bool,
    /// The end of an epoch in which splits were lost with a worker. `raise` ends the command with exit status
    /// 1. `warn` prints the lost splits and continues. `ignore` continues.
    #[arg(long, default_value = "raise", value_name = "raise|warn|ignore")]
    pub(crate) on_lost: OnLost,
    /// Seconds for which the command waits for the first contact with the dispatcher.
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    pub(crate) wait_s: f64,
    /// Seconds for which a dispatcher that was reachable before may be unreachable; then the command fails.
    /// Meanwhile the command continues to read the elements that workers have ready.
    #[arg(long, default_value_t = 600.0, value_name = "SECONDS")]
    pub(crate) dispatcher_timeout_s: f64,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::EXPLAIN)]
pub(crate) struct ExplainArgs {
    /// A file with the definition of a dataset, as `Graph::to_bytes` writes it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "range", "dataset"])]
    pub(crate) definition: Option<PathBuf>,
    /// The id of a dataset that is registered with the service at --dispatcher. The command needs a key that
    /// may register datasets.
    #[arg(long, value_name = "ID", conflicts_with_all = ["files", "range"], group = "registered")]
    pub(crate) dataset: Option<String>,
    /// The id of an exactly-once job of the service at --dispatcher, as `status` shows it. The command names
    /// the records of one step of the job's epoch, for each trainer. The command needs a key that may
    /// register datasets.
    #[arg(
        long,
        value_name = "ID",
        group = "registered",
        requires = "step",
        conflicts_with_all = ["definition", "dataset", "files", "range", "batch", "run_s", "dot"]
    )]
    pub(crate) job: Option<u64>,
    /// The step of the epoch, from 0. A step is one batch of each trainer.
    #[arg(long, value_name = "N", requires = "job")]
    pub(crate) step: Option<u64>,
    /// The dispatcher to ask for the dataset or the job, or all dispatchers of its service.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT,...")]
    pub(crate) dispatcher: String,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// The tars of the dataset that `read --files` reads, as a glob pattern.
    #[arg(long, value_name = "PATTERN", conflicts_with = "range")]
    pub(crate) files: Option<String>,
    /// The dataset of the numbers from 0 up to N (exclusive).
    #[arg(long, value_name = "N")]
    pub(crate) range: Option<u64>,
    /// The number of elements in one batch of --files or --range; 0 explains single elements.
    #[arg(long, default_value_t = 32, value_name = "ELEMENTS")]
    pub(crate) batch: u64,
    /// Runs the dataset in this process for this many seconds, or to its end, and shows the cost of each
    /// stage. Functions that are compiled only into a worker's own binary are unknown here.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) run_s: Option<f64>,
    /// The number of threads that compute elements. The default is the number of processors.
    #[arg(long, value_name = "COUNT")]
    pub(crate) threads: Option<usize>,
    /// Prints the drawing in the Graphviz language, for `dot -Tsvg`.
    #[arg(long)]
    pub(crate) dot: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::SHUTDOWN)]
pub(crate) struct ShutdownArgs {
    /// The dispatcher of the service to end, or all dispatchers of the service.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT,...")]
    pub(crate) dispatcher: String,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::DEMO)]
pub(crate) struct DemoArgs {
    /// The number of passes over the pictures.
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    pub(crate) epochs: u64,
    /// The number of worker processes.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub(crate) workers: u32,
    /// A directory of WebDataset tars of JPEGs (`.jpg`) with labels (`.cls`). The default is the photographs
    /// that are built into the command.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: Option<PathBuf>,
    /// The number of pictures in one batch.
    #[arg(long, default_value_t = 8, value_name = "PICTURES")]
    pub(crate) batch: u64,
    /// Writes the key of every picture that was seen to this file, one key per line, in the order of reading.
    #[arg(long, value_name = "FILE")]
    pub(crate) dump_keys: Option<PathBuf>,
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
