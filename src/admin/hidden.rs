//! The one place where texts of the admin port lose their secrets: queries of signed URLs, and names of users
//! in URLs.

use std::borrow::Cow;

use millstream_pipeline::storage::without_secrets;
use serde_json::Value;

/// Returns a document whose texts contain no secrets. Names of fields stay, because the program itself chose
/// them.
pub(super) fn hidden(mut document: Value) -> Value {
    hide(&mut document);
    document
}

fn hide(document: &mut Value) {
    match document {
        Value::String(text) => {
            if let Cow::Owned(shown) = without_secrets(text) {
                *text = shown;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(hide),
        Value::Object(fields) => fields.values_mut().for_each(hide),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn signed_urls_lose_their_queries() {
        let url = "https://host/a.tar?X-Amz-Signature=0123abcd&X-Amz-Date=1";
        let document = json!({ "tasks": [{ "phase": format!("failed: cannot open {url}: gone"), "id": 7 }] });
        let text = hidden(document).to_string();
        assert!(!text.contains("0123abcd") && !text.contains("X-Amz"), "{text}");
        assert!(text.contains("https://host/a.tar?...: gone"), "{text}");
    }
}
