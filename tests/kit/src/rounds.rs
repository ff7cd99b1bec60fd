//! The number of cases of a property test, which one environment variable multiplies for all tests.
//!
//! Does not know the content of a case.

use proptest::test_runner::Config;

/// The environment variable that multiplies the cases of every property test that states its number.
const FACTOR: &str = "MILLSTREAM_ROUNDS";

/// Returns the configuration of a property test that runs `cases` cases, times the variable
/// `MILLSTREAM_ROUNDS`.
///
/// A number of cases in the source overrides `PROPTEST_CASES`, which therefore reaches only tests without
/// one.
///
/// # Panics
/// If the variable is set to anything but a positive integer.
pub fn rounds(cases: u32) -> Config {
    Config {
        cases: cases.saturating_mul(factor(std::env::var(FACTOR).ok().as_deref())),
        ..Config::default()
    }
}

fn factor(text: Option<&str>) -> u32 {
    let Some(text) = text else { return 1 };
    match text.parse() {
        Ok(factor) if factor > 0 => factor,
        _ => panic!("{FACTOR} is {text:?}: expected a positive integer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_factor_changes_nothing() {
        assert_eq!(factor(None), 1);
        assert_eq!(factor(Some("20")), 20);
    }

    #[test]
    #[should_panic(expected = "expected a positive integer")]
    fn factor_of_zero_is_refused() {
        factor(Some("0"));
    }
}
