//! Fuzz targets of the contents of elements: pictures, messages of TensorFlow, and texts.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::graph::{
    ConstantTensor, CsvField, Dataset, DecodeCsv, DecodeImage, Feature, JsonField,
};

use super::{RANDOM_INPUTS, drain};

/// Returns a dataset of one element, whose component `x` holds `bytes`.
fn holding(bytes: &[u8]) -> Dataset {
    let spec = ElementSpec::dict([("x", TensorSpec::scalar(Dtype::Bytes))]).unwrap();
    Dataset::tensors(spec, vec![ConstantTensor::items([bytes.to_vec()])])
}

#[test]
fn pictures() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            drain(holding(bytes).decode_image("x"));
            let grey = DecodeImage {
                channels: Some(1),
                ..DecodeImage::new("x")
            };
            drain(holding(bytes).decode_image_with(grey).resize("x", 16, 16));
        });
}

fn features() -> Vec<Feature> {
    let default = ConstantTensor::fixed(
        [7i64; 2]
            .iter()
            .flat_map(|item| item.to_le_bytes())
            .collect::<Vec<u8>>(),
    );
    vec![
        Feature::fixed_or("a", Dtype::I64, &[2], default),
        Feature::ragged("b", Dtype::F32),
        Feature::sparse("c", Dtype::Bytes),
        Feature::padded("d", Dtype::String, &[2]),
    ]
}

#[test]
fn examples() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            drain(holding(bytes).parse_example("x", features()));
            let sequences = [
                Feature::fixed("f", Dtype::F32, &[2]),
                Feature::ragged("g", Dtype::I64),
            ];
            drain(holding(bytes).parse_sequence_example("x", features(), sequences));
        });
}

#[test]
fn texts() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let fields = [
                JsonField::new("a", "a.0", Dtype::F32, &[None, Some(1)]),
                JsonField::new("b", "", Dtype::U8, &[]),
            ];
            drain(holding(bytes).parse_json("x", fields));
            let columns = [
                CsvField::new("a", Dtype::I32),
                CsvField::skipped(),
                CsvField::new("b", Dtype::String),
            ];
            drain(holding(bytes).decode_csv(DecodeCsv::new("x", columns)));
            drain(holding(bytes).parse_float("x", Dtype::F64));
            drain(holding(bytes).split_ragged("x", Some(",")));
        });
}
