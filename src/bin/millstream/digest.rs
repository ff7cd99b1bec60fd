//! A digest of the rows that were read. The digest does not depend on the order of the rows, on their
//! batches, or on the workers that computed them.

use millstream::element::{Dtype, Element, TensorView};

/// The sum of the hashes of all rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    /// The number of rows in the digest.
    pub(crate) rows: u64,
    sum: u64,
}

impl Digest {
    /// Adds a row, given as the bytes of its components in order.
    pub(crate) fn add<'a>(&mut self, components: impl IntoIterator<Item = &'a [u8]>) {
        let mut hash = FNV_OFFSET;
        for component in components {
            // The length distinguishes ("ab", "c") from ("a", "bc").
            for byte in (component.len() as u64).to_le_bytes().iter().chain(component) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
            }
        }
        self.rows += 1;
        self.sum = self.sum.wrapping_add(mixed(hash));
    }

    /// Adds the rows of an element, reduced to the components `names`. With `is_batched`, each index of the
    /// leading dimension is a row; else the whole element is one row.
    pub(crate) fn add_element(
        &mut self,
        element: &Element,
        names: &[&str],
        is_batched: bool,
    ) -> Result<(), String> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let view = if name.is_empty() {
                element.component(0)
            } else {
                element.named(name)
            };
            columns.push(items(
                view.ok_or_else(|| format!("an element has no component `{name}`"))?,
            )?);
        }
        let rows = columns.iter().map(Vec::len).min().unwrap_or(0);
        let per_row = if is_batched { 1 } else { rows.max(1) };
        for row in 0..rows / per_row {
            self.add(
                columns
                    .iter()
                    .flat_map(|column| column[row * per_row..(row + 1) * per_row].iter().copied()),
            );
        }
        Ok(())
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.sum)
    }
}

/// Returns the items of a scalar tensor or of a one-dimensional tensor.
pub(crate) fn items(view: TensorView<'_>) -> Result<Vec<&[u8]>, String> {
    if matches!(view.dtype(), Dtype::String | Dtype::Bytes) {
        return view
            .strings()
            .map(|strings| strings.iter().collect())
            .map_err(|error| error.to_string());
    }
    let item_bytes = view.dtype().item_bytes().unwrap_or(1).max(1);
    Ok(view.bytes().chunks_exact(item_bytes).collect())
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Spreads a hash over all bits, so that crafted rows cannot cancel out in the sum.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(rows: &[u64]) -> Digest {
        let mut digest = Digest::default();
        rows.iter()
            .for_each(|row| digest.add([row.to_le_bytes().as_slice()]));
        digest
    }

    #[test]
    fn order_does_not_matter_and_every_row_does() {
        let all: Vec<u64> = (0..1000).collect();
        let backwards: Vec<u64> = all.iter().rev().copied().collect();
        assert_eq!(digest(&all), digest(&backwards));
        assert_ne!(digest(&all), digest(&all[1..]));
        let mut twice = all.clone();
        twice[0] = 1;
        assert_ne!(digest(&all), digest(&twice), "one lost and one twice");
    }

    #[test]
    fn components_do_not_run_into_each_other() {
        let (mut one, mut other) = (Digest::default(), Digest::default());
        one.add([b"ab".as_slice(), b"c"]);
        other.add([b"a".as_slice(), b"bc"]);
        assert_ne!(one, other);
    }
}
