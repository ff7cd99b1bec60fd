//! `millstream`: the service on the command line.
//!
//! - [`args`], [`help`]: the flags and their help texts
//! - [`up`]: a whole service on this machine
//! - [`dispatcher`], [`worker`]: the two servers
//! - [`read`]: a small consumer
//! - [`explain`]: draws a dataset and the cost of its stages
//! - [`shutdown`]: ends a service
//! - [`status`]: shows the state of a service
//! - [`top`]: shows the state of a service on a terminal, live
//! - [`autoscale`]: starts and ends workers as the service wants them
//! - [`doctor`]: checks this machine and a service
//! - [`key`]: cluster keys and role keys
//! - [`config`]: settings from variables and a file
//! - [`demo`]: reads real pictures through a service of child processes
//! - [`generated`]: shell completions and manual pages
//! - [`admin`], [`traces`]: the flags by which a process is observed
//! - [`asking`]: the connection for one question to a dispatcher
//! - [`child`]: servers as child processes
//! - [`console`], [`table`], [`transports`]: the output of commands
//! - [`ending`]: the signals that end commands
//! - [`pictures`], [`digest`]: the pipeline of the examples, and a digest of the rows that were read

mod admin;
mod args;
mod asking;
mod autoscale;
mod child;
mod config;
mod console;
mod demo;
mod digest;
mod dispatcher;
mod doctor;
mod ending;
mod explain;
mod generated;
mod help;
mod key;
mod lineage;
mod pictures;
mod read;
mod shutdown;
mod status;
mod table;
mod top;
mod traces;
mod transports;
mod up;
mod worker;

use std::process::ExitCode;

use args::Command;

// quinn allocates and frees a buffer for every packet that it receives. The system's allocator returns large
// buffers to the kernel each time, which costs a tenth of the throughput.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = config::parse();
    console::start_logging(cli.verbose, cli.log_format);
    let outcome = match &cli.command {
        Command::Up(args) => up::run(args, &cli),
        Command::Dispatcher(args) => dispatcher::run(args),
        Command::Worker(args) => worker::run(args),
        Command::Read(args) => read::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Status(args) => status::run(args),
        Command::Top(args) => top::run(args),
        Command::Autoscale(args) => autoscale::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Shutdown(args) => shutdown::run(args),
        Command::Key(args) => key::run(args),
        Command::Config(args) => config::run(args, cli.config.config.as_deref()),
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
