//! The flags of `millstream top`.

use clap::Args;

use crate::args::IdentityFlags;
use crate::help;

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::TOP)]
pub(crate) struct TopArgs {
    /// The dispatcher to ask, or all dispatchers of its service.
    #[arg(long, default_value = "127.0.0.1:5050", value_name = "HOST:PORT,...")]
    pub(crate) dispatcher: String,
    /// Draws the status once, in this many columns, prints it and ends. Works without a terminal.
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..=500))]
    pub(crate) once: Option<u16>,
    #[command(flatten)]
    pub(crate) identity: IdentityFlags,
}
