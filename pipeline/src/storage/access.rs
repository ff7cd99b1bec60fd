//! The rules for files that may be read.
//!
//! An operator lists the allowed folders, buckets and servers. Without a list, all files may be read, except
//! from addresses that give cloud machines their credentials.
//!
//! A submitter names paths, and the workers and the dispatcher open them with their own rights. The module
//! knows paths and hosts, but opens no files.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::path::{Component, Path, PathBuf};

use super::location::{Location, RemoteLocation};

/// The host names at which clouds serve the credentials of their machines.
const METADATA_HOSTS: [&str; 3] = ["metadata", "metadata.google.internal", "instance-data"];
/// The addresses at which clouds serve credentials, besides the link-local addresses: those of Alibaba Cloud,
/// and of AWS over IPv6.
const METADATA_ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// The rule for paths that may be read.
#[derive(Debug, Clone, Default)]
pub(super) struct Access {
    /// The allowed folders and URLs. An empty list allows everything but the servers of credentials.
    allowed: Vec<Allowed>,
}

/// A folder of this machine, or a prefix of URLs.
#[derive(Debug, Clone)]
enum Allowed {
    /// A folder whose symbolic links are resolved.
    Folder(PathBuf),
    Urls(RemoteLocation),
}

impl Access {
    /// Allows the files below these prefixes: absolute folders, or URLs such as `s3://bucket/train/` and
    /// `https://host/`. An empty list allows everything but the servers of credentials.
    ///
    /// # Errors
    /// The reason, for the operator: a prefix is neither a folder nor a URL, or a folder does not exist.
    pub(super) fn new(prefixes: &[String]) -> Result<Access, String> {
        let allowed = prefixes.iter().map(|prefix| {
            Ok(match Location::of(prefix)? {
                Location::Local(folder) if Path::new(&folder).is_absolute() => {
                    let resolved = std::fs::canonicalize(&folder);
                    Allowed::Folder(resolved.map_err(|error| format!("{folder}: {error}"))?)
                }
                Location::Local(folder) => return Err(format!("{folder} is not an absolute path")),
                Location::Remote(location) => Allowed::Urls(location),
            })
        });
        Ok(Access {
            allowed: allowed.collect::<Result<_, _>>()?,
        })
    }

    /// Checks that a file or a pattern may be read.
    ///
    /// # Errors
    /// The reason, for the caller, why reading is not allowed.
    pub(super) fn check(&self, location: &Location) -> Result<(), String> {
        match location {
            Location::Local(path) => self.check_local(Path::new(path)),
            Location::Remote(location) => self.check_remote(location),
        }
    }

    fn check_local(&self, path: &Path) -> Result<(), String> {
        if self.allowed.is_empty() {
            return Ok(());
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(
                "the path contains `..`, which is not allowed because this process reads only some folders (--allow-path)".to_owned(),
            );
        }
        // The longest existing ancestor is checked, with its links resolved. For a pattern, this is the
        // folder before the first wildcard.
        let existing = path.ancestors().find_map(|part| std::fs::canonicalize(part).ok());
        let is_inside = |allowed: &Allowed| match allowed {
            Allowed::Folder(folder) => existing.as_ref().is_some_and(|path| path.starts_with(folder)),
            Allowed::Urls(_) => false,
        };
        match self.allowed.iter().any(is_inside) {
            true => Ok(()),
            false => Err(NOT_ALLOWED.to_owned()),
        }
    }

    fn check_remote(&self, location: &RemoteLocation) -> Result<(), String> {
        let is_named = |allowed: &Allowed| match allowed {
            Allowed::Folder(_) => false,
            Allowed::Urls(prefix) => {
                prefix.scheme == location.scheme
                    && prefix.authority.eq_ignore_ascii_case(&location.authority)
                    && location.key.starts_with(&prefix.key)
                    && !location.key.split('/').any(|part| part == "..")
            }
        };
        if self.allowed.iter().any(is_named) {
            return Ok(());
        }
        if !self.allowed.is_empty() {
            return Err(NOT_ALLOWED.to_owned());
        }
        if location.scheme.is_server() && serves_credentials(&location.authority) {
            return Err(
                "the host serves the credentials of cloud machines: allow it by name with --allow-path if datasets are \
                 meant to read it"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

const NOT_ALLOWED: &str = "the path is not below any --allow-path of this process: ask its operator";

/// Returns whether a host is in the link-local network or serves a cloud's metadata, by its name or its
/// resolved addresses.
fn serves_credentials(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    if METADATA_HOSTS.contains(&name.as_str()) {
        return true;
    }
    match name.parse::<IpAddr>() {
        Ok(address) => is_of_credentials(address),
        // A name that cannot be resolved cannot be read from either.
        Err(_) => (name.as_str(), 80)
            .to_socket_addrs()
            .is_ok_and(|mut addresses| addresses.any(|address| is_of_credentials(address.ip()))),
    }
}

fn is_of_credentials(address: IpAddr) -> bool {
    let address = address.to_canonical();
    METADATA_ADDRESSES.contains(&address)
        || match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(access: &Access, path: &str) -> Result<(), String> {
        access.check(&Location::of(path).unwrap())
    }

    #[test]
    fn by_default_only_credential_servers_are_refused() {
        let access = Access::default();
        for path in [
            "/etc/hosts",
            "../x",
            "s3://b/k",
            "http://127.0.0.1:1/a",
            "https://[::1]/a",
        ] {
            assert_eq!(check(&access, path), Ok(()), "{path}");
        }
        for path in [
            "http://169.254.169.254/latest/meta-data/",
            "http://[fe80::1]/x",
            "http://[::ffff:169.254.169.254]:80/x",
            "http://[fd00:ec2::254]/x",
            "http://metadata.google.internal./computeMetadata/v1/",
            "HTTP://Metadata/x",
            "http://100.100.100.200:80/x",
        ] {
            assert!(
                check(&access, path).unwrap_err().contains("credentials"),
                "{path}"
            );
        }
        let named = Access::new(&["http://169.254.169.254/files/".to_owned()]).unwrap();
        assert_eq!(check(&named, "http://169.254.169.254/files/a"), Ok(()));
    }

    #[test]
    fn a_list_of_folders_confines_everything() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("data"), folder.path().join("secret"));
        std::fs::create_dir_all(inside.join("train")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        let access = Access::new(&[inside.display().to_string()]).unwrap();
        let at = |path: &str| check(&access, &format!("{}/{path}", inside.display()));
        for path in ["", "train/a", "train/*.tar", "*/x", "not/there/yet"] {
            assert_eq!(at(path), Ok(()), "{path}");
        }
        for path in ["link/a", "../secret/a", "train/../../secret/*", "link/*"] {
            assert!(at(path).is_err(), "{path}");
        }
        for path in ["/etc/hosts", "relative", "s3://bucket/key", "http://host/a"] {
            assert!(check(&access, path).is_err(), "{path}");
        }
        let sibling = format!("{}-more/a", inside.display());
        assert!(
            check(&access, &sibling).is_err(),
            "a folder with the same prefix is not inside"
        );
    }

    #[test]
    fn a_list_of_urls_confines_stores_and_servers() {
        let prefixes = ["s3://bucket/train/", "https://host:8443/"].map(str::to_owned);
        let access = Access::new(&prefixes).unwrap();
        for path in [
            "s3://bucket/train/a*",
            "s3a://bucket/train/x",
            "https://HOST:8443/any?x=1",
        ] {
            assert_eq!(check(&access, path), Ok(()), "{path}");
        }
        for path in [
            "s3://bucket/other",
            "s3://bucket2/train/a",
            "s3://bucket/train/../other",
            "http://host:8443/a",
            "https://host/a",
            "/etc/hosts",
        ] {
            assert!(check(&access, path).is_err(), "{path}");
        }
        assert!(
            Access::new(&["data".to_owned()])
                .unwrap_err()
                .contains("absolute")
        );
        assert!(Access::new(&["/nowhere/at/all".to_owned()]).is_err());
    }
}
