//! The one place where texts of the admin port lose their secrets: queries of signed URLs, and names of users
//! in URLs.

use std::borrow::Cow;

use millstream_pipeline::storage::without_secrets;

/// Returns a finished text, such as a JSON document, without secrets. A URL in JSON ends before the quote or
/// the escape that follows it, so JSON stays JSON.
pub(super) fn hidden(text: String) -> String {
    match without_secrets(&text) {
        Cow::Owned(shown) => shown,
        Cow::Borrowed(_) => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn signed_urls_lose_their_queries() {
        let url = "https://host/a.tar?X-Amz-Signature=0123abcd&X-Amz-Date=1";
        let document = json!({ "tasks": [{ "phase": format!("failed: cannot open {url}: gone"), "id": 7 }] });
        let text = hidden(document.to_string());
        assert!(!text.contains("0123abcd") && !text.contains("X-Amz"), "{text}");
        assert!(text.contains("https://host/a.tar?...: gone"), "{text}");
    }

    /// Returns texts that contain parts of URLs, quotes, escapes and other characters.
    fn texts() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("https://".to_owned()),
            Just("s3://".to_owned()),
            "[a-z/?#@:,\"\\\\ \n\u{7f}ä<>]{0,6}",
        ];
        proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    proptest! {
        /// Compares a whole document with the plain method, which hides the secrets of each text.
        #[test]
        fn whole_documents_hide_like_single_texts(texts in proptest::collection::vec(texts(), 0..4)) {
            let each: Vec<String> = texts.iter().cloned().map(hidden).collect();
            let whole = hidden(json!({ "texts": texts }).to_string());
            prop_assert_eq!(serde_json::from_str::<Value>(&whole).unwrap(), json!({ "texts": each }));
        }
    }
}
