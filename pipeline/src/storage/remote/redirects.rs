//! The client of HTTP servers. A redirect is followed only if a dataset could name its target directly.
//!
//! Anyone may run a server that a dataset names, or the target of its redirect. A redirect must not give
//! access to files that an operator does not allow.

use std::time::Duration;

use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpConnector};
use reqwest::redirect::{Action, Attempt, Policy};

use crate::storage::access::Access;
use crate::storage::location::Location;

/// The maximum number of consecutive redirects.
const REDIRECTS_MAX: usize = 10;

/// The configuration of an HTTP client for servers, with the rules for redirects.
#[derive(Debug, Clone)]
pub(super) struct ServerClient {
    pub(super) access: Access,
    pub(super) connect: Duration,
    pub(super) stall: Duration,
    pub(super) deadline: Duration,
    /// `true` if the client trusts the system's certificate authorities; otherwise the client trusts none.
    pub(super) believes_system: bool,
    /// `true` if the client uses HTTP without TLS.
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
        return attempt.error(format!("more than {REDIRECTS_MAX} redirects"));
    }
    let permitted = Location::of(attempt.url().as_str()).and_then(|location| access.check(&location));
    match permitted {
        Ok(()) => attempt.follow(),
        Err(reason) => attempt.error(format!(
            "the redirect leads to a file that may not be read: {reason}"
        )),
    }
}
