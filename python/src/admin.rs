//! The admin ports of this process: their arguments, and the errors of opening them.

use std::net::SocketAddr;

use millstream::admin::{AdminConfig, AdminError, AdminListener, AdminPort, AdminToken, Subject};
use pyo3::prelude::*;

use crate::failure::raise;

/// Binds a port at `bind`. Requests must present the token, if there is one. `hosts` are the names of the
/// port besides IP addresses and `localhost`.
///
/// # Errors
/// `InvalidArgumentError` for the token, and `UnavailableError` for the address.
pub(crate) fn bound(
    py: Python<'_>,
    bind: SocketAddr,
    token: Option<String>,
    hosts: Vec<String>,
) -> PyResult<AdminListener> {
    let token = token.map(AdminToken::new).transpose();
    let token = token.map_err(|error| raise("InvalidArgumentError", error))?;
    let config = AdminConfig { bind, token, hosts };
    py.detach(|| AdminListener::bind(config)).map_err(refused)
}

/// Shows `subject` at a bound port.
///
/// # Errors
/// `ResourceExhaustedError` if the system refuses a thread.
pub(crate) fn serve<S: Subject>(py: Python<'_>, listener: AdminListener, subject: S) -> PyResult<AdminPort> {
    py.detach(|| listener.serve(subject)).map_err(refused)
}

/// Binds the admin port of a server at `address`, if the caller passed one. Servers bind the port before they
/// start. No server is therefore registered whose port cannot be opened.
///
/// # Errors
/// `InvalidArgumentError` if the address is not `IP:PORT`, and the errors of [`bound`].
pub(crate) fn of_server(
    py: Python<'_>,
    address: Option<&str>,
    token: Option<String>,
) -> PyResult<Option<AdminListener>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let bind = address.parse().map_err(|_| {
        raise(
            "InvalidArgumentError",
            format!("invalid admin address {address:?}: expected IP:PORT, such as 127.0.0.1:9464"),
        )
    })?;
    bound(py, bind, token, Vec::new()).map(Some)
}

fn refused(error: AdminError) -> PyErr {
    match error {
        AdminError::TokenMissing(address) => raise(
            "InvalidArgumentError",
            format!("{address} is reachable from other machines: pass a token, or listen at 127.0.0.1"),
        ),
        AdminError::Bind { address, source } => raise(
            "UnavailableError",
            format!("the port {address} cannot be opened: {source}; pass another port, or 0 for a free one"),
        ),
        AdminError::Lane(error) => raise("ResourceExhaustedError", error),
    }
}
