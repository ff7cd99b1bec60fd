//! `millstream shutdown`: ends a service.

use millstream::Service;

use crate::args::ShutdownArgs;
use crate::asking;
use crate::console::say;
use crate::ending::{Brake, Ending, NotDone};
use crate::key;

/// Runs the command.
pub(crate) fn run(args: &ShutdownArgs) -> Result<(), String> {
    let key = key::load(&args.identity)?;
    let config = asking::config();
    let (ending, brake) = (Ending::watch(false)?, Brake::default());
    let give_up = config.give_up.clone();
    brake.hold(move || give_up.give_up());
    let dispatcher = args.dispatcher.clone();
    let shut_down = move || Service::connect(&key, &dispatcher, config)?.shutdown();
    let outcome = ending.unless(&brake, shut_down).map_err(NotDone::text)?;
    outcome.map_err(|error| error.to_string())?;
    say(&format!("the service at {} has ended", args.dispatcher));
    Ok(())
}
