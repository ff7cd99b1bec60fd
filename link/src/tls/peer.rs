//! Reads the roles that a certificate names, and the certificate of a connection's peer. The module verifies
//! neither.

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::Role;

/// Returns the role that the peer of an established connection has proved, or `None` before the handshake is
/// complete.
///
/// The result is reliable only for connections of this crate's endpoints. The handshake of such a connection
/// has checked that the role's anchor signed the certificate.
pub fn peer_role(connection: &quinn::Connection) -> Option<Role> {
    match roles_of_certificate(&peer_certificate(connection)?)[..] {
        [role] => Some(role),
        _ => None,
    }
}

/// Returns the peer's own certificate.
pub(crate) fn peer_certificate(connection: &quinn::Connection) -> Option<CertificateDer<'static>> {
    let chain = connection
        .peer_identity()?
        .downcast::<Vec<CertificateDer<'static>>>()
        .ok()?;
    chain.into_iter().next()
}

/// Returns every role that a certificate names, without proof.
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
