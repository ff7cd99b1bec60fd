//! The flags of `millstream status`.

use clap::Args;

use crate::args::IdentityFlags;
use crate::help;

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::STATUS)]
pub(crate) struct StatusArgs {
    /// The dispatcher to ask, or all dispatchers of its service.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT,...")]
    pub(crate) dispatcher: String,
    /// Prints the whole status as one JSON object.
    #[arg(long, conflicts_with = "metrics")]
    pub(crate) json: bool,
    /// Prints gauges in the Prometheus text format.
    #[arg(long)]
    pub(crate) metrics: bool,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
}
