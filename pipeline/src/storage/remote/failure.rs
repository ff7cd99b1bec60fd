//! Messages for the errors of a store's client.

use std::fmt;

use object_store::Error;

use crate::exec::ErrorKind;

/// Characters of what a client says that are passed on: some servers answer with pages.
const TEXT_MAX: usize = 600;

/// Why a store gave no answer, and who is to blame.
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

    /// The server did not do as it should.
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
                Failure::new(ErrorKind::NotFound, "there is no such bucket")
            }
            Error::NotFound { .. } => Failure::new(ErrorKind::NotFound, "there is no such object"),
            Error::PermissionDenied { .. } => Failure::new(
                ErrorKind::Caller,
                format!(
                    "the store refuses access; are the credentials right, and may they read this? {said}"
                ),
            ),
            Error::Unauthenticated { .. } => Failure::new(
                ErrorKind::Caller,
                format!(
                    "the store wants credentials, or others; they are taken from the environment. {said}"
                ),
            ),
            Error::Precondition { .. } => Failure::new(
                ErrorKind::Data,
                "the object was changed while it was read: start over",
            ),
            Error::InvalidPath { .. } => Failure::new(
                ErrorKind::Caller,
                format!("the name of the object is none that can be asked for: {said}"),
            ),
            Error::UnknownConfigurationKey { key, .. } => Failure::new(
                ErrorKind::Caller,
                format!("there is no option {key:?} of this store"),
            ),
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

/// Those that a client has one kind for.
fn general(said: String) -> Failure {
    if said.contains("URL scheme is not allowed") {
        let reason = "the endpoint is plain HTTP, which is only spoken if AWS_ALLOW_HTTP (GOOGLE_ALLOW_HTTP, AZURE_ALLOW_HTTP) is `true`";
        return Failure::new(ErrorKind::Caller, reason);
    }
    if said.contains("UnknownIssuer") {
        let reason = format!(
            "the server's certificate is of nobody that this machine trusts; are its certificates of authorities installed? {said}"
        );
        return Failure::new(ErrorKind::Caller, reason);
    }
    // The address of the service that tells machines of a cloud who they are.
    if said.contains("169.254.169.254") || said.contains("metadata.google.internal") {
        let reason = format!(
            "the environment has no credentials, and this machine is given none: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY \
             (or AWS_SKIP_SIGNATURE=true for a public bucket), GOOGLE_SERVICE_ACCOUNT, or AZURE_STORAGE_ACCOUNT_KEY. {said}"
        );
        return Failure::new(ErrorKind::Caller, reason);
    }
    Failure::peer(said)
}

/// Returns the text of `error` and of its causes, without the text after a URL's `?`, which may be a
/// signature.
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
    let mut said = String::new();
    for word in whole.split_inclusive(|c: char| c.is_whitespace() || c.is_control()) {
        match word.split_once('?') {
            Some((shown, query)) if shown.contains("://") => {
                said.push_str(shown);
                said.push_str("?...");
                let is_last = !query.ends_with(char::is_whitespace);
                said.push_str(if is_last { "" } else { " " });
            }
            Some(_) | None => said.extend(word.chars().map(|c| if c.is_control() { ' ' } else { c })),
        }
        if said.len() > TEXT_MAX {
            let end = (0..=TEXT_MAX).rev().find(|end| said.is_char_boundary(*end));
            said.truncate(end.unwrap_or_default());
            said.push_str(" ...");
            break;
        }
    }
    said
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
