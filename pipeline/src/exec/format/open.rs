//! The choice of a format's reader.

use millstream_element::ElementSpec;

use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::iterate::Input;
use crate::exec::program::unprepared;
use crate::graph::Format;

use super::image_folder::ImageFolder;
use super::read::Read;
use super::reader::OpenFile;
#[cfg(feature = "arrow")]
use super::tables::{Arrow, Parquet, Tables};
#[cfg(feature = "webdataset")]
use super::webdataset::WebDataset;
#[cfg(feature = "records")]
use super::{fixed_length::FixedLength, tfrecord::TfRecord};

/// Returns the operation that reads files of `format` and yields elements of `spec`.
pub(crate) fn reading(
    format: &Format,
    spec: &ElementSpec,
    input: Input,
    shared: &Shared,
) -> Result<Input, ExecError> {
    Ok(Box::new(Read::new(
        format,
        opener(format, spec, shared)?,
        input,
        shared,
    )))
}

#[cfg_attr(
    not(any(feature = "arrow", feature = "mds", feature = "numpy")),
    expect(
        unused_variables,
        reason = "without the features no format is compared with the spec"
    )
)]
fn opener(format: &Format, spec: &ElementSpec, shared: &Shared) -> Result<Box<dyn OpenFile>, ExecError> {
    if let Format::TextLines = format {
        return Ok(Box::new(super::text_lines::TextLines));
    }
    if let Format::ImageFolder(params) = format {
        return Ok(Box::new(ImageFolder::new(params, &shared.storage)));
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
    #[cfg(feature = "csv")]
    if let Format::Csv(params) = format {
        return Ok(Box::new(super::csv::Csv(params.clone())));
    }
    #[cfg(feature = "json")]
    if let Format::JsonLines(params) = format {
        return Ok(Box::new(super::json_lines::JsonLines(params.clone())));
    }
    #[cfg(feature = "numpy")]
    if let Format::Npy(params) = format {
        let (params, spec) = (params.clone(), spec.clone());
        return Ok(Box::new(super::numpy::Npy { params, spec }));
    }
    #[cfg(feature = "numpy")]
    if let Format::Npz(params) = format {
        let (params, spec) = (params.clone(), spec.clone());
        return Ok(Box::new(super::numpy::Npz { params, spec }));
    }
    #[cfg(feature = "arrow")]
    if let Format::Parquet(params) = format {
        let (params, spec, format) = (params.clone(), spec.clone(), Parquet);
        return Ok(Box::new(Tables { format, params, spec }));
    }
    #[cfg(feature = "arrow")]
    if let Format::Arrow(params) = format {
        let (params, spec, format) = (params.clone(), spec.clone(), Arrow);
        return Ok(Box::new(Tables { format, params, spec }));
    }
    #[cfg(feature = "sqlite")]
    if let Format::Sqlite(params) = format {
        let (params, cancel) = (params.clone(), shared.cancel.clone());
        return Ok(Box::new(super::sqlite::Sqlite { params, cancel }));
    }
    #[cfg(feature = "mds")]
    if let Format::Mds(_) = format {
        return Ok(Box::new(super::mds::Mds(spec.clone())));
    }
    #[cfg(feature = "saved")]
    if let Format::Elements(params) = format {
        return Ok(Box::new(super::elements::Elements(params.clone())));
    }
    Err(unprepared(format.op_name()))
}
