//! The call of `parse_int`, which converts decimal text to an `i64`. The `cls` entries of WebDataset shards
//! are such text.

use millstream_element::ElementSpec;

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::{Tensor, Value};
use crate::graph::{ParseInt, column_of};

pub(crate) struct ParseIntCall {
    /// The index of the component in the element.
    component: usize,
}

impl ParseIntCall {
    pub(crate) fn new(parse: &ParseInt, input: &ElementSpec) -> Result<ParseIntCall, ExecError> {
        let component = column_of(&parse.component, input)
            .map_err(|reason| ExecError::new(ErrorKind::Caller, "parse_int", reason))?;
        Ok(ParseIntCall { component })
    }
}

impl Call for ParseIntCall {
    fn name(&self) -> &str {
        "parse_int"
    }

    fn call(&self, mut value: Value, _: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let failed = |message: String| ExecError::new(ErrorKind::Value, "parse_int", message);
        let tensor = value
            .get_mut(self.component)
            .ok_or_else(|| failed("the component is missing".to_owned()))?;
        let text = tensor
            .contiguous()
            .ok_or_else(|| failed("expected a scalar in the component".to_owned()))?;
        let parsed = std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.trim().parse::<i64>().ok());
        // A short prefix suffices to identify the text.
        let shown = || String::from_utf8_lossy(&text[..text.len().min(32)]).into_owned();
        let number = parsed.ok_or_else(|| {
            failed(format!(
                "expected a decimal number of 64 bits, found {:?}",
                shown()
            ))
        })?;
        *tensor = Tensor::i64(number);
        Ok(Some(value))
    }
}
