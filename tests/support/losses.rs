//! Support for reads that may lose elements with a worker: a read ends complete, or its error names all
//! missing splits.

use millstream::client::{ReadError, Reader};
use millstream::element::Element;

/// Returns the next element, or `None` at the end. If elements are missing at the end, checks that the error
/// names exactly the splits in the statistics.
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
        Err(error) => panic!("unexpected error: {error}"),
    }
}
