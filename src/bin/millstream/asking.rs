//! Connects with a dispatcher to ask it one thing: who does that wants to know soon that nobody answers.

use std::time::Duration;

use millstream::control::rpc::SessionConfig;
use millstream::{Service, ServiceConfig};

use crate::args::IdentityFlags;
use crate::key;

/// The time for which the command waits for a dispatcher.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Returns the settings of its connection.
pub(crate) fn config() -> ServiceConfig {
    let session = SessionConfig {
        connect_deadline: CONNECT_DEADLINE,
        ..SessionConfig::default()
    };
    ServiceConfig {
        session,
        ..ServiceConfig::default()
    }
}

/// The service of the dispatcher at this address.
pub(crate) fn connect(identity: &IdentityFlags, dispatcher: &str) -> Result<Service, String> {
    let key = key::load(identity)?;
    Service::connect(&key, dispatcher, config()).map_err(|error| error.to_string())
}
