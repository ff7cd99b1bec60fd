//! The index of a directory of shards, which lists the path, the size and the checksum of each shard. A
//! listing adds the size and the checksum to the path of each shard, so that a reader can check the shard
//! without the index.

use std::hash::Hasher;
use std::io::{self, Read};

use serde_json::Value as Json;
use twox_hash::XxHash64;

use crate::exec::error::ErrorKind;
use crate::exec::format::reader::{Opened, ReadError};
use crate::graph::INDEX;
use crate::storage::{FILES_MAX, Listed, Storage};

/// Maximum bytes of an index: enough for some hundred thousand shards.
const INDEX_BYTES_MAX: u64 = 256 << 20;
/// The text between the path of a shard and the facts that its index states.
const SAID: &str = "#mds:";
/// The only kind of checksum that is checked; an index can contain other kinds.
const CHECKSUM: &str = "xxh64";

/// The entry of a shard in a listing.
#[derive(Debug, PartialEq, Eq)]
struct Said<'t> {
    path: &'t str,
    bytes: Option<u64>,
    checksum: Option<&'t str>,
}

/// Returns the shards that the index at `path` lists, in the order of the index.
///
/// # Errors
/// The reason why the index cannot be read. The text names the index.
pub(crate) fn shards(storage: &Storage, path: &str) -> Result<Vec<Listed>, String> {
    let failed = |reason: String| format!("the index {path}: {reason}");
    let file = storage.open(path).map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    file.take(INDEX_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > INDEX_BYTES_MAX {
        return Err(failed(format!("exceeds the limit of {INDEX_BYTES_MAX} bytes")));
    }
    let folder = path.strip_suffix(INDEX).unwrap_or_default();
    listed(&text, folder).map_err(failed)
}

/// Returns the shards of an index whose directory is `folder`.
fn listed(text: &[u8], folder: &str) -> Result<Vec<Listed>, String> {
    let index: Json = serde_json::from_slice(text).map_err(|error| format!("is invalid JSON: {error}"))?;
    let shards = index.get("shards").and_then(Json::as_array);
    let shards = shards.ok_or("lists no shards")?;
    if shards.is_empty() || shards.len() > FILES_MAX {
        return Err(format!(
            "lists {} shards, expected 1 to {FILES_MAX}",
            shards.len()
        ));
    }
    let each = shards.iter().enumerate();
    each.map(|(number, shard)| one(shard, folder).map_err(|reason| format!("shard {number} {reason}")))
        .collect()
}

fn one(shard: &Json, folder: &str) -> Result<Listed, String> {
    let text = |of: &'static str| shard.get(of).and_then(Json::as_str);
    if let Some(format) = text("format").filter(|format| *format != "mds") {
        return Err(format!("has the format {format:?}, expected \"mds\""));
    }
    // If a shard has a compressed file, usually only this file exists.
    let zipped = shard.get("zip_data").filter(|data| !data.is_null());
    if zipped.is_some() {
        let compression = text("compression").unwrap_or("an unnamed method");
        if compression.split(':').next() != Some("zstd") {
            return Err(format!(
                "is compressed with {compression}, expected zstd: compress it with zstd, or decompress it"
            ));
        }
    }
    let data = zipped.or_else(|| shard.get("raw_data")).ok_or("names no file")?;
    let name = data
        .get("basename")
        .and_then(Json::as_str)
        .ok_or("names no file")?;
    let is_below = !name.is_empty() && name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_below || name.contains(['\0', '#']) {
        return Err(format!(
            "has the name {name:?}, expected a file below the directory of the index"
        ));
    }
    let size_bytes = data.get("bytes").and_then(Json::as_u64);
    let checksum = data
        .get("hashes")
        .and_then(|hashes| hashes.get(CHECKSUM))
        .and_then(Json::as_str);
    let mut path = format!("{folder}{name}");
    if let Some(bytes) = size_bytes {
        path.push_str(SAID);
        path.push_str(&bytes.to_string());
        if let Some(checksum) = checksum {
            path.push(':');
            path.push_str(checksum);
        }
    }
    // The index states the size and the checksum of a shard, and reading compares both.
    Ok(Listed {
        path,
        size_bytes,
        version: None,
    })
}

impl Said<'_> {
    /// Parses the path of a shard in a listing. Any other path becomes an entry without size and checksum.
    fn of(written: &str) -> Said<'_> {
        let nothing = Said {
            path: written,
            bytes: None,
            checksum: None,
        };
        let Some((path, said)) = written.rsplit_once(SAID) else {
            return nothing;
        };
        let (bytes, checksum) = match said.split_once(':') {
            Some((bytes, checksum)) => (bytes, Some(checksum)),
            None => (said, None),
        };
        match bytes.parse() {
            Ok(bytes) => Said {
                path,
                bytes: Some(bytes),
                checksum,
            },
            Err(_) => nothing,
        }
    }
}

/// Opens the shard at `path`. If `path` is an index, opens the first shard of the index.
pub(crate) fn first(storage: &Storage, path: &str) -> Result<Opened, String> {
    let first = if path.ends_with(INDEX) {
        shards(storage, path)?.swap_remove(0).path
    } else {
        path.to_owned()
    };
    opened(storage, &first).map_err(|error| error.reason)
}

/// Opens a shard whose path is `written` as in a listing, or alone, and compares the shard with the facts
/// from its index. A shard with a checksum is read once more to compute the checksum.
pub(crate) fn opened(storage: &Storage, written: &str) -> Result<Opened, ReadError> {
    let said = Said::of(written);
    let opened = Opened::new(storage, said.path)?;
    let differs = |what: String| ReadError {
        kind: ErrorKind::Data,
        ..ReadError::unopened(format!("the shard {} {what}", opened.path))
    };
    if let Some(bytes) = said.bytes
        && bytes != opened.file.len()
    {
        let found = opened.file.len();
        return Err(differs(format!("has {found} bytes, its index states {bytes}")));
    }
    if let Some(expected) = said.checksum {
        let found = checksum(opened.file.clone())
            .map_err(|error| differs(format!("cannot be read: {error}")).blaming(&error))?;
        if !expected.eq_ignore_ascii_case(&found) {
            return Err(differs(format!(
                "has the checksum {found}, its index states {expected}"
            )));
        }
    }
    Ok(opened)
}

fn checksum(mut file: impl Read) -> io::Result<String> {
    let mut hasher = XxHash64::with_seed(0);
    let mut block = vec![0; 1 << 16];
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(format!("{:016x}", hasher.finish())),
            Ok(read) => hasher.write(&block[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shards_are_named_as_the_index_knows_them() {
        let index = br#"{"version": 2, "shards": [
            {"format": "mds", "compression": null, "zip_data": null,
             "raw_data": {"basename": "a.mds", "bytes": 7, "hashes": {"xxh64": "0a", "sha1": "x"}}},
            {"format": "mds", "compression": "zstd:7",
             "zip_data": {"basename": "deep/b.mds.zstd", "bytes": 5, "hashes": {}}, "raw_data": {"basename": "b.mds"}},
            {"raw_data": {"basename": "c.mds"}}
        ]}"#;
        let paths: Vec<String> = listed(index, "s3://b/")
            .unwrap()
            .into_iter()
            .map(|file| file.path)
            .collect();
        assert_eq!(
            paths,
            [
                "s3://b/a.mds#mds:7:0a",
                "s3://b/deep/b.mds.zstd#mds:5",
                "s3://b/c.mds"
            ]
        );
        let said = Said::of(&paths[0]);
        assert_eq!(
            (said.path, said.bytes, said.checksum),
            ("s3://b/a.mds", Some(7), Some("0a"))
        );
        assert_eq!(Said::of("a#mds:b").path, "a#mds:b");
    }

    #[test]
    fn an_invalid_index_is_refused() {
        for (index, reason) in [
            ("{}", "lists no shards"),
            (r#"{"shards": []}"#, "lists 0 shards"),
            ("shards", "is invalid JSON"),
            (r#"{"shards": [{"format": "json"}]}"#, "expected \"mds\""),
            (
                r#"{"shards": [{"zip_data": {"basename": "a"}, "compression": "br:11"}]}"#,
                "compressed with br:11",
            ),
            (
                r#"{"shards": [{"raw_data": {"basename": "../a"}}]}"#,
                "below the directory of the index",
            ),
            (
                r#"{"shards": [{"raw_data": {"basename": "/etc/a"}}]}"#,
                "below the directory of the index",
            ),
            (r#"{"shards": [{"raw_data": {}}]}"#, "names no file"),
        ] {
            let refused = listed(index.as_bytes(), "").unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn the_checksum_is_the_one_that_others_compute() {
        // The expected values are those that the Python package `xxhash` computes.
        assert_eq!(checksum(&b""[..]).unwrap(), "ef46db3751d8e999");
        assert_eq!(checksum(&b"abc"[..]).unwrap(), "44bc2cf5ad770999");
    }

    proptest! {
        #[test]
        fn no_index_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index) {
            listed(&bytes, "").ok();
            let mut index = br#"{"shards": [{"zip_data": null, "raw_data": {"basename": "a", "bytes": 7, "hashes": {"xxh64": "0a"}}}]}"#.to_vec();
            let at = at.index(index.len());
            index.splice(at..at, bytes.iter().copied().take(3));
            listed(&index, "").ok();
        }
    }
}
