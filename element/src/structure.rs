//! Structures (pytrees): the nesting of an element's components. This file does not know dtypes and shapes.
//!
//! The flatten order is depth first, with children in their written order; the entries of a dict are not
//! sorted. A composite flattens to fixed parts. `Ragged` flattens to `values`, then `row_splits.0`,
//! `row_splits.1`, … from the outermost inward. `Sparse` flattens to `indices`, `values`, `dense_shape`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Maximum depth of nested containers. A bare leaf has depth 0.
pub const MAX_DEPTH: usize = 8;
/// Maximum number of nodes of a structure, leaves and empty containers included: four for each of the 64
/// components.
pub const MAX_NODES: usize = 256;
/// Maximum size of a dict key in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// Maximum total size of a structure's dict keys in bytes.
pub const MAX_NAMES_BYTES: usize = 32 << 10;

/// The nesting of an element's components.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Structure {
    /// One component.
    Leaf,
    /// A tuple of structures.
    Tuple(Vec<Structure>),
    /// A list of structures.
    List(Vec<Structure>),
    /// Named structures, in their written order. The names are unique.
    Dict(Vec<(String, Structure)>),
    /// A ragged tensor: the values, and `ragged_rank` (at least 1) tensors of row splits.
    Ragged {
        /// The number of ragged dimensions.
        ragged_rank: u8,
    },
    /// A sparse tensor in coordinate form.
    Sparse,
    /// An empty structure, without a component.
    None,
}

/// The error for an invalid structure. All variants are faults of the structure's author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StructureError {
    /// Containers nest too deep.
    #[error("structure nests deeper than {MAX_DEPTH} levels; flatten it")]
    TooDeep,
    /// The structure has too many nodes.
    #[error("structure has more than {MAX_NODES} nodes; stack components into fewer tensors")]
    TooManyNodes,
    /// A dict key is too long.
    #[error("a dict key is {bytes} bytes long, the limit is {MAX_NAME_BYTES}")]
    NameTooLong {
        /// Size of the key in bytes.
        bytes: usize,
    },
    /// All dict keys together are too long.
    #[error("the dict keys exceed {MAX_NAMES_BYTES} bytes together; shorten them")]
    NamesTooLong,
    /// A dict key occurs twice.
    #[error("duplicate dict key `{name}`; keys must be unique")]
    DuplicateName {
        /// The duplicate key.
        name: String,
    },
    /// A ragged tensor has a rank of 0 or above the limit.
    #[error("expected a ragged rank of 1 to {MAX_RAGGED_RANK} for a ragged tensor, found {ragged_rank}")]
    RaggedRank {
        /// The rank passed by the caller.
        ragged_rank: u8,
    },
}

/// Maximum number of ragged dimensions of one ragged tensor: one less than the maximum rank.
pub const MAX_RAGGED_RANK: u8 = 15;

impl Structure {
    /// Returns the number of components to which the structure flattens.
    #[must_use]
    pub fn leaves(&self) -> usize {
        match self {
            Structure::Leaf => 1,
            Structure::Tuple(items) | Structure::List(items) => items.iter().map(Structure::leaves).sum(),
            Structure::Dict(entries) => entries.iter().map(|(_, item)| item.leaves()).sum(),
            Structure::Ragged { ragged_rank } => 1 + usize::from(*ragged_rank),
            Structure::Sparse => SPARSE_PARTS.len(),
            Structure::None => 0,
        }
    }

    /// Checks the structure against all limits of this module.
    ///
    /// # Errors
    /// Returns the first limit that the structure exceeds.
    pub fn check(&self) -> Result<(), StructureError> {
        self.check_below(0, &mut 0)?;
        if self.names_bytes() > MAX_NAMES_BYTES {
            return Err(StructureError::NamesTooLong);
        }
        Ok(())
    }

    /// Returns the flat index of the leaf at `path`, which joins keys and indices by dots, as in `image` or
    /// `a.b.0`. The empty path names a bare leaf. A key that contains dots is matched as written.
    #[must_use]
    pub fn position(&self, path: &str) -> Option<usize> {
        match self {
            Structure::Leaf => path.is_empty().then_some(0),
            Structure::Tuple(items) | Structure::List(items) => {
                let mut before = 0;
                items.iter().enumerate().find_map(|(index, item)| {
                    let base = before;
                    before += item.leaves();
                    item.position(descend(path, &index.to_string())?)
                        .map(|inner| base + inner)
                })
            }
            Structure::Dict(entries) => {
                let mut before = 0;
                entries.iter().find_map(|(name, item)| {
                    let base = before;
                    before += item.leaves();
                    item.position(descend(path, name)?).map(|inner| base + inner)
                })
            }
            Structure::Ragged { ragged_rank } => match path {
                RAGGED_VALUES => Some(0),
                _ => {
                    let row: u8 = path
                        .strip_prefix(RAGGED_SPLITS)?
                        .strip_prefix('.')?
                        .parse()
                        .ok()?;
                    (row < *ragged_rank).then_some(1 + usize::from(row))
                }
            },
            Structure::Sparse => SPARSE_PARTS.iter().position(|part| *part == path),
            Structure::None => None,
        }
    }

    /// Returns the path of every leaf in flatten order; the inverse of [`Structure::position`].
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.push_paths(None, &mut out);
        out
    }

    fn names_bytes(&self) -> usize {
        match self {
            Structure::Leaf | Structure::Ragged { .. } | Structure::Sparse | Structure::None => 0,
            Structure::Tuple(items) | Structure::List(items) => {
                items.iter().map(Structure::names_bytes).sum()
            }
            Structure::Dict(entries) => entries
                .iter()
                .map(|(name, item)| name.len() + item.names_bytes())
                .sum(),
        }
    }

    fn check_below(&self, depth: usize, nodes: &mut usize) -> Result<(), StructureError> {
        *nodes += 1;
        if *nodes > MAX_NODES {
            return Err(StructureError::TooManyNodes);
        }
        match self {
            Structure::Leaf | Structure::Sparse | Structure::None => Ok(()),
            Structure::Ragged { ragged_rank } => {
                let fits = (1..=MAX_RAGGED_RANK).contains(ragged_rank);
                if fits {
                    Ok(())
                } else {
                    Err(StructureError::RaggedRank {
                        ragged_rank: *ragged_rank,
                    })
                }
            }
            Structure::Tuple(items) | Structure::List(items) => {
                check_depth(depth)?;
                items
                    .iter()
                    .try_for_each(|item| item.check_below(depth + 1, nodes))
            }
            Structure::Dict(entries) => {
                check_depth(depth)?;
                for (index, (name, item)) in entries.iter().enumerate() {
                    item.check_below(depth + 1, nodes)?;
                    check_name(name, &entries[..index])?;
                }
                Ok(())
            }
        }
    }

    fn push_paths(&self, prefix: Option<&str>, out: &mut Vec<String>) {
        match self {
            Structure::Leaf => out.push(prefix.unwrap_or_default().to_owned()),
            Structure::Tuple(items) | Structure::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.push_paths(Some(&join(prefix, &index.to_string())), out);
                }
            }
            Structure::Dict(entries) => {
                for (name, item) in entries {
                    item.push_paths(Some(&join(prefix, name)), out);
                }
            }
            Structure::Ragged { ragged_rank } => {
                out.push(join(prefix, RAGGED_VALUES));
                out.extend((0..*ragged_rank).map(|row| join(prefix, &format!("{RAGGED_SPLITS}.{row}"))));
            }
            Structure::Sparse => out.extend(SPARSE_PARTS.iter().map(|part| join(prefix, part))),
            Structure::None => {}
        }
    }
}

/// Returns the part of `path` below the entry `name`; `None` if the path does not begin with this entry.
fn descend<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(name)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('.')
    }
}

fn join(prefix: Option<&str>, name: &str) -> String {
    prefix.map_or_else(|| name.to_owned(), |prefix| format!("{prefix}.{name}"))
}

fn check_depth(depth: usize) -> Result<(), StructureError> {
    if depth < MAX_DEPTH {
        Ok(())
    } else {
        Err(StructureError::TooDeep)
    }
}

fn check_name(name: &str, earlier: &[(String, Structure)]) -> Result<(), StructureError> {
    if name.len() > MAX_NAME_BYTES {
        return Err(StructureError::NameTooLong { bytes: name.len() });
    }
    if earlier.iter().any(|(other, _)| other == name) {
        return Err(StructureError::DuplicateName {
            name: name.to_owned(),
        });
    }
    Ok(())
}

/// The parts of a sparse tensor, in flatten order.
pub(crate) const SPARSE_PARTS: [&str; 3] = ["indices", "values", "dense_shape"];
/// The name of a ragged tensor's first part.
pub(crate) const RAGGED_VALUES: &str = "values";
/// The name of a ragged tensor's other parts, which are numbered from the outermost inward.
pub(crate) const RAGGED_SPLITS: &str = "row_splits";

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Structure {
        Structure::Dict(vec![
            ("z".to_owned(), Structure::Leaf),
            (
                "a".to_owned(),
                Structure::Tuple(vec![Structure::None, Structure::Ragged { ragged_rank: 2 }]),
            ),
            (
                "b.c".to_owned(),
                Structure::List(vec![Structure::Leaf, Structure::Sparse]),
            ),
        ])
    }

    #[test]
    fn every_path_finds_its_position() {
        let paths = sample().paths();
        let wanted = [
            "z",
            "a.1.values",
            "a.1.row_splits.0",
            "a.1.row_splits.1",
            "b.c.0",
            "b.c.1.indices",
            "b.c.1.values",
            "b.c.1.dense_shape",
        ];
        assert_eq!(paths, wanted);
        assert_eq!(sample().leaves(), wanted.len());
        for (index, path) in paths.iter().enumerate() {
            assert_eq!(sample().position(path), Some(index), "{path}");
        }
        for absent in ["", "a", "a.0", "y", "a.1.row_splits.2", "b.c.2", "z.0"] {
            assert_eq!(sample().position(absent), None, "{absent}");
        }
        assert_eq!(Structure::Leaf.position(""), Some(0));
    }

    #[test]
    fn bounds_are_enforced() {
        let nest = |levels: usize| (0..levels).fold(Structure::Leaf, |inner, _| Structure::List(vec![inner]));
        assert_eq!(nest(MAX_DEPTH).check(), Ok(()));
        assert_eq!(nest(MAX_DEPTH + 1).check(), Err(StructureError::TooDeep));
        let wide = Structure::Tuple(vec![Structure::None; MAX_NODES]);
        assert_eq!(wide.check(), Err(StructureError::TooManyNodes));
        let twice = Structure::Dict(vec![
            ("a".to_owned(), Structure::Leaf),
            ("a".to_owned(), Structure::None),
        ]);
        assert_eq!(
            twice.check(),
            Err(StructureError::DuplicateName { name: "a".to_owned() })
        );
        let long = Structure::Dict(vec![("a".repeat(MAX_NAME_BYTES + 1), Structure::Leaf)]);
        assert_eq!(
            long.check(),
            Err(StructureError::NameTooLong {
                bytes: MAX_NAME_BYTES + 1
            })
        );
        let names = (0..200)
            .map(|index| (format!("{index:0>256}"), Structure::None))
            .collect();
        assert_eq!(Structure::Dict(names).check(), Err(StructureError::NamesTooLong));
        assert_eq!(
            Structure::Ragged { ragged_rank: 0 }.check(),
            Err(StructureError::RaggedRank { ragged_rank: 0 })
        );
    }
}
