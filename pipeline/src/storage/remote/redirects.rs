//! The client of HTTP servers: follows redirects only to what may be read, as if the dataset had named it.
//!
//! A server that datasets name, or one that it sends readers on to, belongs to anybody. What an operator
//! keeps from datasets must not be had by way of it.

use std::time::Duration;

use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpConnector};
use reqwest::redirect::{Action, Attempt, Policy};

use crate::storage::access::Access;
use crate::storage::location::Location;

/// Redirects that are followed one after the other.
const REDIRECTS_MAX: usize = 10;

/// HTTP client for servers, with its rules for redirects.
#[derive(Debug, Clone)]
pub(super) struct ServerClient {
    pub(super) access: Access,
    pub(super) connect: Duration,
    pub(super) stall: Duration,
    pub(super) deadline: Duration,
    /// Whether the system's authorities are believed; else none is.
    pub(super) believes_system: bool,
    /// Whether it speaks without TLS.
    pub(super) is_plain: bool,
}

impl HttpConnector for ServerClient {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let access = self.access.clone();
        let builder = reqwest::Client::builder()
            .user_agent(concat!("millstream/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.connect)
            .read_timeout(self.stall)
            .timeout(self.deadline)
            .https_only(!self.is_plain)
            .redirect(Policy::custom(move |attempt| follow(&access, attempt)));
        let builder = if self.believes_system {
            builder
        } else {
            builder.tls_certs_only([])
        };
        let client = builder.build().map_err(|source| object_store::Error::Generic {
            store: "HTTP client",
            source: Box::new(source),
        })?;
        Ok(HttpClient::new(client))
    }
}

fn follow(access: &Access, attempt: Attempt) -> Action {
    if attempt.previous().len() > REDIRECTS_MAX {
        return attempt.error(format!("it redirects more than {REDIRECTS_MAX} times"));
    }
    let permitted = Location::of(attempt.url().as_str()).and_then(|location| access.check(&location));
    match permitted {
        Ok(()) => attempt.follow(),
        Err(reason) => attempt.error(format!("it redirects to what may not be read: {reason}")),
    }
}
