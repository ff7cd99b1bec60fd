//! The pipeline of the examples: labelled photographs from WebDataset tars, cropped to one size.

use millstream::client::LostSplits;
use millstream::pipeline::graph::{AUTO, Dataset, OnError};

/// The height and width of a crop, in pixels.
pub(crate) const CROP: u32 = 224;

/// The component that contains the name of a picture.
pub(crate) const KEY: &str = "key";

/// The component that contains the class of a picture.
pub(crate) const LABEL: &str = "label";

/// The field of a sample that contains the picture, named by the extension of its file.
pub(crate) const PICTURE_FIELD: &str = "jpg";

/// Returns the dataset of all pictures in the tars that match `pattern`: `image` as `u8[224, 224, 3]`,
/// `label` as `i64`, and `key`.
pub(crate) fn pictures(pattern: &str) -> Dataset {
    Dataset::files(pattern)
        .webdataset([PICTURE_FIELD, "cls"], OnError::Raise)
        .decode_image(PICTURE_FIELD)
        .parallel(AUTO)
        .random_resized_crop(PICTURE_FIELD, CROP, CROP)
        .parallel(AUTO)
        .parse_int("cls")
        .parallel(AUTO)
        .select([(PICTURE_FIELD, "image"), ("cls", LABEL), ("__key__", KEY)])
}

/// Describes lost splits in words.
pub(crate) fn lost_text(lost: &LostSplits) -> String {
    let last = lost.first.saturating_add(lost.count.saturating_sub(1));
    let which = if lost.count == 1 {
        format!("split {last}")
    } else {
        format!("splits {} to {last}", lost.first)
    };
    format!("{which} of source {}, pass {}", lost.source, lost.repetition)
}
