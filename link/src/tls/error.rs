//! The error of TLS credentials that cannot be used together.

use std::fmt;

/// The error for credentials from which no TLS identity can be made. For a site's certificate, the
/// certificate and its key do not match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot make a TLS identity: {reason}")]
pub struct TlsSetupError {
    reason: String,
}

impl TlsSetupError {
    pub(super) fn new(reason: impl fmt::Display) -> TlsSetupError {
        TlsSetupError {
            reason: reason.to_string(),
        }
    }
}

impl From<rcgen::Error> for TlsSetupError {
    fn from(error: rcgen::Error) -> TlsSetupError {
        TlsSetupError::new(error)
    }
}

impl From<rustls::Error> for TlsSetupError {
    fn from(error: rustls::Error) -> TlsSetupError {
        TlsSetupError::new(error)
    }
}
