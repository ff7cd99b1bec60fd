//! The flags of `millstream doctor`.

use std::path::PathBuf;

use clap::Args;

use crate::args::IdentityFlags;
use crate::help;

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::DOCTOR)]
pub(crate) struct DoctorArgs {
    /// The dispatcher of the service to check, or all dispatchers of the service. Without this flag, the
    /// command checks the dispatcher at 127.0.0.1:5050, if there is one.
    #[arg(long, value_name = "HOST:PORT,...")]
    pub(crate) dispatcher: Option<String>,
    /// Prints the findings as a JSON list of objects with `check`, `level`, `found` and `cure`.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
    /// The Python interpreter to check, as for `millstream worker`.
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// The directory of sockets to check, as for `millstream worker`.
    #[arg(long, value_name = "DIR")]
    pub(crate) shm_dir: Option<PathBuf>,
}
