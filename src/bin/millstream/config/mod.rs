//! The settings of commands: flags, environment variables and a TOML file, which share one name for each
//! setting.
//!
//! - [`file`]: the settings file
//! - [`layers`]: the value of each setting, and its origin
//! - [`parsing`]: the flags that the command sees
//! - [`shown`]: settings without secrets
//! - [`args`], [`command`]: `millstream config`

mod args;
mod command;
mod file;
mod layers;
mod parsing;
mod shown;

pub(crate) use args::{ConfigArgs, ConfigFlag};
pub(crate) use command::run;
pub(crate) use parsing::{parse, settings_variables};
pub(crate) use shown::shown_in_force;
