//! `millstream completions` and `millstream man`: files for shells and for `man`, generated from the flags.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::args::Cli;
use crate::console::note;
use crate::help;

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
    /// The directory for the manual pages. The command creates the directory if it is missing.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub(crate) out: PathBuf,
}

/// Prints the completions for a shell. Ignores a closed pipe, because the reader of the pipe needs no more
/// output.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), String> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "millstream", &mut script);
    let _ = io::stdout().lock().write_all(&script);
    Ok(())
}

/// Writes a manual page for `millstream`, and one for each of its commands, to a directory.
pub(crate) fn man(args: &ManArgs) -> Result<(), String> {
    fs::create_dir_all(&args.out).map_err(|error| failed(&args.out, &error))?;
    let mut root = Cli::command();
    root.build();
    let commands = root
        .get_subcommands()
        .filter(|command| command.get_name() != "help");
    let pages: Vec<clap::Command> = commands.cloned().chain([root.clone()]).collect();
    for page in pages {
        let man = Man::new(page);
        let path = args.out.join(man.get_filename());
        let mut text = Vec::new();
        man.render(&mut text).map_err(|error| failed(&path, &error))?;
        fs::write(&path, text).map_err(|error| failed(&path, &error))?;
        note(&format!("wrote {}", path.display()));
    }
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be written: {error}", path.display())
}
