//! The flags of `millstream config`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::help;

/// The settings file of a command.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigFlag {
    /// Takes settings from this TOML file. Flags and variables win over the file. See `millstream config
    /// --help`.
    #[arg(long, global = true, value_name = "FILE", env = "MILLSTREAM_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::CONFIG)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Prints the settings of a command as a TOML file, without running the command.
    Show(ShowArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArgs {
    /// Prints after each setting where its value comes from: a flag, a variable, the file, or the default.
    #[arg(long)]
    pub(crate) origin: bool,
    /// The command and its flags, as in `dispatcher --bind 0.0.0.0:5050`. Without a command, the settings of
    /// all commands are printed that the file or a variable sets.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) line: Vec<OsString>,
}
