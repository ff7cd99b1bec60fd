//! The clients of the stores that paths name. Each client is made once and keeps its connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use parking_lot::Mutex;

use super::redirects::ServerClient;
use crate::storage::access::Access;
use crate::storage::config::StorageConfig;
use crate::storage::location::{RemoteLocation, Scheme};

/// The maximum number of clients that are kept. If more stores are in use, all clients are made again.
const STORES_MAX: usize = 64;
/// The first and the longest pause between two attempts.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The client of one store.
#[derive(Debug, Clone)]
pub(super) struct Store {
    pub(super) objects: Arc<dyn ObjectStore>,
    /// The lister of the store; `None` if the store has no listings.
    pub(super) pages: Option<Pages>,
    /// A text that distinguishes the store from stores of the same name at other endpoints.
    pub(super) identity: Arc<str>,
}

/// A lister that returns a store's objects page by page.
#[derive(Clone)]
pub(super) struct Pages(pub(super) Arc<dyn PaginatedListStore>);

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pages")
    }
}

/// The certificate authorities that a client trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certificates {
    OfSystem,
    None,
}

/// The clients of the stores that were used so far.
#[derive(Debug)]
pub(super) struct Stores {
    config: StorageConfig,
    access: Access,
    known: Mutex<HashMap<(Scheme, String), Store>>,
}

impl Stores {
    /// Makes an empty set of clients. `access` limits the redirects of servers.
    pub(super) fn new(config: StorageConfig, access: Access) -> Stores {
        Stores {
            config,
            access,
            known: Mutex::default(),
        }
    }

    /// Returns the client of the store that contains `location`, and makes a missing client.
    ///
    /// # Errors
    /// The error of making the client.
    pub(super) fn of(&self, location: &RemoteLocation) -> object_store::Result<Store> {
        // The client of a signed URL is only useful for one object, so it is not kept.
        if location.query.is_some() {
            return self.build(location);
        }
        let name = (location.scheme, location.store());
        let mut known = self.known.lock();
        if let Some(store) = known.get(&name) {
            return Ok(store.clone());
        }
        let store = self.build(location)?;
        if known.len() == STORES_MAX {
            known.clear();
        }
        known.insert(name, store.clone());
        Ok(store)
    }

    /// Makes a client. A machine without CA certificates gets a client that trusts no authority. The client
    /// can still use plain HTTP, and its TLS errors name the untrusted issuer.
    fn build(&self, location: &RemoteLocation) -> object_store::Result<Store> {
        let with = |certificates| match location.scheme {
            Scheme::S3 => self.s3(location, certificates),
            Scheme::Gcs => self.gcs(location, certificates),
            Scheme::Azure => self.azure(location, certificates),
            Scheme::Http | Scheme::Https => self.server(location, certificates),
        };
        match with(Certificates::OfSystem) {
            Err(error) if lacks_certificates(&error) => with(Certificates::None),
            built => built,
        }
    }

    fn s3(&self, location: &RemoteLocation, certificates: Certificates) -> object_store::Result<Store> {
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(&location.authority);
        for (key, value) in self.client_settings(certificates) {
            builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
        }
        for (key, value) in self.options("aws_") {
            builder = builder.with_config(key.parse()?, value);
        }
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
        let store = Arc::new(builder.with_retry(self.retry()).build()?);
        Ok(Store {
            objects: Arc::clone(&store) as Arc<dyn ObjectStore>,
            pages: Some(Pages(store)),
            identity: identity(location, endpoint),
        })
    }

    fn gcs(&self, location: &RemoteLocation, certificates: Certificates) -> object_store::Result<Store> {
        let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(&location.authority);
        for (key, value) in self.client_settings(certificates) {
            builder = builder.with_config(GoogleConfigKey::Client(key), value);
        }
        for (key, value) in self.options("google_") {
            builder = builder.with_config(key.parse()?, value);
        }
        let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
        let store = Arc::new(builder.with_retry(self.retry()).build()?);
        Ok(Store {
            objects: Arc::clone(&store) as Arc<dyn ObjectStore>,
            pages: Some(Pages(store)),
            identity: identity(location, endpoint),
        })
    }

    fn azure(&self, location: &RemoteLocation, certificates: Certificates) -> object_store::Result<Store> {
        let mut builder = MicrosoftAzureBuilder::from_env().with_url(location.store());
        for (key, value) in self.client_settings(certificates) {
            builder = builder.with_config(AzureConfigKey::Client(key), value);
        }
        for (key, value) in self.options("azure_") {
            builder = builder.with_config(key.parse()?, value);
        }
        let (account, endpoint) = (AzureConfigKey::AccountName, AzureConfigKey::Endpoint);
        let known = [
            builder.get_config_value(&account),
            builder.get_config_value(&endpoint),
        ];
        let store = Arc::new(builder.with_retry(self.retry()).build()?);
        Ok(Store {
            objects: Arc::clone(&store) as Arc<dyn ObjectStore>,
            pages: Some(Pages(store)),
            identity: identity(location, Some(known.map(Option::unwrap_or_default).join(" "))),
        })
    }

    fn server(&self, location: &RemoteLocation, certificates: Certificates) -> object_store::Result<Store> {
        let query = location.query.as_ref().map(|query| format!("?{query}"));
        let url = format!("{}/{}", location.store(), query.unwrap_or_default());
        let is_plain = location.scheme == Scheme::Http;
        let client = ServerClient {
            access: self.access.clone(),
            connect: self.config.connect,
            stall: self.config.stall,
            deadline: self.config.deadline,
            believes_system: certificates == Certificates::OfSystem,
            is_plain,
        };
        let options = ClientOptions::new().with_allow_http(is_plain);
        let builder = HttpBuilder::new()
            .with_url(url)
            .with_client_options(options)
            .with_http_connector(client);
        let store = builder.with_retry(self.retry()).build()?;
        Ok(Store {
            objects: Arc::new(store),
            pages: None,
            identity: identity(location, location.query.clone()),
        })
    }

    /// Returns the options whose names begin with `prefix`, ignoring case.
    fn options(&self, prefix: &'static str) -> impl Iterator<Item = (String, &String)> {
        let options = self.config.options.iter();
        options
            .map(|(key, value)| (key.to_ascii_lowercase(), value))
            .filter(move |(key, _)| key.starts_with(prefix))
    }

    /// Returns the timeouts and certificate settings of a client. The read timeout limits silence, not the
    /// whole answer.
    fn client_settings(&self, certificates: Certificates) -> [(ClientConfigKey, String); 4] {
        let milliseconds = |duration: Duration| format!("{}ms", duration.as_millis().max(1));
        [
            (ClientConfigKey::ConnectTimeout, milliseconds(self.config.connect)),
            (ClientConfigKey::ReadTimeout, milliseconds(self.config.stall)),
            (ClientConfigKey::Timeout, milliseconds(self.config.deadline)),
            (
                ClientConfigKey::NoSystemCertificates,
                (certificates == Certificates::None).to_string(),
            ),
        ]
    }

    fn retry(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig {
                init_backoff: BACKOFF.0,
                max_backoff: BACKOFF.1,
                base: 2.0,
            },
            max_retries: self.config.attempts as usize - 1,
            retry_timeout: self.config.deadline,
        }
    }
}

/// Returns whether a client could not be made because the machine has no CA certificates. Only the text of
/// the error's cause contains that reason.
fn lacks_certificates(error: &object_store::Error) -> bool {
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.any(|cause| cause.to_string().contains("No CA certificates"))
}

fn identity(location: &RemoteLocation, endpoint: Option<String>) -> Arc<str> {
    format!("{} {}", location.store(), endpoint.unwrap_or_default()).into()
}
