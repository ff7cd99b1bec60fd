//! Certificates: how they are made, and how a peer's is judged.
//!
//! TLS 1.3 with mutual authentication, one cipher suite, no 0-RTT, no session tickets, no key log. A
//! certificate carries its role as the DNS name `<role>.millstream`; the anchor that signed it must be that
//! role's.

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
