//! Asks a dispatcher for its status and prints it.

use super::{json, metrics, tables};
use crate::args::StatusArgs;
use crate::asking;
use crate::console::say;

/// Runs the command.
pub(crate) fn run(args: &StatusArgs) -> Result<(), String> {
    let service = asking::connect(&args.identity, &args.dispatcher)?;
    let status = service.status().map_err(|error| error.to_string())?;
    if args.json {
        say(&json::object(&status).to_string());
    } else if args.metrics {
        metrics::lines(&status).iter().for_each(|line| say(line));
    } else {
        tables::lines(&args.dispatcher, &status)
            .iter()
            .for_each(|line| say(line));
    }
    Ok(())
}
