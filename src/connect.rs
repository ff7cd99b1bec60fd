//! How a reader reaches a worker: in memory when it is in this process, else over QUIC.
//!
//! The only chooser of transports. Refuses to know tasks and credits.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use millstream_client::{Connecting, Connector};
use millstream_dataplane::transport::memory::{self, Knobs};
use millstream_dataplane::transport::quic::{self, PathReporter};
use millstream_dataplane::transport::{Admission, ClientLink};
use millstream_element::{HeapAlloc, SlotAlloc};
use millstream_link::{Endpoint, HostPort, Role};

use crate::local::LocalWorkers;

/// How long one attempt to reach a worker may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Connects to workers by the best transport there is.
#[derive(Debug, Clone)]
pub struct AutoConnector {
    endpoint: Endpoint,
    local: LocalWorkers,
}

impl AutoConnector {
    /// A connector that uses this endpoint for workers elsewhere.
    pub fn new(endpoint: Endpoint, local: LocalWorkers) -> Self {
        Self { endpoint, local }
    }

    /// The workers of this process.
    pub(crate) fn local(&self) -> &LocalWorkers {
        &self.local
    }

    async fn connect_quic(
        &self,
        worker: &str,
        admission: Arc<dyn Admission>,
    ) -> Result<Box<ClientLink>, String> {
        let address = HostPort::from_str(worker).map_err(|error| error.to_string())?;
        let resolved = address
            .resolve(CONNECT_DEADLINE)
            .await
            .map_err(|error| error.to_string())?;
        let mut last = format!("{worker} has no address");
        for address in resolved {
            match self
                .endpoint
                .connect(address, Role::Worker, alpn(), CONNECT_DEADLINE)
                .await
            {
                Ok(connection) => {
                    let path = PathReporter::new(self.endpoint.clone(), connection);
                    return quic::connect(path, admission)
                        .await
                        .map_err(|error| error.to_string());
                }
                Err(error) => last = error.to_string(),
            }
        }
        Err(last)
    }
}

impl Connector for AutoConnector {
    fn connect<'a>(&'a self, worker: &'a str, admission: Arc<dyn Admission>) -> Connecting<'a> {
        Box::pin(async move {
            let Some(server) = self.local.find(worker) else {
                return self.connect_quic(worker, admission).await;
            };
            let alloc: Arc<dyn SlotAlloc> = Arc::new(HeapAlloc);
            let (worker_end, client_end) = memory::pair(admission, alloc, Knobs::default());
            // Ends with the link, which the reader owns the other end of.
            tokio::spawn(async move { server.serve(worker_end).await });
            Ok(client_end)
        })
    }
}

/// The data plane's protocol, as TLS names it.
pub(crate) fn alpn() -> &'static str {
    std::str::from_utf8(quic::ALPN).unwrap_or_default()
}
