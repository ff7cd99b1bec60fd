//! Readings of which elements may be lost with a worker: each ends well and whole, or names in its error all
//! that is missing.

use millstream::client::{ReadError, Reader};
use millstream::element::Element;

/// The next element; `None` at the end, also at one after which elements are missing. Then the error names
/// exactly the splits that the statistics do.
pub(crate) fn next_or_lost(reader: &mut Reader) -> Option<Element> {
    match reader.next_element() {
        Ok(Some(element)) => Some(element),
        Ok(None) => {
            let lost = reader.stats().lost_splits;
            assert!(lost.is_empty(), "ended as if nothing were lost: {lost:?}");
            None
        }
        Err(ReadError::DataLost(loss)) => {
            let named: u64 = loss.ranges.iter().map(|range| range.splits.count).sum();
            let counted: u64 = reader.stats().lost_splits.iter().map(|lost| lost.count).sum();
            assert!(named > 0 && named == counted, "{loss:?}");
            None
        }
        Err(error) => panic!("the reading goes on: {error}"),
    }
}
