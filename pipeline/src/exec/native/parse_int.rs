//! `parse_int`: decimal text, as the `cls` entries of WebDataset shards, becomes an `i64`.

use millstream_element::ElementSpec;

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::{Tensor, Value};
use crate::graph::{ParseInt, column_of};

pub(crate) struct ParseIntCall {
    /// The component's place in the element.
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
        let failed = |message: String| ExecError::new(ErrorKind::Data, "parse_int", message);
        let tensor = value
            .get_mut(self.component)
            .ok_or_else(|| failed("the component is missing".to_owned()))?;
        let text = tensor
            .contiguous()
            .ok_or_else(|| failed("the component is no scalar".to_owned()))?;
        let parsed = std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.trim().parse::<i64>().ok());
        // Enough of it to recognise it by.
        let shown = || String::from_utf8_lossy(&text[..text.len().min(32)]).into_owned();
        let number =
            parsed.ok_or_else(|| failed(format!("{:?} is not a decimal number of 64 bits", shown())))?;
        *tensor = Tensor::i64(number);
        Ok(Some(value))
    }
}
