//! The threads of a worker's sockets, and the endpoints on them. The dispatcher's lane has its own thread and
//! socket, so that busy readers do not delay heartbeats.

use std::net::SocketAddr;

use millstream_dataplane::transport::quic::CLIENT_LIMITS;
use millstream_dataplane::worker::Server;
use millstream_link::{Credentials, Endpoint, EndpointConfig, HostPorts, Lane, LaneError, Role};

use super::advertised::{advertised, check_reach};
use super::error::WorkerError;
use crate::connect::alpn;
use crate::serve::serve;

/// The threads of the worker's sockets.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) control: Lane,
    pub(super) data: Lane,
}

impl Lanes {
    pub(super) fn start() -> Result<Self, LaneError> {
        Ok(Self {
            control: Lane::start("worker")?,
            data: Lane::start("readers")?,
        })
    }

    /// Checks that a worker bound to `bound` can reach its dispatcher. Returns the address that readers
    /// receive.
    pub(super) fn advertise(
        &self,
        wanted: Option<String>,
        bound: SocketAddr,
        dispatcher: &HostPorts,
    ) -> Result<String, WorkerError> {
        let checked = check_reach(bound, wanted.is_some(), dispatcher.first().clone());
        self.control
            .spawn(checked)
            .wait()?
            .map_err(WorkerError::Settings)?;
        let address = advertised(wanted, bound, dispatcher.first().clone());
        Ok(self.control.spawn(address).wait()?)
    }
}

/// Binds an endpoint on the lane, and starts to serve there.
pub(super) fn bind(
    lane: &Lane,
    credentials: Credentials,
    (address, config): (Option<SocketAddr>, EndpointConfig),
    server: Server,
) -> Result<Endpoint, WorkerError> {
    let config = EndpointConfig {
        bind: address,
        of_accepted: CLIENT_LIMITS,
        ..config
    };
    let binding = lane.spawn(async move {
        let accepted = [Role::Read, Role::Submit];
        let endpoint = Endpoint::bind_server(credentials, &[alpn()], &accepted, config)
            .map_err(|error| WorkerError::Bind(error.to_string()))?;
        tokio::task::spawn_local(serve(endpoint.clone(), server));
        Ok(endpoint)
    });
    binding.wait()?
}

/// Creates an endpoint for the dispatcher, on the network interface that readers use.
pub(super) fn to_dispatcher(
    lane: &Lane,
    credentials: Credentials,
    served: SocketAddr,
    config: EndpointConfig,
) -> Result<Endpoint, WorkerError> {
    let config = EndpointConfig {
        bind: Some(SocketAddr::new(served.ip(), 0)),
        ..config
    };
    let binding = lane.spawn(async move {
        Endpoint::client(credentials, config).map_err(|error| WorkerError::Bind(error.to_string()))
    });
    binding.wait()?
}
