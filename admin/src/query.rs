//! The query of a request: the numbers that select a part of a document.

/// Maximum number of characters of a value that an error repeats.
const VALUE_CHARS_MAX: usize = 64;

/// The query of a request, such as `job=1001`.
#[derive(Clone, Copy, Debug)]
pub struct Query<'r>(&'r str);

impl<'r> Query<'r> {
    /// Wraps the text after the `?` of a request's path.
    pub fn new(text: &'r str) -> Query<'r> {
        Query(text)
    }

    /// Returns the value of a parameter that is a number, or `None` without the parameter.
    ///
    /// # Errors
    /// [`QueryError`] if the value of the parameter cannot be read as a number, or the parameter occurs
    /// several times.
    pub fn number(&self, name: &'static str) -> Result<Option<u64>, QueryError> {
        let pairs = self.0.split('&');
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let mut values = pairs.filter(|(found, _)| *found == name);
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(_), Some(_)) => Err(QueryError::Repeated(name)),
            (Some((_, value)), None) => {
                let invalid = |_| QueryError::Invalid {
                    name,
                    value: value.chars().take(VALUE_CHARS_MAX).collect(),
                };
                value.parse().map(Some).map_err(invalid)
            }
        }
    }
}

/// The reason why a query selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The value cannot be read as a number.
    #[error("invalid {name} {value:?}: expected a number, such as {name}=1001")]
    Invalid {
        /// The name of the parameter.
        name: &'static str,
        /// The start of the value.
        value: String,
    },
    /// The parameter occurs several times.
    #[error("the query has several values of {0}: send one request for each of them")]
    Repeated(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_single_numbers_count() {
        let number = |text| Query::new(text).number("job");
        assert_eq!(number("job=1001"), Ok(Some(1001)));
        assert_eq!(number("a=1&job=7&b"), Ok(Some(7)));
        for none in ["", "jobs=1", "a&b=2"] {
            assert_eq!(number(none), Ok(None), "{none}");
        }
        for (text, value) in [("job", ""), ("job=", ""), ("job=abc", "abc"), ("job=-1&a", "-1")] {
            let error = number(text).unwrap_err().to_string();
            let expected = format!("invalid job {value:?}: expected a number, such as job=1001");
            assert_eq!(error, expected);
        }
        assert_eq!(number("job=1&job=2"), Err(QueryError::Repeated("job")));
        let long = format!("job={}", "x".repeat(10_000));
        assert!(Query::new(&long).number("job").unwrap_err().to_string().len() < 200);
    }
}
