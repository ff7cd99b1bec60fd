//! The connection of a command that asks a dispatcher one question. The connection has a short deadline, so
//! that an unreachable dispatcher is reported soon.

use std::time::Duration;

use millstream::control::rpc::SessionConfig;
use millstream::{Service, ServiceConfig};

use crate::args::IdentityFlags;
use crate::key;

/// The time for which the command waits for a dispatcher.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Returns the settings of the command's connection to the dispatcher.
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

/// Connects to the dispatcher at this address, and returns the service.
pub(crate) fn connect(identity: &IdentityFlags, dispatcher: &str) -> Result<Service, String> {
    let key = key::load(identity)?;
    Service::connect(&key, dispatcher, config()).map_err(|error| error.to_string())
}
