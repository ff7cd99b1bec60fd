//! The specs of self-describing files, which the analysis requests for a dataset that does not declare a
//! spec.

use millstream_element::ElementSpec;

use crate::graph::{AnalysisError, Format};
use crate::storage::Storage;

use super::feature::missing_feature;
use super::reader::{Fault, Opened};

/// Returns the spec that the first file states, among the files that the example of `format` matches.
pub(crate) fn described(format: &Format, storage: &Storage) -> Result<ElementSpec, AnalysisError> {
    describe(format, storage).map_err(|reason| AnalysisError::Mismatch {
        op: format.op_name().to_owned(),
        reason,
    })
}

fn describe(format: &Format, storage: &Storage) -> Result<ElementSpec, String> {
    if let Some(feature) = missing_feature(format) {
        return Err(format!(
            "the columns of the files are not declared, and this build cannot look them up: build with the feature {feature:?}"
        ));
    }
    let Some(pattern) = format.columns().and_then(|columns| columns.example.as_ref()) else {
        return Err(
            "the columns of the files are not declared, and no example file is known: declare the \
                    columns, or name example files"
                .to_owned(),
        );
    };
    let files = storage.list(pattern).map_err(|error| error.to_string())?;
    let Some(first) = files.first() else {
        return Err(format!("no file matches {pattern:?}"));
    };
    let opened = opened(format, storage, &first.path)?;
    spec_of(format, opened).map_err(|fault| format!("{}: {}", first.path, fault.reason))
}

#[cfg_attr(
    not(feature = "mds"),
    expect(
        unused_variables,
        reason = "without the feature no format has a special way to open files"
    )
)]
fn opened(format: &Format, storage: &Storage, path: &str) -> Result<Opened, String> {
    #[cfg(feature = "mds")]
    if let Format::Mds(_) = format {
        return super::mds::first(storage, path);
    }
    Opened::new(storage, path).map_err(|error| error.reason)
}

#[cfg_attr(
    not(any(feature = "arrow", feature = "mds", feature = "numpy")),
    expect(
        unused_mut,
        unused_variables,
        reason = "without the features no format describes itself"
    )
)]
fn spec_of(format: &Format, mut file: Opened) -> Result<ElementSpec, Fault> {
    #[cfg(feature = "numpy")]
    if let Format::Npy(params) = format {
        return super::numpy::describe_npy(&mut file, params);
    }
    #[cfg(feature = "numpy")]
    if let Format::Npz(params) = format {
        return super::numpy::describe_npz(file, params);
    }
    #[cfg(feature = "arrow")]
    if let Format::Parquet(params) = format {
        return super::tables::describe(&super::tables::Parquet, &file, params);
    }
    #[cfg(feature = "arrow")]
    if let Format::Arrow(params) = format {
        return super::tables::describe(&super::tables::Arrow, &file, params);
    }
    #[cfg(feature = "mds")]
    if let Format::Mds(params) = format {
        return super::mds::describe(file, params);
    }
    Err(Fault::from("files of this format do not describe their columns"))
}
