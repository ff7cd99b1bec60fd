//! Compressed events, which are parts of a gzip stream without end.
//!
//! A part refers to no earlier part, so one compression serves all viewers, whenever they came. Refuses to
//! know the content of events.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use hyper::header::{self, HeaderMap};

/// The header of a gzip stream (RFC 1952, section 2.3.1): deflate, without a name or a time, of an unknown
/// operating system.
pub(crate) const HEADER: Bytes = Bytes::from_static(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

/// Returns whether the sender of a request with these headers reads gzip (RFC 9110, section 12.5.3).
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING);
    let texts = values.iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && !parts.any(is_zero_weight)
    })
}

/// Returns whether a parameter is a weight of 0, which excludes a coding.
fn is_zero_weight(parameter: &str) -> bool {
    let weight = parameter.strip_prefix("q=").or(parameter.strip_prefix("Q="));
    weight.is_some_and(|weight| weight.parse() == Ok(0.0))
}

/// Returns content as the next part of a gzip stream. The reader of the stream sees all of the content once
/// it has the part.
pub(crate) fn part(content: &[u8]) -> Bytes {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(content).and_then(|()| encoder.flush());
    written.expect("a write to memory does not fail");
    // The encoder would end the stream, so only its output is taken.
    std::mem::take(encoder.get_mut()).into()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::*;

    fn headers(accepted: &'static str) -> HeaderMap {
        [(header::ACCEPT_ENCODING, accepted.parse().unwrap())]
            .into_iter()
            .collect()
    }

    #[test]
    fn gzip_is_sent_to_those_who_ask() {
        for accepted in [
            "gzip",
            "br, GZIP",
            "gzip, deflate, br, zstd",
            "deflate;q=1, gzip;q=0.5",
        ] {
            assert!(is_accepted(&headers(accepted)), "{accepted}");
        }
        for accepted in ["", "br", "gzip;q=0", "gzip; q=0.000", "xgzip", "identity"] {
            assert!(!is_accepted(&headers(accepted)), "{accepted}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }

    proptest! {
        #[test]
        fn parts_are_whole_and_independent(
            contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..5),
            repeats in 1usize..2000,
            skipped in 0usize..5,
        ) {
            // A viewer that came later has not received the first parts.
            let contents: Vec<Vec<u8>> = contents.iter().skip(skipped).map(|content| content.repeat(repeats)).collect();
            let mut stream = HEADER.to_vec();
            for (index, content) in contents.iter().enumerate() {
                stream.extend(part(content));
                let expected = contents[..=index].concat();
                let mut read = vec![0; expected.len()];
                GzDecoder::new(&stream[..]).read_exact(&mut read).unwrap();
                prop_assert_eq!(read, expected);
            }
        }
    }
}
