//! `bench-transfer`: the referee of the project's speed.
//!
//! - [`args`] — flags
//! - [`local`], [`same_host`] — measurements on one host
//! - [`child`] — the producing processes
//! - [`service`], [`reading`] — the service itself under load, and the reading end of it
//! - [`stamp`], [`payload`], [`gauge`] — elements that say when they were made, what is in them, and how many
//!   are outstanding
//! - [`yardstick`] — what it is compared with
//! - [`tally`], [`report`] — elements counted; records, as table and JSON

mod args;
mod child;
mod gauge;
mod local;
mod payload;
mod reading;
mod report;
mod same_host;
mod service;
mod stamp;
mod tally;
mod yardstick;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

// quinn takes and frees a buffer for every packet it receives. The system's allocator gives large ones back
// to the kernel each time, which costs a tenth of the throughput.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Local(scenario) => scenario.load.check().and_then(|()| local::run(&scenario)),
        Command::Child(child) => child::run(&child),
        Command::Serve(serve) => serve.load.check().and_then(|()| service::serve(&serve)),
        Command::Pull(pull) => service::pull(&pull),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "bench-transfer: {error}");
            ExitCode::FAILURE
        }
    }
}
