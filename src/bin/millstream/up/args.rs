//! The flags of `millstream up`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::admin::AdminFlags;
use crate::args::{AccessFlag, IdentityFlags};
use crate::help;
use crate::traces::TraceFlags;

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::UP)]
pub(crate) struct UpArgs {
    /// The number of worker processes.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: u32,
    /// The address of the dispatcher. The workers listen at the same IP address, on free ports. An address
    /// beyond loopback needs an explicit --key.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "IP:PORT")]
    pub(crate) bind: SocketAddr,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// Keeps the dispatcher's records in this directory when the command ends; the next command continues
    /// from these records. Without this flag, the records are in a temporary directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) work_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: AccessFlag,
    /// The number of threads of each worker. The default divides the processors among the workers.
    #[arg(long, value_name = "COUNT")]
    pub(crate) threads: Option<usize>,
    /// Maximum restarts of one process within 60 s. When a process dies once more, the command ends all
    /// processes, and fails.
    #[arg(long, default_value_t = 10, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) restarts_max: u32,
    /// Seconds for which draining workers wait for readers to take the elements that the workers have begun.
    #[arg(long, default_value_t = 25.0, value_name = "SECONDS")]
    pub(crate) drain_deadline_s: f64,
    #[command(flatten)]
    pub(crate) admin: AdminFlags,
    #[command(flatten)]
    pub(crate) traces: TraceFlags,
    /// Further flags of every worker, as `millstream worker --help` describes them.
    #[arg(last = true, value_name = "WORKER FLAG")]
    pub(crate) worker_flags: Vec<OsString>,
}
