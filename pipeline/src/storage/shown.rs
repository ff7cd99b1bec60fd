//! The form in which messages show URLs: without the parts that may be secrets.

use std::borrow::Cow;

/// The text that stands for a hidden part.
const HIDDEN: &str = "...";

/// The text between the scheme and the rest of a URL.
const SCHEME_END: &str = "://";

/// Returns a text in which URLs show neither their users nor, if they are URLs of servers, their queries. The
/// query of a signed URL permits its reader to open the file.
///
/// A password may contain characters that end a host, and a URL may follow another without a separator. A
/// text then has several meanings, and the one counts that hides most.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    if !text.contains(SCHEME_END) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    // The text before `copied` is shown already.
    let mut copied = 0;
    while let Some(length) = text[copied..].find(SCHEME_END) {
        let begin = copied + length + SCHEME_END.len();
        let is_server = ends_with_server(&text[..begin]);
        shown.push_str(&text[copied..begin]);
        let url = &text[begin..];
        let url = &url[..url.find(ends_url).unwrap_or(url.len())];
        copied = begin + push_without_parts(&mut shown, url, is_server);
    }
    shown.push_str(&text[copied..]);
    Cow::Owned(shown)
}

/// Returns whether a text ends with `http://` or `https://`.
fn ends_with_server(text: &str) -> bool {
    let text = text.as_bytes();
    ["http://", "https://"].iter().any(|scheme| {
        let begin = text.len().saturating_sub(scheme.len());
        text[begin..].eq_ignore_ascii_case(scheme.as_bytes())
    })
}

/// Adds the text after the `://` of a URL without its secrets. Returns the number of bytes of the URL, which
/// ends before the `://` of a URL that follows without a separator.
fn push_without_parts(shown: &mut String, url: &str, is_server: bool) -> usize {
    let user = user_bytes(url);
    let mut is_server = is_server;
    if let Some(user) = user {
        let hidden = &url[..user];
        let ends = hidden.match_indices(SCHEME_END);
        is_server |= ends
            .into_iter()
            .any(|(at, end)| ends_with_server(&hidden[..at + end.len()]));
        if is_server && hidden.contains('?') {
            // The text after the `@` may belong to the query.
            shown.push_str(HIDDEN);
            shown.push_str(after_query(url));
            return url.len();
        }
        shown.push_str(HIDDEN);
    }
    let begin = user.unwrap_or(0);
    let rest = &url[begin..];
    // Elsewhere a question mark stands for any character of a name.
    let query = rest.find('?').filter(|_| is_server);
    let next = rest.find(SCHEME_END);
    match (query, next) {
        (Some(query), next) if next.is_none_or(|next| query < next) => {
            let (path, query) = rest.split_at(query + 1);
            let after = after_query(query);
            shown.push_str(path);
            if after.len() < query.len() {
                shown.push_str(HIDDEN);
            }
            shown.push_str(after);
            url.len()
        }
        (_, next) => {
            let length = next.unwrap_or(rest.len());
            shown.push_str(&rest[..length]);
            begin + length
        }
    }
}

/// Returns the number of bytes of a URL's user and password, which end before an `@`.
///
/// The user cannot contain characters that end a host. A password may contain them, and then looks like the
/// port of a host.
fn user_bytes(url: &str) -> Option<usize> {
    let host = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    match host.contains(':') {
        true => url.rfind('@'),
        false => host.rfind('@'),
    }
}

/// Returns the end of a query that belongs to the sentence around the URL.
fn after_query(query: &str) -> &str {
    &query[query.trim_end_matches([':', ',', ';', '.', ')', ']']).len()..]
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
            ("https://h/a?, s3://b/c", "https://h/a?, s3://b/c"),
            ("hf://datasets/a/b@main/c", "hf://datasets/a/b@main/c"),
            ("ssh://git@h/a@v1", "ssh://...@h/a@v1"),
        ] {
            assert_eq!(without_secrets(text), expected);
        }
    }

    #[test]
    fn urls_without_separator_are_hidden() {
        for (text, expected) in [
            ("s3://b/c,https://h/a?sig=1", "s3://b/c,https://h/a?..."),
            ("https://h/a,https://u:word@g/b", "https://h/a,https://...@g/b"),
            ("https://h/a,https://u@g/b", "https://h/a,https://...@g/b"),
            (
                "etcd://u:word@h,https://g/b?sig=1",
                "etcd://...@h,https://g/b?...",
            ),
            ("https://h/a?next=https://g/b?sig=1", "https://h/a?..."),
            ("s3://bhttp://h/a?sig=1", "s3://bhttp://h/a?..."),
        ] {
            assert_eq!(without_secrets(text), expected, "{text}");
        }
    }

    #[test]
    fn passwords_with_ends_of_hosts_are_hidden() {
        for (text, expected) in [
            ("https://u:wo/rd@h/a", "https://...@h/a"),
            ("etcd://u:wo?rd@h:1/p", "etcd://...@h:1/p"),
            ("s3://u:wo#rd@h/a: gone", "s3://...@h/a: gone"),
            ("https://u:wo@r/d@h/a", "https://...@h/a"),
            ("https://u:w://rd@h/a?sig=1", "https://...@h/a?..."),
            // The query of a server may contain an `@` as well.
            ("https://u:wo?rd@h/a, gone", "https://..., gone"),
            ("https://h:80/a?to=me@b&sig=1", "https://..."),
        ] {
            assert_eq!(without_secrets(text), expected, "{text}");
        }
    }

    proptest! {
        /// Tests that a password never stays, whatever it contains and whatever stands around its URL.
        #[test]
        fn passwords_never_stay(
            before in "(.{0,20} |[a-z:/?#@,]{0,9})",
            scheme in "(https|s3|etcd)",
            password in "[a-z:/?#@,]{0,3}",
            after in "([a-z:/?#@,&=]{0,9}| .{0,20})",
        ) {
            let text = format!("{before}{scheme}://user:{password}0123456789{password}@host{after}");
            let shown = without_secrets(&text);
            prop_assert!(!shown.contains("0123456789"), "{}", shown);
        }

        /// Tests that texts are hidden once: a hidden text does not change again.
        #[test]
        fn hidden_texts_stay(text in "[a-z:/?#@,. ]{0,30}(https|s3)://[a-z:/?#@,. ]{0,30}") {
            let shown = without_secrets(&text).into_owned();
            prop_assert_eq!(without_secrets(&shown), shown.as_str());
        }

        /// Tests that a signature never stays, whatever stands around its URL.
        #[test]
        fn signatures_never_stay(
            before in "(.{0,20} |[a-z:/?#@,]{0,20}|s3://[a-z/]{0,9},)",
            path in "[a-z/@]{0,9}",
            after in "([ \"'<].{0,20}|[a-z:/?#@,&=]{0,9})",
        ) {
            let text = format!("{before}https://host/{path}?X-Amz-Signature=0123456789{after}");
            prop_assert!(!without_secrets(&text).contains("0123456789"));
        }
    }
}
