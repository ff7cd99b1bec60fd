//! The TLS configurations of both sides, for rustls and quinn.

use std::fmt;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;

use super::error::TlsSetupError;
use super::leaf::Leaf;
use super::verifier::PeerVerifier;
use crate::identity::{Credentials, Role};

/// The only cipher suite. Both ends know the suite without negotiation. On processors with AES instructions,
/// the suite is the fastest.
pub(crate) const CIPHER_NAME: &str = "TLS13_AES_128_GCM_SHA256";

/// The certificate of an endpoint, and the credentials with which it judges peers.
pub(crate) struct Identity {
    credentials: Credentials,
    leaf: Leaf,
    provider: Arc<CryptoProvider>,
}

impl Identity {
    pub(crate) fn new(credentials: Credentials) -> Result<Identity, TlsSetupError> {
        let leaf = Leaf::of(&credentials)?;
        Ok(Identity::with_leaf(credentials, leaf))
    }

    pub(crate) fn with_leaf(credentials: Credentials, leaf: Leaf) -> Identity {
        let suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let provider = CryptoProvider {
            cipher_suites: suites,
            ..aws_lc_rs::default_provider()
        };
        Identity {
            credentials,
            leaf,
            provider: Arc::new(provider),
        }
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Returns the configuration for connections to a server that must have the role `expected`.
    pub(crate) fn client(&self, expected: Role, alpn: &str) -> Result<Arc<QuicClientConfig>, TlsSetupError> {
        let verifier = PeerVerifier::new(&self.credentials, &[expected], &self.provider)?;
        let mut tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(self.leaf.chain.clone(), self.leaf.key.clone_key())?;
        tls.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        tls.resumption = Resumption::disabled();
        tls.enable_early_data = false;
        QuicClientConfig::try_from(tls)
            .map(Arc::new)
            .map_err(TlsSetupError::new)
    }

    /// Returns the configuration for a server that admits peers with one of the `accepted` roles.
    pub(crate) fn server(
        &self,
        accepted: &[Role],
        alpns: &[&str],
    ) -> Result<Arc<QuicServerConfig>, TlsSetupError> {
        let verifier = PeerVerifier::new(&self.credentials, accepted, &self.provider)?;
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(self.leaf.chain.clone(), self.leaf.key.clone_key())?;
        tls.alpn_protocols = alpns.iter().map(|alpn| alpn.as_bytes().to_vec()).collect();
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        tls.send_tls13_tickets = 0;
        tls.max_early_data_size = 0;
        QuicServerConfig::try_from(tls)
            .map(Arc::new)
            .map_err(TlsSetupError::new)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("credentials", &self.credentials)
            .finish_non_exhaustive()
    }
}
