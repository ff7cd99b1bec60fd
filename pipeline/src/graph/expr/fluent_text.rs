//! The fluent way to write what is made of text.

use millstream_element::Dtype;

use super::dtype_field::DtypeField;
use super::expression::Expr;
use super::op::ExprOp;
use super::text_op::{Lookup, Split, Substr, Text, TextUnit};

/// The strings as one, with `separator` between them; shapes broadcast, as with `tf.strings.join`.
pub fn joined(exprs: impl IntoIterator<Item = Expr>, separator: impl Into<String>) -> Expr {
    Expr::of(ExprOp::Text(Text::Join(separator.into())), exprs)
}

impl Expr {
    /// In lower case: of strings all letters, of byte strings those of ASCII.
    #[must_use]
    pub fn lower(self) -> Expr {
        self.text(Text::Lower)
    }

    /// In upper case: of strings all letters, of byte strings those of ASCII.
    #[must_use]
    pub fn upper(self) -> Expr {
        self.text(Text::Upper)
    }

    /// Without the white space at both ends.
    #[must_use]
    pub fn strip(self) -> Expr {
        self.text(Text::Strip)
    }

    /// The lengths of strings, `i64`.
    #[must_use]
    pub fn text_len(self, unit: TextUnit) -> Expr {
        self.text(Text::Length(unit))
    }

    /// `length` bytes or characters, or what there is of them, from `start` on, which counts from the end if
    /// it is negative. A `start` outside is an error of the element, as is a cut within a character of a
    /// string.
    #[must_use]
    pub fn substr(self, start: i64, length: u64, unit: TextUnit) -> Expr {
        self.text(Text::Substr(Substr { start, length, unit }))
    }

    /// Returns whether `pattern` matches the whole string, as `tf.strings.regex_full_match`. Syntax of the
    /// crate `regex`: linear time, no look-around, no back references.
    #[must_use]
    pub fn regex_full_match(self, pattern: impl Into<String>) -> Expr {
        self.text(Text::Matches(pattern.into(), true))
    }

    /// Returns whether `pattern` matches anything in the string.
    #[must_use]
    pub fn regex_contains(self, pattern: impl Into<String>) -> Expr {
        self.text(Text::Matches(pattern.into(), false))
    }

    /// Replaces every match of `pattern`. In `rewrite`, `$1` and `${name}` stand for matched groups, and `$$`
    /// for a dollar sign.
    #[must_use]
    pub fn regex_replace(self, pattern: impl Into<String>, rewrite: impl Into<String>) -> Expr {
        self.text(Text::Replace(pattern.into(), rewrite.into(), true))
    }

    /// Replaces the first match of `pattern`, else as [`Expr::regex_replace`].
    #[must_use]
    pub fn regex_replace_first(self, pattern: impl Into<String>, rewrite: impl Into<String>) -> Expr {
        self.text(Text::Replace(pattern.into(), rewrite.into(), false))
    }

    /// The parts of a scalar string between `separator`s, as a vector; without a separator the words between
    /// white space, of which an empty string has none.
    #[must_use]
    pub fn split(self, separator: Option<&str>) -> Expr {
        self.text(Text::Split(Split {
            separator: separator.map(str::to_owned),
            cuts_max: None,
        }))
    }

    /// Splits as [`Expr::split`], with at most `cuts_max` cuts, from the left.
    #[must_use]
    pub fn split_at_most(self, separator: Option<&str>, cuts_max: u64) -> Expr {
        self.text(Text::Split(Split {
            separator: separator.map(str::to_owned),
            cuts_max: Some(cuts_max),
        }))
    }

    /// The strings along the last axis as one, with `separator` between them.
    #[must_use]
    pub fn join(self, separator: impl Into<String>) -> Expr {
        self.text(Text::JoinAxis(separator.into()))
    }

    /// A number below `buckets` for each string, `i64`: the first eight bytes of its SipHash-2-4 under a key
    /// of zeros, modulo `buckets`. The same on every machine and in every version.
    #[must_use]
    pub fn hash_bucket(self, buckets: u64) -> Expr {
        self.text(Text::HashBucket(buckets))
    }

    /// The number of each string in `words`, from 0, `i64`; `other` for those that are not in it, which
    /// without one are an error of the element.
    #[must_use]
    pub fn lookup<W: Into<Vec<u8>>>(self, words: impl IntoIterator<Item = W>, other: Option<i64>) -> Expr {
        self.looked_up(words, other, 0)
    }

    /// The number of each string in `words`; what is not in it is hashed into `buckets` numbers behind them,
    /// as [`Expr::hash_bucket`] does.
    #[must_use]
    pub fn lookup_hashed<W: Into<Vec<u8>>>(self, words: impl IntoIterator<Item = W>, buckets: u64) -> Expr {
        self.looked_up(words, None, buckets)
    }

    /// The number that each string is in decimal notation, white space around it aside: an integer or a
    /// float. What is no number, or does not fit, is an error of the element.
    #[must_use]
    pub fn to_number(self, dtype: Dtype) -> Expr {
        self.text(Text::ToNumber(DtypeField(dtype)))
    }

    /// Numbers and truths as text: the shortest decimal notation that reads as the same number; `true` and
    /// `false`.
    #[must_use]
    pub fn to_text(self) -> Expr {
        self.text(Text::ToText)
    }

    fn looked_up<W: Into<Vec<u8>>>(
        self,
        words: impl IntoIterator<Item = W>,
        other: Option<i64>,
        buckets: u64,
    ) -> Expr {
        let words = words.into_iter().map(|word| word.into().into()).collect();
        self.text(Text::Lookup(Lookup {
            words,
            other,
            buckets,
        }))
    }

    fn text(self, text: Text) -> Expr {
        Expr::of(ExprOp::Text(text), [self])
    }
}
