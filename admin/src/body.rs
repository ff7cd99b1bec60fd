//! The bodies of answers.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The body of an answer: one text, or events without end.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Returns a body that is known as a whole.
pub(crate) fn whole(content: impl Into<Bytes>) -> Body {
    Full::new(content.into()).boxed_unsync()
}
