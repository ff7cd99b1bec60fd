//! `bench-transfer`: measures the project's throughput and latency against yardsticks.
//!
//! - [`args`] — flags
//! - [`local`], [`same_host`] — measurements on one host
//! - [`child`] — the producing processes
//! - [`service`], [`reading`] — the service under load, and its reader
//! - [`stamp`], [`payload`], [`gauge`] — elements with the time of their production, their payload, and the
//!   number of outstanding elements
//! - [`yardstick`] — the yardsticks for comparison
//! - [`tally`], [`report`] — the counts of elements, and the records as table and JSON

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

// quinn allocates and frees a buffer for every packet that it receives. The system's allocator returns large
// buffers to the kernel each time, which costs a tenth of the throughput.
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
