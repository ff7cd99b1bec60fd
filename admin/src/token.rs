//! The secret that readers of an admin port beyond loopback present.

use std::fmt;
use std::path::Path;

/// The minimum number of characters of a token. A random token of 16 characters cannot be guessed.
const CHARS_MIN: usize = 16;
/// The maximum number of characters of a token, so that a request's head has room for it.
const CHARS_MAX: usize = 1024;

/// A bearer token. Its text is never printed.
#[derive(Clone)]
pub struct AdminToken(String);

impl AdminToken {
    /// Makes a token of 16 to 1024 visible ASCII characters.
    ///
    /// # Errors
    /// [`TokenError`] names the broken rule, and not the text.
    pub fn new(text: impl Into<String>) -> Result<AdminToken, TokenError> {
        let text = text.into();
        if !(CHARS_MIN..=CHARS_MAX).contains(&text.len()) {
            return Err(TokenError::Length(text.len()));
        }
        match text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(AdminToken(text)),
            false => Err(TokenError::Characters),
        }
    }

    /// Reads a token from the first line of a file.
    ///
    /// # Errors
    /// [`TokenError`] if the file cannot be read or has no token.
    pub fn from_file(path: &Path) -> Result<AdminToken, TokenError> {
        let text = std::fs::read_to_string(path).map_err(TokenError::File)?;
        AdminToken::new(text.lines().next().unwrap_or_default().trim())
    }

    /// Returns whether a request presents this token. The time does not depend on the first wrong character.
    pub(crate) fn is(&self, presented: &str) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(self.0.as_bytes(), presented.as_bytes()).is_ok()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AdminToken(..)")
    }
}

/// The reason why a text is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("{0}; name a file that this user may read")]
    File(std::io::Error),
    /// The text is too short or too long.
    #[error(
        "the token has {0} characters: expected 16 to 1024, for example the output of `openssl rand -hex 16`"
    )]
    Length(usize),
    /// The text has a character that a header cannot contain.
    #[error("the token contains a space or a character that is not visible ASCII: use letters and digits")]
    Characters,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_invisible_tokens_are_refused() {
        assert!(matches!(AdminToken::new("short"), Err(TokenError::Length(5))));
        assert!(matches!(
            AdminToken::new("a".repeat(1025)),
            Err(TokenError::Length(1025))
        ));
        assert!(matches!(
            AdminToken::new("sixteen chars ..."),
            Err(TokenError::Characters)
        ));
    }

    #[test]
    fn tokens_are_never_printed() {
        let token = AdminToken::new("0123456789abcdef").unwrap();
        assert!(!format!("{token:?}").contains("0123"));
        assert!(token.is("0123456789abcdef") && !token.is("0123456789abcdeg") && !token.is(""));
    }

    #[test]
    fn a_files_first_line_is_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef \nrest\n").unwrap();
        assert!(AdminToken::from_file(&path).unwrap().is("0123456789abcdef"));
        assert!(matches!(
            AdminToken::from_file(folder.path()),
            Err(TokenError::File(_))
        ));
    }
}
