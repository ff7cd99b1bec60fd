//! The form in which messages show URLs: without the parts that may be secrets.

use std::borrow::Cow;

/// The text that stands for a hidden part.
const HIDDEN: &str = "...";

/// Returns a text in which URLs show neither their users nor, if they are URLs of servers, their queries. The
/// query of a signed URL permits its reader to open the file.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let before = &rest.as_bytes()[..at];
        let is_server = ["http", "https"].iter().any(|scheme| {
            let begin = at.saturating_sub(scheme.len());
            before[begin..].eq_ignore_ascii_case(scheme.as_bytes())
        });
        let begin = at + "://".len();
        let url = &rest[begin..];
        let url = &url[..url.find(ends_url).unwrap_or(url.len())];
        shown.push_str(&rest[..begin]);
        shown.push_str(&without_parts(url, is_server));
        rest = &rest[begin + url.len()..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Hides the parts of the text after the `://` of a URL.
fn without_parts(url: &str, is_server: bool) -> String {
    let host = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, path) = url.split_at(host);
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => authority.to_owned(),
    };
    // Elsewhere a question mark stands for any character of a name.
    let Some((path, query)) = path.split_once('?').filter(|_| is_server) else {
        return format!("{authority}{path}");
    };
    // The sentence around the URL continues after its query.
    let query_bytes = query.trim_end_matches([':', ',', ';', '.', ')', ']']).len();
    let after = &query[query_bytes..];
    match query_bytes {
        0 => format!("{authority}{path}?{after}"),
        _ => format!("{authority}{path}?{HIDDEN}{after}"),
    }
}

/// Returns whether a character cannot be a part of a URL, so that the URL ends before it.
fn ends_url(character: char) -> bool {
    character.is_whitespace()
        || character.is_control()
        || matches!(character, '"' | '\'' | '<' | '>' | '`' | '\\')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn queries_of_servers_and_users_are_hidden() {
        for (text, expected) in [
            ("nothing?here", "nothing?here"),
            ("https://h/a?sig=1", "https://h/a?..."),
            (
                "cannot open HTTPS://h/a?b=c&d=e: gone",
                "cannot open HTTPS://h/a?...: gone",
            ),
            (
                "(https://h/a?sig=1), http://h?x",
                "(https://h/a?...), http://h?...",
            ),
            (
                "\"https://h/a?b\" and 'https://h/c'",
                "\"https://h/a?...\" and 'https://h/c'",
            ),
            ("s3://bucket/a?.tar", "s3://bucket/a?.tar"),
            ("etcd://name:word@h:1/p", "etcd://...@h:1/p"),
            ("https://h/a?", "https://h/a?"),
        ] {
            assert_eq!(without_secrets(text), expected);
        }
    }

    proptest! {
        /// Tests that a signature never stays, whatever stands around its URL.
        #[test]
        fn signatures_never_stay(before in ".{0,20}", path in "[a-z/]{0,9}", after in "[ \"'<].{0,20}") {
            let text = format!("{before} https://host/{path}?X-Amz-Signature=0123456789{after}");
            prop_assert!(!without_secrets(&text).contains("0123456789"));
        }
    }
}
