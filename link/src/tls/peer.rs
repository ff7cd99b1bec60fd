//! The roles that a certificate names, and the certificate of a connection's peer. Judges neither.

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::Role;

/// The role that the peer of an established connection has proved; `None` before the handshake is complete.
///
/// Sound only for connections of this crate's endpoints. Their handshake has checked that the certificate's
/// role is the one that its anchor vouches for.
pub fn peer_role(connection: &quinn::Connection) -> Option<Role> {
    match roles_of_certificate(&peer_certificate(connection)?)[..] {
        [role] => Some(role),
        _ => None,
    }
}

/// The peer's own certificate.
pub(crate) fn peer_certificate(connection: &quinn::Connection) -> Option<CertificateDer<'static>> {
    let chain = connection
        .peer_identity()?
        .downcast::<Vec<CertificateDer<'static>>>()
        .ok()?;
    chain.into_iter().next()
}

/// Every role that a certificate names, unproved.
pub(crate) fn roles_of_certificate(certificate: &CertificateDer<'_>) -> Vec<Role> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let Ok(Some(names)) = parsed.subject_alternative_name() else {
        return Vec::new();
    };
    let role = |name: &GeneralName<'_>| {
        if let GeneralName::DNSName(name) = name {
            Role::from_dns_name(name)
        } else {
            None
        }
    };
    names.value.general_names.iter().filter_map(role).collect()
}
