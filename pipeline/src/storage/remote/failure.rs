//! Messages for the errors of a store's client.

use std::fmt;

use object_store::Error;

use crate::exec::ErrorKind;
use crate::storage::shown::without_secrets;

/// The maximum number of characters of a client's message that are shown. Some servers answer with whole web
/// pages.
const TEXT_MAX: usize = 600;

/// The reason why a store gave no answer, and the party to blame.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) reason: String,
}

impl Failure {
    pub(super) fn new(kind: ErrorKind, reason: impl Into<String>) -> Failure {
        Failure {
            kind,
            reason: reason.into(),
        }
    }

    /// Makes the error of a server that did not answer correctly.
    pub(super) fn peer(reason: impl Into<String>) -> Failure {
        Failure::new(ErrorKind::Peer, reason)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let said = said(&error);
        match error {
            _ if said.contains("NoSuchBucket") => {
                Failure::new(ErrorKind::NotFound, "the bucket does not exist")
            }
            Error::NotFound { .. } => Failure::new(ErrorKind::NotFound, "the object does not exist"),
            Error::PermissionDenied { .. } => Failure::new(
                ErrorKind::Caller,
                format!(
                    "the store refuses access; check the credentials and their rights to this object. {said}"
                ),
            ),
            Error::Unauthenticated { .. } => Failure::new(
                ErrorKind::Caller,
                format!("the store requires valid credentials; set them in the environment. {said}"),
            ),
            Error::Precondition { .. } => Failure::new(
                ErrorKind::Precondition,
                "the object was changed while it was read: start over",
            ),
            Error::InvalidPath { .. } => {
                Failure::new(ErrorKind::Caller, format!("invalid name of an object: {said}"))
            }
            Error::UnknownConfigurationKey { key, .. } => {
                Failure::new(ErrorKind::Caller, format!("unknown option {key:?} of this store"))
            }
            Error::Generic { .. }
            | Error::JoinError { .. }
            | Error::NotSupported { .. }
            | Error::AlreadyExists { .. }
            | Error::NotModified { .. }
            | Error::NotImplemented { .. }
            | _ => general(said),
        }
    }
}

/// Returns the failure for an error that the client reports as generic, by the text of its message.
fn general(said: String) -> Failure {
    if said.contains("URL scheme is not allowed") {
        let reason = "the endpoint uses plain HTTP, which is only allowed if AWS_ALLOW_HTTP (GOOGLE_ALLOW_HTTP, AZURE_ALLOW_HTTP) is `true`";
        return Failure::new(ErrorKind::Caller, reason);
    }
    if said.contains("UnknownIssuer") {
        let reason = format!(
            "no certificate authority that this machine trusts issued the server's certificate; install its CA certificates. {said}"
        );
        return Failure::new(ErrorKind::Caller, reason);
    }
    // The addresses belong to the services that give cloud machines their credentials.
    if said.contains("169.254.169.254") || said.contains("metadata.google.internal") {
        let reason = format!(
            "found no credentials in the environment or from the cloud: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY \
             (or AWS_SKIP_SIGNATURE=true for a public bucket), GOOGLE_SERVICE_ACCOUNT, or AZURE_STORAGE_ACCOUNT_KEY. {said}"
        );
        return Failure::new(ErrorKind::Caller, reason);
    }
    Failure::peer(said)
}

/// Returns the message of `error` and of its causes. The text after a URL's `?` is hidden, because it may be
/// a signature.
fn said(error: &Error) -> String {
    let mut whole = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        let text = deeper.to_string();
        if !whole.contains(&text) {
            whole.push_str(": ");
            whole.push_str(&text);
        }
        cause = deeper.source();
    }
    let shown = without_secrets(&whole);
    let end = shown.floor_char_boundary(TEXT_MAX);
    let said = shown[..end].replace(char::is_control, " ");
    let is_cut = end < shown.len();
    format!("{said}{}", if is_cut { " ..." } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> Failure {
        Failure::from(Error::Generic {
            store: "S3",
            source: text.into(),
        })
    }

    #[test]
    fn signatures_and_pages_do_not_show_in_messages() {
        let failure = generic("GET http://host/key?signature=hush&more=hush in 1s: \n<html>");
        assert!(
            !failure.reason.contains("hush") && !failure.reason.contains('\n'),
            "{failure}"
        );
        assert!(failure.reason.contains("http://host/key?... in 1s"), "{failure}");
        assert!(generic(&"x".repeat(10_000)).reason.len() < 700);
    }

    #[test]
    fn missing_credentials_are_the_callers_fault() {
        for (text, hint) in [
            ("PUT http://169.254.169.254/latest/api/token", "AWS_ACCESS_KEY_ID"),
            ("builder error: URL scheme is not allowed", "AWS_ALLOW_HTTP"),
        ] {
            let failure = generic(text);
            assert_eq!(failure.kind, ErrorKind::Caller);
            assert!(failure.reason.contains(hint), "{failure}");
        }
        assert_eq!(generic("503").kind, ErrorKind::Peer);
    }
}
