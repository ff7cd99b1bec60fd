//! `millstream`: the service on the command line.
//!
//! - [`args`], [`help`]: the flags and their help texts
//! - [`dispatcher`], [`worker`]: the two servers
//! - [`read`]: a small consumer
//! - [`explain`]: draws a dataset and the cost of its stages
//! - [`shutdown`]: ends a service
//! - [`status`]: shows the state of a service
//! - [`key`]: cluster keys and role keys
//! - [`demo`]: reads real pictures through a service of child processes
//! - [`generated`]: shell completions and manual pages
//! - [`asking`]: the connection for one question to a dispatcher
//! - [`console`], [`table`], [`transports`]: the output of commands
//! - [`ending`]: the signals that end commands
//! - [`pictures`], [`digest`]: the pipeline of the examples, and a digest of the rows that were read

mod args;
mod asking;
mod console;
mod demo;
mod digest;
mod dispatcher;
mod ending;
mod explain;
mod generated;
mod help;
mod key;
mod pictures;
mod read;
mod shutdown;
mod status;
mod table;
mod transports;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

// quinn allocates and frees a buffer for every packet that it receives. The system's allocator returns large
// buffers to the kernel each time, which costs a tenth of the throughput.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    console::start_logging(cli.verbose);
    let outcome = match &cli.command {
        Command::Dispatcher(args) => dispatcher::run(args),
        Command::Worker(args) => worker::run(args),
        Command::Read(args) => read::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Status(args) => status::run(args),
        Command::Shutdown(args) => shutdown::run(args),
        Command::Key(args) => key::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Completions(args) => generated::completions(args),
        Command::Man(args) => generated::man(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console::error(&error);
            ExitCode::FAILURE
        }
    }
}
