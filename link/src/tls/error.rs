//! The error of TLS credentials that do not fit together.

use std::fmt;

/// A TLS identity could not be made of the credentials: for a site's certificate, it and its key do not fit.
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
