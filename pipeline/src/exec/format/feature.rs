//! The features of a build that formats need.

use crate::graph::Format;

/// Returns the feature that `format` needs, if this build lacks the feature.
pub(crate) fn missing_feature(format: &Format) -> Option<&'static str> {
    const BUILT_IN: &[&str] = &[
        #[cfg(feature = "arrow")]
        "arrow",
        #[cfg(feature = "csv")]
        "csv",
        #[cfg(feature = "json")]
        "json",
        #[cfg(feature = "mds")]
        "mds",
        #[cfg(feature = "numpy")]
        "numpy",
        #[cfg(feature = "sqlite")]
        "sqlite",
        #[cfg(feature = "records")]
        "records",
        #[cfg(feature = "webdataset")]
        "webdataset",
        #[cfg(feature = "saved")]
        "saved",
    ];
    format.feature().filter(|feature| !BUILT_IN.contains(feature))
}
