//! A file of the dashboard that is a part of the program.

/// A file with its media type.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The media type, such as `text/html; charset=utf-8`.
    pub media_type: &'static str,
    /// The content.
    pub content: &'static [u8],
}
