//! Folders of labelled files: each folder in the root is a class.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, SpecError, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::{check_name, check_names};
use crate::graph::on_error::OnError;

/// Parameters of `image_folder`, which reads the files below a root folder. The class of a file is the folder
/// in the root that contains the file, at any depth.
///
/// Each element is a dict of `image`, the bytes of the file, `label`, the number of its class, and `path`.
/// Classes are numbered in the sorted order of their names. torchvision's `ImageFolder` and keras'
/// `image_dataset_from_directory` number classes in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ImageFolder {
    /// The root folder, which contains one folder for each class.
    #[n(0)]
    pub root: String,
    /// The names of the classes, in the order of their numbers. An empty list means the folders of the root,
    /// sorted by name, when reading begins.
    #[n(1)]
    #[serde(default)]
    pub classes: Vec<String>,
    /// The extensions of the files to read, without the dot, in upper or lower case. An empty list means
    /// [`IMAGE_EXTENSIONS`]. Files with other extensions are ignored.
    #[n(2)]
    #[serde(default)]
    pub extensions: Vec<String>,
    /// The treatment of files that cannot be read.
    #[n(3)]
    #[serde(default)]
    pub on_error: OnError,
}

/// The end of the pattern that matches all files in the folders of a root, at any depth.
pub(crate) const BELOW_CLASSES: &str = "/*/**/*";

/// The extensions of images, which are those that torchvision's `ImageFolder` reads.
pub const IMAGE_EXTENSIONS: [&str; 10] = [
    "jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp", "gif",
];

impl ImageFolder {
    /// Reads all images below `root`, whose folders are the classes.
    pub fn new(root: impl Into<String>) -> ImageFolder {
        ImageFolder {
            root: root.into(),
            classes: Vec::new(),
            extensions: Vec::new(),
            on_error: OnError::Raise,
        }
    }

    /// Returns the pattern that matches all files in the folders below the root.
    pub(crate) fn pattern(&self) -> String {
        let root: String = self
            .root
            .trim_end_matches('/')
            .chars()
            .fold(String::new(), |mut all, next| {
                // Wildcards in the name of the root are escaped, because the name is not a pattern.
                if let '*' | '?' | '[' | ']' = next {
                    all.extend(['[', next, ']']);
                } else {
                    all.push(next);
                }
                all
            });
        root + BELOW_CLASSES
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        check_name("root", &self.root)?;
        check_names("class", self.classes.iter().map(String::as_str))?;
        check_names("extension", self.extensions.iter().map(String::as_str))
    }

    pub(crate) fn spec() -> Result<ElementSpec, SpecError> {
        ElementSpec::dict([
            ("image", TensorSpec::scalar(Dtype::Bytes)),
            ("label", TensorSpec::scalar(Dtype::I64)),
            ("path", TensorSpec::scalar(Dtype::String)),
        ])
    }
}
