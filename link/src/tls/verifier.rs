//! Verifies a peer's certificate, in the same way on both sides.
//!
//! A peer has the role that its certificate names if the role's anchor signed the certificate. Therefore a
//! name alone proves nothing, and an anchor vouches for its own role only.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::error::TlsSetupError;
use super::peer::roles_of_certificate;
use crate::identity::{Credentials, Role};

/// The verifier that admits peers of some roles.
#[derive(Debug)]
pub(crate) struct PeerVerifier {
    accepted: Vec<Role>,
    credentials: Credentials,
    /// The verifiers of clients, in the order of [`Role::ALL`].
    clients: [Arc<dyn ClientCertVerifier>; 4],
    algorithms: WebPkiSupportedAlgorithms,
}

impl PeerVerifier {
    pub(crate) fn new(
        credentials: &Credentials,
        accepted: &[Role],
        provider: &Arc<CryptoProvider>,
    ) -> Result<PeerVerifier, TlsSetupError> {
        let client = |role| {
            let anchors = Arc::clone(credentials.anchors(role));
            WebPkiClientVerifier::builder_with_provider(anchors, Arc::clone(provider)).build()
        };
        let [read, submit, worker, dispatcher] = Role::ALL.map(client);
        let failed = TlsSetupError::new;
        Ok(PeerVerifier {
            accepted: accepted.to_vec(),
            credentials: credentials.clone(),
            clients: [
                read.map_err(failed)?,
                submit.map_err(failed)?,
                worker.map_err(failed)?,
                dispatcher.map_err(failed)?,
            ],
            algorithms: provider.signature_verification_algorithms,
        })
    }

    /// Returns the role of a peer if the role is proved and accepted. `vouches` checks the peer's chain
    /// against the anchors of a role.
    ///
    /// Three kinds of refusal are distinguished, because they have different remedies. `UnknownIssuer` means
    /// the key of another cluster. `ApplicationVerificationFailure` means this cluster's key in a role that
    /// the key does not prove, or that is not accepted here. `Revoked` means a certificate or key that the
    /// operator has revoked.
    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        vouches: impl Fn(Role) -> Result<(), Error>,
    ) -> Result<Role, Error> {
        let refused = Err(CertificateError::ApplicationVerificationFailure.into());
        let [named] = roles_of_certificate(certificate)[..] else {
            return refused;
        };
        match vouches(named) {
            Ok(()) if self.is_revoked(certificate) => Err(CertificateError::Revoked.into()),
            Ok(()) if self.accepted.contains(&named) => Ok(named),
            Ok(()) => refused,
            Err(_) if Role::ALL.into_iter().any(|other| vouches(other).is_ok()) => refused,
            // The names of the anchors are the same in every cluster, so only the signature distinguishes
            // clusters.
            Err(Error::InvalidCertificate(CertificateError::BadSignature)) => {
                Err(CertificateError::UnknownIssuer.into())
            }
            Err(other) => Err(other),
        }
    }
}

impl PeerVerifier {
    fn is_revoked(&self, certificate: &CertificateDer<'_>) -> bool {
        let revocations = self.credentials.revocations();
        revocations.is_some_and(|revocations| revocations.names(certificate))
    }
}

/// Defines the methods that both traits of rustls require, which check that the peer holds the key of its
/// certificate.
macro_rules! signature_checks {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signature, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = rustls::server::ParsedCertificate::try_from(end_entity)?;
        let role = self.judge(end_entity, |role| {
            let anchors = self.credentials.anchors(role);
            let algorithms = self.algorithms.all;
            rustls::client::verify_server_cert_signed_by_trust_anchor(
                &certificate,
                anchors,
                intermediates,
                now,
                algorithms,
            )
        })?;
        rustls::client::verify_server_name(&certificate, server_name)?;
        debug_assert!(self.accepted.contains(&role));
        Ok(ServerCertVerified::assertion())
    }

    signature_checks!();
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A peer has one certificate, so it needs no hint about which certificate to send.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.judge(end_entity, |role| {
            self.clients[role.index()]
                .verify_client_cert(end_entity, intermediates, now)
                .map(drop)
        })?;
        Ok(ClientCertVerified::assertion())
    }

    signature_checks!();
}
