//! The socket of an admin port: its address, its limits, and its thread.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use millstream_link::{Lane, LaneError};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::guard::Guard;
use crate::respond::Responder;
use crate::subject::Subject;
use crate::token::AdminToken;

/// Maximum number of connections. Further ones wait in the queue of the operating system.
const CONNECTIONS_MAX: usize = 128;
/// Maximum number of bytes in the head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The time within which the head of a request must arrive.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// The time after which a connection is closed, so that an idle one does not stay. Viewers connect again.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(600);
/// The pause after a connection could not be accepted, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The settings of an admin port.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    /// The address. Port 0 selects a free port.
    pub bind: SocketAddr,
    /// The token that requests must present. Required beyond loopback.
    pub token: Option<AdminToken>,
    /// The names under which operators reach the port, besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// The reason why an admin port did not start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address is reachable from other machines, and the settings have no token.
    #[error(
        "the admin port {0} is reachable from other machines: give --admin-token-file, or listen at 127.0.0.1"
    )]
    TokenMissing(SocketAddr),
    /// The address cannot be bound.
    #[error("the admin port {address} cannot be opened: {source}; choose another address with --admin")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The reason from the operating system.
        source: io::Error,
    },
    /// The system refused to start a thread.
    #[error(transparent)]
    Lane(#[from] LaneError),
}

/// An open admin port with its thread. Dropping the value closes the port.
#[derive(Debug)]
pub struct AdminPort {
    local_addr: SocketAddr,
    _lane: Lane,
}

/// An address that is bound and not served yet. Connections wait until [`AdminListener::serve`]. Programs
/// bind before they start what the port shows. A port in use is then an error before anything has begun.
#[derive(Debug)]
pub struct AdminListener {
    listener: TcpListener,
    local_addr: SocketAddr,
    config: AdminConfig,
}

impl AdminListener {
    /// Binds the address.
    ///
    /// # Errors
    /// [`AdminError`] names the address and the remedy.
    pub fn bind(config: AdminConfig) -> Result<AdminListener, AdminError> {
        let address = config.bind;
        if !address.ip().is_loopback() && config.token.is_none() {
            return Err(AdminError::TokenMissing(address));
        }
        let failed = |source| AdminError::Bind { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let local_addr = listener.local_addr().map_err(failed)?;
        Ok(AdminListener {
            listener,
            local_addr,
            config,
        })
    }

    /// Returns the address in use.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Shows `subject` from a thread of its own.
    ///
    /// # Errors
    /// [`AdminError`] if the system refuses to start the thread.
    pub fn serve<S: Subject>(self, subject: S) -> Result<AdminPort, AdminError> {
        let AdminListener {
            listener,
            local_addr,
            config,
        } = self;
        let address = config.bind;
        let failed = |source| AdminError::Bind { address, source };
        let responder = Arc::new(Responder::new(Guard::new(config.token, config.hosts), subject));
        let lane = Lane::start("admin")?;
        let listening = lane.spawn(async move { tokio::net::TcpListener::from_std(listener) });
        let listener = listening.wait()?.map_err(failed)?;
        let observer = responder.observer();
        // The tasks end with the lane.
        drop(lane.spawn(async move { observer.remember_for_ever().await }));
        drop(lane.spawn(serve(listener, responder)));
        Ok(AdminPort {
            local_addr,
            _lane: lane,
        })
    }
}

impl AdminPort {
    /// Opens the port, and shows the process from a thread of its own.
    ///
    /// # Errors
    /// [`AdminError`] names the address and the remedy.
    pub fn open<S: Subject>(config: AdminConfig, subject: S) -> Result<AdminPort, AdminError> {
        AdminListener::bind(config)?.serve(subject)
    }

    /// Returns the address in use.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

/// Serves connections until the lane ends.
async fn serve<S: Subject>(listener: tokio::net::TcpListener, responder: Arc<Responder<S>>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let responder = Arc::clone(&responder);
                tokio::spawn(async move {
                    talk(stream, responder).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection to the admin port could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers the requests of one connection.
async fn talk<S: Subject>(stream: TcpStream, responder: Arc<Responder<S>>) {
    let service = service_fn(move |request| {
        let responder = Arc::clone(&responder);
        async move { Ok::<_, Infallible>(responder.respond(&request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_TIME_MAX, connection).await {
        Ok(Ok(())) | Err(_) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to the admin port broke"),
    }
}
