//! Methods that build expressions on text.

use millstream_element::Dtype;

use super::dtype_field::DtypeField;
use super::expression::Expr;
use super::op::ExprOp;
use super::text_op::{Lookup, Split, Substr, Text, TextUnit};

/// Joins strings item by item, with `separator` between them. Shapes broadcast, as in `tf.strings.join`.
pub fn joined(exprs: impl IntoIterator<Item = Expr>, separator: impl Into<String>) -> Expr {
    Expr::of(ExprOp::Text(Text::Join(separator.into())), exprs)
}

impl Expr {
    /// Converts text to lower case: all letters of strings, only ASCII letters of byte strings.
    #[must_use]
    pub fn lower(self) -> Expr {
        self.text(Text::Lower)
    }

    /// Converts text to upper case: all letters of strings, only ASCII letters of byte strings.
    #[must_use]
    pub fn upper(self) -> Expr {
        self.text(Text::Upper)
    }

    /// Removes white space at both ends.
    #[must_use]
    pub fn strip(self) -> Expr {
        self.text(Text::Strip)
    }

    /// Returns the lengths of strings as `i64`, in bytes or characters.
    #[must_use]
    pub fn text_len(self, unit: TextUnit) -> Expr {
        self.text(Text::Length(unit))
    }

    /// Returns `length` bytes or characters from `start` on, or fewer at the end of the string. A negative
    /// `start` counts from the end. A `start` outside of the string is an error of the element. A cut within
    /// a character of a string is an error too.
    #[must_use]
    pub fn substr(self, start: i64, length: u64, unit: TextUnit) -> Expr {
        self.text(Text::Substr(Substr { start, length, unit }))
    }

    /// Returns whether `pattern` matches the whole string, as `tf.strings.regex_full_match`. The syntax is
    /// that of the crate `regex`: linear time, no look-around, no back references.
    #[must_use]
    pub fn regex_full_match(self, pattern: impl Into<String>) -> Expr {
        self.text(Text::Matches(pattern.into(), true))
    }

    /// Returns whether `pattern` matches any part of the string.
    #[must_use]
    pub fn regex_contains(self, pattern: impl Into<String>) -> Expr {
        self.text(Text::Matches(pattern.into(), false))
    }

    /// Replaces every match of `pattern` by `rewrite`. In `rewrite`, `$1` and `${name}` are replaced by the
    /// matched groups, and `$$` by a dollar sign.
    #[must_use]
    pub fn regex_replace(self, pattern: impl Into<String>, rewrite: impl Into<String>) -> Expr {
        self.text(Text::Replace(pattern.into(), rewrite.into(), true))
    }

    /// Replaces the first match of `pattern`, with the rules of [`Expr::regex_replace`].
    #[must_use]
    pub fn regex_replace_first(self, pattern: impl Into<String>, rewrite: impl Into<String>) -> Expr {
        self.text(Text::Replace(pattern.into(), rewrite.into(), false))
    }

    /// Splits a scalar string at each `separator` into a vector. If `separator` is `None`, the string is
    /// split into words at white space, and an empty string has no words.
    #[must_use]
    pub fn split(self, separator: Option<&str>) -> Expr {
        self.text(Text::Split(Split {
            separator: separator.map(str::to_owned),
            cuts_max: None,
        }))
    }

    /// Splits as [`Expr::split`], but at most `cuts_max` times, from the left.
    #[must_use]
    pub fn split_at_most(self, separator: Option<&str>, cuts_max: u64) -> Expr {
        self.text(Text::Split(Split {
            separator: separator.map(str::to_owned),
            cuts_max: Some(cuts_max),
        }))
    }

    /// Joins the strings along the last axis, with `separator` between them.
    #[must_use]
    pub fn join(self, separator: impl Into<String>) -> Expr {
        self.text(Text::JoinAxis(separator.into()))
    }

    /// Returns a number below `buckets` for each string, as `i64`.
    ///
    /// The number is the first eight bytes of the string's SipHash-2-4 under a key of zeros, modulo
    /// `buckets`. Every machine and every version computes the same number.
    #[must_use]
    pub fn hash_bucket(self, buckets: u64) -> Expr {
        self.text(Text::HashBucket(buckets))
    }

    /// Returns the index of each string in `words`, as `i64`. A string that is not in `words` becomes
    /// `other`; if `other` is `None`, the string is an error of the element.
    #[must_use]
    pub fn lookup<W: Into<Vec<u8>>>(self, words: impl IntoIterator<Item = W>, other: Option<i64>) -> Expr {
        self.looked_up(words, other, 0)
    }

    /// Returns the index of each string in `words`. A string that is not in `words` is hashed into one of
    /// `buckets` numbers above the indices, as [`Expr::hash_bucket`] hashes.
    #[must_use]
    pub fn lookup_hashed<W: Into<Vec<u8>>>(self, words: impl IntoIterator<Item = W>, buckets: u64) -> Expr {
        self.looked_up(words, None, buckets)
    }

    /// Parses each string as a decimal integer or float, and ignores white space around it. Text that is not
    /// a number, or does not fit the dtype, is an error of the element.
    #[must_use]
    pub fn to_number(self, dtype: Dtype) -> Expr {
        self.text(Text::ToNumber(DtypeField(dtype)))
    }

    /// Formats numbers and booleans as text. A number becomes the shortest decimal notation that parses as
    /// the same number; a boolean becomes `true` or `false`.
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
