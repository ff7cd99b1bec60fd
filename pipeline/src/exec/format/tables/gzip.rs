//! A check of gzip-compressed pages before the Parquet decoder inflates them. The decoder inflates a whole
//! gzip page before it compares the size with the page's header. With every other compression, the decoder
//! stops at the size in the header.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

/// Compressed bytes up to which a page is not inflated to count its bytes. A page of 1 MiB, the usual size,
/// never has more compressed bytes. Only unusually large pages are therefore inflated twice, and an uncounted
/// page grows to at most 1 GiB.
const COUNTED_BYTES: usize = (1 << 20) + (64 << 10);
/// The bytes with which gzip data begins.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// Checks that `page` inflates to at most `most` bytes. The check reads the size that gzip states at the end
/// of the page, and inflates a large page to count its bytes. A page that does not begin with gzip's magic
/// number is not checked; pages of version 2 can begin with other data.
pub(crate) fn check(page: &[u8], most: u64) -> Result<(), String> {
    let refused = |bytes: String| {
        Err(format!(
            "a page has {bytes} bytes uncompressed, the limit is {most}: write smaller pages"
        ))
    };
    let Some(said) = page.last_chunk().filter(|_| page.starts_with(&MAGIC)) else {
        return Ok(());
    };
    let said = u64::from(u32::from_le_bytes(*said));
    if said > most {
        return refused(said.to_string());
    }
    if page.len() <= COUNTED_BYTES {
        return Ok(());
    }
    let counted = io::copy(&mut MultiGzDecoder::new(page).take(most + 1), &mut io::sink());
    // An error in the compressed data is left to the decoder, which reports it after it has inflated the data
    // before the error.
    if counted.is_ok_and(|counted| counted > most) {
        return refused(format!("more than {most}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// Returns one gzip member of `bytes` zeros.
    fn zeros(bytes: usize) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&vec![0; bytes]).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn an_absurd_page_is_refused_unread() {
        let mut page = zeros(1000);
        check(&page, 1000).unwrap();
        assert!(check(&page, 999).unwrap_err().contains("a page has 1000 bytes"));
        // A page without gzip's magic number is accepted.
        check(&page[1..], 999).unwrap();
        check(b"", 0).unwrap();
        page.truncate(5);
        check(&page, u64::MAX).unwrap();
    }

    #[test]
    fn a_lying_large_page_is_counted() {
        // The page consists of several members, and the last member states a small size.
        let member = zeros(100);
        let mut page = member.repeat(COUNTED_BYTES / member.len() + 1);
        let said = page.len() as u64;
        assert!(check(&page, said).unwrap_err().contains("more than"));
        check(&page, 100 * said).unwrap();
        page.truncate(COUNTED_BYTES);
        check(&page, u64::from(u32::MAX)).unwrap();
    }
}
