//! The query of a request: the numbers that select a part of a document.

/// The query of a request, such as `job=1001`.
#[derive(Clone, Copy, Debug)]
pub struct Query<'r>(&'r str);

impl<'r> Query<'r> {
    /// Wraps the text after the `?` of a request's path.
    pub fn new(text: &'r str) -> Query<'r> {
        Query(text)
    }

    /// Returns the value of a parameter, if it is present once and is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        let pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(found, _)| *found == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => value.parse().ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_single_numbers_count() {
        let number = |text| Query::new(text).number("job");
        assert_eq!(number("job=1001"), Some(1001));
        assert_eq!(number("a=1&job=7&b"), Some(7));
        for none in ["", "job", "job=", "job=x", "job=-1", "jobs=1", "job=1&job=2"] {
            assert_eq!(number(none), None, "{none}");
        }
    }
}
