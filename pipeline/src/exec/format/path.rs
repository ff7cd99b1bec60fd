//! Access to elements that are paths, for the operations that read the files at the paths.

use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::value::Tensor;

/// Returns the path that `item` holds, for the operation `op`.
pub(crate) fn path_of<'i>(op: &str, item: &'i Item) -> Result<&'i str, ExecError> {
    item.value
        .first()
        .and_then(Tensor::contiguous)
        .and_then(|path| std::str::from_utf8(path).ok())
        .ok_or_else(|| ExecError::new(ErrorKind::Value, op, "expected an element that is a path"))
}
