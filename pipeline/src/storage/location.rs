//! The parser of paths: a path names a file of this machine, or an object of a store.

use std::fmt;

/// The file or object that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    /// A path in a file system of this machine.
    Local(String),
    /// An object of a store or server.
    Remote(RemoteLocation),
}

/// An object of a store or server, or a pattern that matches objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemoteLocation {
    pub(super) scheme: Scheme,
    /// The scheme, in the caller's spelling.
    written: String,
    /// The bucket, container or host.
    pub(super) authority: String,
    /// The name of the object in the store; for a server, the path of the URL.
    pub(super) key: String,
    /// The text after the `?` of a server's URL.
    pub(super) query: Option<String>,
}

/// The kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Scheme {
    S3,
    Gcs,
    Azure,
    Http,
    Https,
}

impl Location {
    /// Parses `path`.
    ///
    /// # Errors
    /// The reason, for the caller: the scheme is unknown, or the rest of the path does not fit its scheme.
    pub(super) fn of(path: &str) -> Result<Location, String> {
        let Some((written, rest)) = split_scheme(path) else {
            return Ok(Location::Local(path.to_owned()));
        };
        let scheme = match written.to_ascii_lowercase().as_str() {
            "file" => return file(rest),
            "s3" | "s3a" => Scheme::S3,
            "gs" | "gcs" => Scheme::Gcs,
            "az" | "azure" | "adl" | "abfs" | "abfss" => Scheme::Azure,
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => {
                return Err(format!(
                    "unknown scheme {written}://, expected a path of this machine, or s3://, gs://, az://, http:// or https://"
                ));
            }
        };
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        let (key, query) = match key.split_once('?') {
            Some((key, query)) if scheme.is_server() => (key, Some(query.to_owned())),
            Some(_) | None => (key, None),
        };
        if authority.is_empty() {
            return Err(format!(
                "expected a {} after {written}://, found none",
                scheme.authority()
            ));
        }
        if scheme.is_server() && authority.contains('@') {
            return Err(
                "the URL contains a password, which is not supported because messages would show it"
                    .to_owned(),
            );
        }
        Ok(Location::Remote(RemoteLocation {
            scheme,
            written: written.to_owned(),
            authority: authority.to_owned(),
            key: key.to_owned(),
            query,
        }))
    }
}

impl Scheme {
    /// Returns whether the scheme is that of a plain HTTP server, which has no listings.
    pub(super) fn is_server(self) -> bool {
        matches!(self, Scheme::Http | Scheme::Https)
    }

    fn authority(self) -> &'static str {
        match self {
            Scheme::S3 | Scheme::Gcs => "bucket",
            Scheme::Azure => "container",
            Scheme::Http | Scheme::Https => "host",
        }
    }
}

impl RemoteLocation {
    /// Returns the URL of the store, without a path.
    pub(super) fn store(&self) -> String {
        format!("{}://{}", self.written, self.authority)
    }

    /// Returns the URL by which the object is opened.
    #[cfg(feature = "storage")]
    pub(super) fn written(&self) -> String {
        let query = self.query.as_ref().map(|query| format!("?{query}"));
        format!("{}/{}{}", self.store(), self.key, query.unwrap_or_default())
    }

    /// Returns the object `key` of the same store.
    #[cfg(feature = "storage")]
    pub(super) fn sibling(&self, key: &str) -> RemoteLocation {
        RemoteLocation {
            key: key.to_owned(),
            ..self.clone()
        }
    }
}

/// Displays the URL in the caller's spelling. The text after a `?` is hidden, because it may be a signature.
impl fmt::Display for RemoteLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.store(), self.key)?;
        if self.query.is_some() {
            f.write_str("?...")?;
        }
        Ok(())
    }
}

/// Splits `path` into its scheme and the rest; returns `None` for a path without a scheme.
fn split_scheme(path: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = path.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

/// Parses the rest of a `file://` URL as a file of this machine.
fn file(rest: &str) -> Result<Location, String> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if path.starts_with('/') {
        Ok(Location::Local(path.to_owned()))
    } else {
        Err("expected a third slash after file://, because the file must be on this machine".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(path: &str) -> RemoteLocation {
        match Location::of(path).unwrap() {
            Location::Remote(location) => location,
            Location::Local(local) => panic!("{local} is a path of this machine"),
        }
    }

    #[test]
    fn a_path_without_scheme_is_local() {
        for path in ["/a/b", "a/b*", "", "a:b", "./x://y", "1s://b", "://b", "a b://c"] {
            assert_eq!(Location::of(path), Ok(Location::Local(path.to_owned())));
        }
        let file = Location::of("file:///a/b");
        assert_eq!(file, Ok(Location::Local("/a/b".to_owned())));
        assert!(Location::of("file://host/a").unwrap_err().contains("third slash"));
    }

    #[test]
    fn a_scheme_names_a_store_and_object() {
        let found = remote("s3://bucket/a dir/*.tfrecord?x");
        assert_eq!((found.scheme, &*found.authority), (Scheme::S3, "bucket"));
        assert_eq!(
            (&*found.key, found.query.as_deref()),
            ("a dir/*.tfrecord?x", None)
        );
        assert_eq!(found.to_string(), "s3://bucket/a dir/*.tfrecord?x");
        let found = remote("HTTPS://host:8/a/b?signature=hush");
        assert_eq!((found.scheme, &*found.authority), (Scheme::Https, "host:8"));
        assert_eq!(
            (&*found.key, found.query.as_deref()),
            ("a/b", Some("signature=hush"))
        );
        assert_eq!(found.to_string(), "HTTPS://host:8/a/b?...");
        #[cfg(feature = "storage")]
        assert_eq!(found.written(), "HTTPS://host:8/a/b?signature=hush");
        assert_eq!(remote("abfss://c@a.dfs.core.windows.net/k").scheme, Scheme::Azure);
    }

    #[test]
    fn impossible_objects_are_refused_with_reasons() {
        for (path, reason) in [
            ("ftp://host/a", "unknown scheme ftp://"),
            ("s3:///a", "expected a bucket"),
            ("http://user:word@host/a", "password"),
        ] {
            let refused = Location::of(path).unwrap_err();
            assert!(refused.contains(reason), "{path}: {refused}");
        }
    }
}
