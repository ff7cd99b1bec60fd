//! Pages under gzip, whose decoder inflates them to whatever they become before it compares that with their
//! headers; that of every other compression stops at what the header says. Here a page is refused before that
//! decoder sees it.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

/// Bytes of a page that is inflated to be counted: more than a page of 1 MiB, which is what writers make,
/// ever has compressed. So that only pages of an odd size are inflated twice, and what is not counted grows
/// to 1 GiB at most.
const COUNTED_BYTES: usize = (1 << 20) + (64 << 10);
/// How gzip begins.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// Checks that `page` does not become larger than `most` bytes: what it says of itself at its end, and, if it
/// is large, what it is. Of a page of the second version, where something else can come first, nothing is
/// said.
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
    // What is broken its decoder finds out too, behind what it made of the rest.
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

    /// Returns one member of `bytes` zeros.
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
        // Not under gzip, as far as can be seen.
        check(&page[1..], 999).unwrap();
        check(b"", 0).unwrap();
        page.truncate(5);
        check(&page, u64::MAX).unwrap();
    }

    #[test]
    fn a_lying_large_page_is_counted() {
        // Members one behind the other, of which the last says that it is small.
        let member = zeros(100);
        let mut page = member.repeat(COUNTED_BYTES / member.len() + 1);
        let said = page.len() as u64;
        assert!(check(&page, said).unwrap_err().contains("more than"));
        check(&page, 100 * said).unwrap();
        page.truncate(COUNTED_BYTES);
        check(&page, u64::from(u32::MAX)).unwrap();
    }
}
