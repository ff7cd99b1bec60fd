//! Asks a dispatcher for its status and prints it.

use millstream::admin::{Exposition, service_metrics, status_json};

use super::args::StatusArgs;
use super::tables;
use crate::asking;
use crate::console::say;

/// Runs the command.
pub(crate) fn run(args: &StatusArgs) -> Result<(), String> {
    let service = asking::connect(&args.identity, &args.dispatcher)?;
    let status = service.status().map_err(|error| error.to_string())?;
    if args.json {
        say(&status_json(&status));
    } else if args.metrics {
        let mut found = Exposition::new();
        service_metrics(&status, &mut found);
        say(found.to_text().trim_end());
    } else {
        tables::lines(&args.dispatcher, &status)
            .iter()
            .for_each(|line| say(line));
    }
    Ok(())
}
