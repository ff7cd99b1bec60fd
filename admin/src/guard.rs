//! The rules of who may send a request to an admin port. Pure: it looks at the head of a request.
//!
//! A web page that an operator visits must not read the port through the operator's browser. Pages of other
//! sites are recognised by `Origin` and `Sec-Fetch-Site`, and names that an attacker points at this address
//! (DNS rebinding) by `Host`.

use std::net::{IpAddr, SocketAddr};

use hyper::{HeaderMap, Method, StatusCode, header};

use crate::token::AdminToken;

/// The rules of one port.
#[derive(Debug)]
pub(crate) struct Guard {
    token: Option<AdminToken>,
    /// The names under which operators reach the port, besides IP addresses and `localhost`.
    hosts: Vec<String>,
}

/// The reason why a request gets no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The method could change something, and nothing can be changed here.
    Method,
    /// The request names no host, or a host that is not this port.
    Host(String),
    /// A page of another site sent the request.
    CrossSite,
    /// The request presents no token, or a wrong one.
    Token,
}

impl Guard {
    pub(crate) fn new(token: Option<AdminToken>, hosts: Vec<String>) -> Guard {
        Guard { token, hosts }
    }

    /// Checks the head of a request. `is_open` states that the answer contains no data of the service.
    pub(crate) fn check(&self, method: &Method, headers: &HeaderMap, is_open: bool) -> Result<(), Refusal> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(Refusal::Method);
        }
        let host = only(headers, header::HOST).unwrap_or_default();
        if !self.is_own(host) {
            return Err(Refusal::Host(host.chars().take(64).collect()));
        }
        if is_cross_site(headers, host) {
            return Err(Refusal::CrossSite);
        }
        match &self.token {
            Some(token) if !is_open => match bearer(headers) {
                Some(presented) if token.is(presented) => Ok(()),
                Some(_) | None => Err(Refusal::Token),
            },
            Some(_) | None => Ok(()),
        }
    }

    /// Returns whether a value of `Host` names this port. An attacker's page has an attacker's name, so IP
    /// addresses are safe.
    fn is_own(&self, host: &str) -> bool {
        if host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok() {
            return true;
        }
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if bare.is_some_and(|address| address.parse::<IpAddr>().is_ok()) {
            return true;
        }
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "0"));
        let is_named = name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name));
        is_named && port.parse::<u16>().is_ok()
    }
}

impl Refusal {
    /// Returns the status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            Refusal::CrossSite => StatusCode::FORBIDDEN,
            Refusal::Token => StatusCode::UNAUTHORIZED,
        }
    }

    /// Returns the text of the answer, which names the remedy.
    pub(crate) fn text(&self) -> String {
        match self {
            Refusal::Method => {
                "only GET and HEAD are allowed, because nothing can be changed here".to_owned()
            }
            Refusal::Host(host) => format!(
                "the request is for the host {host:?}: use an IP address or localhost, or start the process with --admin-host and \
                 this name"
            ),
            Refusal::CrossSite => {
                "a page of another site sent the request: open this address in a tab of its own".to_owned()
            }
            Refusal::Token => "send the token of --admin-token-file: Authorization: Bearer TOKEN".to_owned(),
        }
    }
}

/// Returns a header's value, if the request has exactly one.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// Returns whether a page of another site sent the request. Programs that are no browsers send neither
/// header.
fn is_cross_site(headers: &HeaderMap, host: &str) -> bool {
    if headers.contains_key(header::ORIGIN) {
        let origin = only(headers, header::ORIGIN).unwrap_or_default();
        let authority = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        if authority.is_none_or(|authority| !authority.eq_ignore_ascii_case(host)) {
            return true;
        }
    }
    let name = header::HeaderName::from_static("sec-fetch-site");
    headers.contains_key(&name) && !matches!(only(headers, name), Some("same-origin" | "none"))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only(headers, header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&str, &str)| {
            (
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            )
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(header) {
            headers.append(name, value);
        }
        headers
    }

    fn open() -> Guard {
        Guard::new(None, vec!["mill.example".to_owned()])
    }

    fn checked(guard: &Guard, pairs: &[(&str, &str)]) -> Result<(), Refusal> {
        guard.check(&Method::GET, &headers(pairs), false)
    }

    #[test]
    fn own_names_and_addresses_are_answered() {
        for host in [
            "127.0.0.1:9",
            "127.0.0.1",
            "[::1]:9",
            "[::1]",
            "localhost",
            "LOCALHOST:9",
            "mill.example:80",
        ] {
            assert_eq!(checked(&open(), &[("host", host)]), Ok(()), "{host}");
        }
    }

    #[test]
    fn rebound_names_are_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:9",
            "localhost:x",
            "",
        ] {
            let refusal = checked(&open(), &[("host", host)]).unwrap_err();
            assert_eq!(refusal, Refusal::Host(host.to_owned()));
        }
        assert!(matches!(checked(&open(), &[]), Err(Refusal::Host(_))));
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert!(matches!(checked(&open(), &twice), Err(Refusal::Host(_))));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let host = ("host", "localhost:9");
        for own in [
            ("origin", "http://localhost:9"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "none"),
        ] {
            assert_eq!(checked(&open(), &[host, own]), Ok(()));
        }
        for foreign in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:10"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(
                checked(&open(), &[host, foreign]),
                Err(Refusal::CrossSite),
                "{foreign:?}"
            );
        }
    }

    #[test]
    fn only_open_answers_need_no_token() {
        let guard = Guard::new(Some(AdminToken::new(TOKEN).unwrap()), Vec::new());
        let host = ("host", "10.0.0.7:9");
        assert_eq!(guard.check(&Method::GET, &headers(&[host]), true), Ok(()));
        assert_eq!(checked(&guard, &[host]), Err(Refusal::Token));
        for value in [
            "Bearer 0123456789abcdeg",
            TOKEN,
            "Basic 0123456789abcdef",
            "Bearer",
        ] {
            assert_eq!(
                checked(&guard, &[host, ("authorization", value)]),
                Err(Refusal::Token)
            );
        }
        let right = format!("bearer {TOKEN}");
        assert_eq!(checked(&guard, &[host, ("authorization", &right)]), Ok(()));
        assert_eq!(
            checked(
                &guard,
                &[host, ("authorization", &right), ("authorization", &right)]
            ),
            Err(Refusal::Token)
        );
    }

    #[test]
    fn methods_that_change_are_refused() {
        let host = headers(&[("host", "localhost")]);
        for method in [
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
            Method::CONNECT,
        ] {
            assert_eq!(open().check(&method, &host, true), Err(Refusal::Method));
        }
        assert_eq!(open().check(&Method::HEAD, &host, true), Ok(()));
    }

    proptest! {
        /// Tests that names other than those of the port never pass, with or without a port number.
        #[test]
        fn arbitrary_names_are_refused(name in "[a-z0-9.-]{1,20}[a-z]", port in proptest::option::of(0_u16..)) {
            prop_assume!(name != "localhost" && name != "mill.example" && name.parse::<IpAddr>().is_err());
            let host = port.map_or(name.clone(), |port| format!("{name}:{port}"));
            prop_assert!(matches!(checked(&open(), &[("host", &host)]), Err(Refusal::Host(_))));
        }
    }
}
