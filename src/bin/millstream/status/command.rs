//! Asks a dispatcher for its status and prints it.

use std::time::Duration;

use millstream::control::rpc::SessionConfig;
use millstream::{Service, ServiceConfig};

use super::{json, metrics, tables};
use crate::args::StatusArgs;
use crate::console::say;
use crate::key;

/// Who asks for a status wants to know soon that nobody answers.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) fn run(args: &StatusArgs) -> Result<(), String> {
    let key = key::load(&args.key)?;
    let session = SessionConfig {
        connect_deadline: CONNECT_DEADLINE,
        ..SessionConfig::default()
    };
    let config = ServiceConfig {
        session,
        ..ServiceConfig::default()
    };
    let service = Service::connect(&key, &args.dispatcher, config).map_err(|error| error.to_string())?;
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
