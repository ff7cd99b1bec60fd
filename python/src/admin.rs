//! The admin ports of this process: their arguments, and the errors of opening them.

use std::net::SocketAddr;

use millstream::admin::{AdminConfig, AdminError, AdminPort, AdminToken, Subject};
use pyo3::prelude::*;

use crate::failure::raise;

/// Opens a port at `bind`. Requests must present the token, if there is one. `hosts` are the names of the
/// port besides IP addresses and `localhost`.
///
/// # Errors
/// `InvalidArgumentError` for the token, and `UnavailableError` for the address.
pub(crate) fn open<S: Subject>(
    py: Python<'_>,
    bind: SocketAddr,
    token: Option<String>,
    hosts: Vec<String>,
    subject: S,
) -> PyResult<AdminPort> {
    let token = token.map(AdminToken::new).transpose();
    let token = token.map_err(|error| raise("InvalidArgumentError", error))?;
    let config = AdminConfig { bind, token, hosts };
    let opened = py.detach(|| AdminPort::open(config, subject));
    opened.map_err(|error| match error {
        AdminError::TokenMissing(address) => raise(
            "InvalidArgumentError",
            format!("{address} is reachable from other machines: pass a token, or listen at 127.0.0.1"),
        ),
        AdminError::Bind { address, source } => raise(
            "UnavailableError",
            format!("the port {address} cannot be opened: {source}; pass another port, or 0 for a free one"),
        ),
        AdminError::Lane(error) => raise("ResourceExhaustedError", error),
    })
}

/// Opens the admin port of a server at `address`, if the caller passed one.
///
/// # Errors
/// `InvalidArgumentError` if the address is no `IP:PORT`, and the errors of [`open`].
pub(crate) fn of_server<S: Subject>(
    py: Python<'_>,
    address: Option<&str>,
    token: Option<String>,
    subject: impl FnOnce() -> S,
) -> PyResult<Option<AdminPort>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let bind = address.parse().map_err(|_| {
        raise(
            "InvalidArgumentError",
            format!("invalid admin address {address:?}: expected IP:PORT, such as 127.0.0.1:9464"),
        )
    })?;
    open(py, bind, token, Vec::new(), subject()).map(Some)
}
