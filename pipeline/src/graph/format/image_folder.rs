//! Folders of labelled files: a class is a folder in the root.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, SpecError, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::{check_name, check_names};
use crate::graph::on_error::OnError;

/// Parameters of `image_folder`: the files below a root, each of the class whose folder it is in, at any
/// depth.
///
/// An element is a dict of `image`, the bytes of the file, `label`, the number of its class, and `path`.
/// Classes are numbered by their names in sorted order, as torchvision's `ImageFolder` and keras'
/// `image_dataset_from_directory` number them.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ImageFolder {
    /// The folder that has a folder for each class.
    #[n(0)]
    pub root: String,
    /// The names of the classes, in the order of their numbers; none = the folders of the root, sorted, when
    /// reading begins.
    #[n(1)]
    #[serde(default)]
    pub classes: Vec<String>,
    /// The extensions of what is read, without the dot, in whatever case; none = those of images. Other files
    /// are passed over.
    #[n(2)]
    #[serde(default)]
    pub extensions: Vec<String>,
    /// The treatment of files that cannot be read.
    #[n(3)]
    #[serde(default)]
    pub on_error: OnError,
}

/// The extensions of images: what torchvision's `ImageFolder` reads.
pub const IMAGE_EXTENSIONS: [&str; 10] = [
    "jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp", "gif",
];

impl ImageFolder {
    /// All images below `root`, whose folders are the classes.
    pub fn new(root: impl Into<String>) -> ImageFolder {
        ImageFolder {
            root: root.into(),
            classes: Vec::new(),
            extensions: Vec::new(),
            on_error: OnError::Raise,
        }
    }

    /// The pattern of all files below the root, in folders.
    pub(crate) fn pattern(&self) -> String {
        let root: String = self
            .root
            .trim_end_matches('/')
            .chars()
            .fold(String::new(), |mut all, next| {
                // What would be a pattern in the name of the root is none.
                if let '*' | '?' | '[' | ']' = next {
                    all.extend(['[', next, ']']);
                } else {
                    all.push(next);
                }
                all
            });
        format!("{root}/*/**/*")
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
