//! The expansion of glob patterns over the names of a store's objects. The search descends level by level,
//! and requests only prefixes that match.

use std::borrow::Cow;

use glob::{MatchOptions, Pattern};
use object_store::ObjectMeta;
use object_store::list::PaginatedListOptions;
use object_store::path::{DELIMITER, Path};

use crate::exec::ErrorKind;
use crate::storage::listed::{FILES_MAX, Listed};
use crate::storage::location::RemoteLocation;
use crate::storage::version::FileVersion;

use super::failure::Failure;
use super::fetch::{self, Attempts, Bounds, Version};
use super::shared::Parts;
use super::stores::{Pages, Store};

/// The maximum number of names that a search looks at. A longer search would take too long.
const NAMES_MAX: usize = 1 << 24;
/// The rules for matching names, which are those of local file systems.
const AS_LOCAL: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Returns the objects of `store` that match the pattern `location`, sorted.
pub(super) async fn list(
    store: Store,
    location: RemoteLocation,
    parts: Parts,
) -> Result<Vec<Listed>, Failure> {
    let invalid = |error| Failure::new(ErrorKind::Caller, format!("invalid glob pattern: {error}"));
    if location.scheme.is_server() || !has_wildcards(&location.key) {
        return single(&store, &location, parts.bounds).await;
    }
    let Some(pages) = store.pages.clone() else {
        return Err(Failure::new(
            ErrorKind::Caller,
            "the store cannot be listed: name the files one by one",
        ));
    };
    let mut search = Search {
        whole: Pattern::new(&location.key).map_err(invalid)?,
        location,
        found: Vec::new(),
        names: 0,
        bounds: parts.bounds,
    };
    let key = search.location.key.clone();
    let levels: Vec<&str> = key.split(DELIMITER).collect();
    let mut prefixes = vec![String::new()];
    for (depth, level) in levels.iter().enumerate() {
        let is_last = depth + 1 == levels.len();
        if level.contains("**") {
            for prefix in &prefixes {
                search.below(&pages, prefix, &levels[depth..]).await?;
            }
            break;
        }
        if !has_wildcards(level) && !is_last {
            for prefix in &mut prefixes {
                prefix.push_str(level);
                prefix.push_str(DELIMITER);
            }
            continue;
        }
        let pattern = Pattern::new(level).map_err(invalid)?;
        let mut next = Vec::new();
        for prefix in &prefixes {
            search
                .level(&pages, prefix, level, &pattern, is_last, &mut next)
                .await?;
        }
        prefixes = next;
    }
    if search.found.is_empty() {
        return Err(Failure::new(ErrorKind::NotFound, "matches no object"));
    }
    let mut found = search.found;
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Returns the object whose name is a pattern without wildcards.
async fn single(store: &Store, location: &RemoteLocation, bounds: Bounds) -> Result<Vec<Listed>, Failure> {
    if location.scheme.is_server() && location.key.contains(['*', '[']) {
        let reason = "an HTTP server has no listing: name its files one by one, or keep the files in a store";
        return Err(Failure::new(ErrorKind::Caller, reason));
    }
    // Some servers do not support HEAD requests, and some signatures do not allow them.
    let version = if location.scheme.is_server() {
        None
    } else {
        let key = Path::parse(&location.key).map_err(object_store::Error::from)?;
        Some(fetch::version(&*store.objects, &key, bounds).await?)
    };
    Ok(vec![Listed {
        path: location.written(),
        size_bytes: version.as_ref().map(|version| version.size_bytes),
        version: version.as_ref().map(Version::of_file),
    }])
}

/// A search for the objects that match a pattern.
struct Search {
    location: RemoteLocation,
    whole: Pattern,
    found: Vec<Listed>,
    names: usize,
    bounds: Bounds,
}

impl Search {
    /// Looks through the names directly below `prefix`. The last level collects matching objects; other
    /// levels add matching prefixes to `next`.
    async fn level(
        &mut self,
        pages: &Pages,
        prefix: &str,
        level: &str,
        pattern: &Pattern,
        is_last: bool,
        next: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let literal = level.split(WILDCARDS).next().unwrap_or_default();
        let narrowed = format!("{prefix}{literal}");
        let mut token = None;
        loop {
            let page = self.page(pages, &narrowed, true, token).await?;
            for below in page.result.common_prefixes {
                let name = below.as_ref().strip_prefix(prefix).unwrap_or_default();
                if !is_last && pattern.matches_with(name, AS_LOCAL) {
                    next.push(format!("{prefix}{name}{DELIMITER}"));
                }
            }
            for object in page.result.objects {
                // Some stores mark a directory by an object with the directory's name, which is skipped.
                let Some(name) = object.location.as_ref().strip_prefix(prefix) else {
                    continue;
                };
                if is_last && pattern.matches_with(name, AS_LOCAL) {
                    self.add(&object)?;
                }
            }
            token = page.page_token;
            if token.is_none() {
                return Ok(());
            }
        }
    }

    /// Looks through all objects below `prefix`, which the remaining levels of the pattern may match.
    async fn below(&mut self, pages: &Pages, prefix: &str, levels: &[&str]) -> Result<(), Failure> {
        // The literal start of the first level narrows the search. For `**` the literal start is empty.
        let literal = levels.first().and_then(|level| level.split(WILDCARDS).next());
        let narrowed = format!("{prefix}{}", literal.unwrap_or_default());
        let mut token = None;
        loop {
            let page = self.page(pages, &narrowed, false, token).await?;
            for object in page.result.objects {
                let name = object.location.as_ref();
                if name.starts_with(prefix) && self.whole.matches_with(name, AS_LOCAL) {
                    self.add(&object)?;
                }
            }
            token = page.page_token;
            if token.is_none() {
                return Ok(());
            }
        }
    }

    async fn page(
        &mut self,
        pages: &Pages,
        prefix: &str,
        is_level: bool,
        token: Option<String>,
    ) -> Result<object_store::list::PaginatedListResult, Failure> {
        let mut attempts = Attempts::new(self.bounds);
        let page = loop {
            let options = PaginatedListOptions {
                delimiter: is_level.then_some(Cow::Borrowed(DELIMITER)),
                page_token: token.clone(),
                ..PaginatedListOptions::default()
            };
            let prefix = (!prefix.is_empty()).then_some(prefix);
            let answer = async { Ok(pages.0.list_paginated(prefix, options).await?) };
            if let Some(page) = attempts.at(answer).await? {
                break page;
            }
        };
        self.names += page.result.objects.len() + page.result.common_prefixes.len();
        if self.names > NAMES_MAX {
            let reason = format!("the search exceeds {NAMES_MAX} names: use a narrower pattern");
            return Err(Failure::new(ErrorKind::Resource, reason));
        }
        Ok(page)
    }

    fn add(&mut self, object: &ObjectMeta) -> Result<(), Failure> {
        if self.found.len() == FILES_MAX {
            let reason = format!("matches more than {FILES_MAX} objects");
            return Err(Failure::new(ErrorKind::Resource, reason));
        }
        self.found.push(Listed {
            path: self.location.sibling(object.location.as_ref()).written(),
            size_bytes: Some(object.size),
            version: Some(FileVersion::of_object(object.size, object.e_tag.as_deref())),
        });
        Ok(())
    }
}

const WILDCARDS: [char; 3] = ['*', '?', '['];

fn has_wildcards(pattern: &str) -> bool {
    pattern.contains(WILDCARDS)
}
