//! Which reader a format has.

use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::iterate::Input;
use crate::exec::program::unprepared;
use crate::graph::Format;

use super::read::Read;
use super::reader::OpenFile;
#[cfg(feature = "webdataset")]
use super::webdataset::WebDataset;
#[cfg(feature = "records")]
use super::{fixed_length::FixedLength, tfrecord::TfRecord};

/// The operation that reads files of `format`.
pub(in crate::exec) fn reading(format: &Format, input: Input, shared: &Shared) -> Result<Input, ExecError> {
    Ok(Box::new(Read::new(format, opener(format)?, input, shared)))
}

fn opener(format: &Format) -> Result<Box<dyn OpenFile>, ExecError> {
    if let Format::TextLines = format {
        return Ok(Box::new(super::text_lines::TextLines));
    }
    #[cfg(feature = "records")]
    if let Format::TfRecord(params) = format {
        return Ok(Box::new(TfRecord(*params)));
    }
    #[cfg(feature = "records")]
    if let Format::FixedLength(params) = format {
        return Ok(Box::new(FixedLength(*params)));
    }
    #[cfg(feature = "webdataset")]
    if let Format::WebDataset(params) = format {
        return Ok(Box::new(WebDataset(params.clone())));
    }
    #[cfg(feature = "saved")]
    if let Format::Elements(params) = format {
        return Ok(Box::new(super::elements::Elements(params.clone())));
    }
    Err(unprepared(format.op_name()))
}

/// Whether this build has what reads `format`; if not, the feature that is missing.
pub(in crate::exec) fn missing_feature(format: &Format) -> Option<&'static str> {
    const BUILT_IN: &[&str] = &[
        #[cfg(feature = "records")]
        "records",
        #[cfg(feature = "webdataset")]
        "webdataset",
        #[cfg(feature = "saved")]
        "saved",
    ];
    format.feature().filter(|feature| !BUILT_IN.contains(feature))
}
