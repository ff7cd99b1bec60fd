//! The specs of operations on strings.

use millstream_element::{Dtype, TensorSpec};

use super::kinds::{is_float, is_integer, is_number, is_text, wants, with_dtype};
use super::shapes::{broadcast_all, tensor};
use super::text_op::{Text, TextUnit};

/// Returns the spec of the result of `text` for the operands `given`.
///
/// # Errors
/// The reason why the operands do not fit, as text.
pub(crate) fn text_spec(text: &Text, given: &[&TensorSpec]) -> Result<TensorSpec, String> {
    let of = given
        .first()
        .copied()
        .ok_or_else(|| "expected an operand, found none".to_owned())?;
    let dtype = of.dtype();
    if *text == Text::ToText {
        wants(
            is_number(dtype) || dtype == Dtype::Bool,
            "expected numbers or booleans",
        )?;
        return Ok(with_dtype(of, Dtype::String));
    }
    wants(is_text(dtype), "expected strings or byte strings")?;
    let chars = |unit: TextUnit| {
        let fits = unit == TextUnit::Bytes || dtype == Dtype::String;
        wants(
            fits,
            "byte strings have no characters: count bytes, or cast them to string",
        )
    };
    match text {
        Text::Lower | Text::Upper | Text::Strip => Ok(of.clone()),
        Text::Length(unit) => {
            chars(*unit)?;
            Ok(with_dtype(of, Dtype::I64))
        }
        Text::Substr(substr) => {
            chars(substr.unit)?;
            Ok(of.clone())
        }
        Text::Matches(..) => {
            wants(
                dtype == Dtype::String,
                "patterns match strings: cast byte strings to string",
            )?;
            Ok(with_dtype(of, Dtype::Bool))
        }
        Text::Replace(..) => {
            wants(
                dtype == Dtype::String,
                "patterns match strings: cast byte strings to string",
            )?;
            Ok(of.clone())
        }
        Text::Split(_) => {
            wants(
                of.dims().is_none_or(<[Option<u64>]>::is_empty),
                "expected one string: use split_ragged for several strings",
            )?;
            Ok(TensorSpec::with_dims(dtype, &[None]))
        }
        Text::JoinAxis(_) => match of.dims() {
            None => Ok(TensorSpec::unknown_rank(dtype)),
            Some([]) => Err("a scalar has no axis to join along".to_owned()),
            Some([rest @ .., _]) => Ok(TensorSpec::with_dims(dtype, rest)),
        },
        Text::Join(_) => Ok(tensor(dtype, broadcast_all(given)?)),
        Text::HashBucket(_) | Text::Lookup(_) => Ok(with_dtype(of, Dtype::I64)),
        Text::ToNumber(number) => {
            wants(
                is_integer(number.0) || is_float(number.0),
                "expected an integer or float (f16, bf16, f32, f64) as the dtype of the result",
            )?;
            Ok(with_dtype(of, number.0))
        }
        Text::ToText => Ok(with_dtype(of, Dtype::String)),
    }
}
