//! Certificates: their creation, and the verification of a peer's certificate.
//!
//! Links use TLS 1.3 with mutual authentication and one cipher suite, without 0-RTT, session tickets or a key
//! log. A certificate carries its role as the DNS name `<role>.millstream`. The anchor that signed the
//! certificate must be the anchor of that role.

mod anchor;
mod config;
mod error;
mod leaf;
mod peer;
mod verifier;

pub(crate) use anchor::{anchor_of_role, anchor_subject_common_name};
pub(crate) use config::{CIPHER_NAME, Identity};
pub use error::TlsSetupError;
#[cfg(test)]
pub(crate) use leaf::Leaf;
pub use peer::peer_role;
pub(crate) use peer::{peer_certificate, roles_of_certificate};
