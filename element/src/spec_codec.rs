//! The wire format of specs: CBOR with numbered fields. Unknown fields are skipped, so that later versions
//! can add fields. The decoder checks [`MAX_SPEC_BYTES`], and the limits of lists and nesting in `spec` and
//! `structure`, before it allocates memory.
//!
//! `spec = {0: structure, 1: [tensor]}`; `tensor = {0: dtype code, ? 1: [uint or null]}`;
//! `structure = {0: kind, ? 1: [structure], ? 2: [name], ? 3: ragged rank}`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::convert::Infallible;

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

use crate::dtype::Dtype;
use crate::spec::{ElementSpec, MAX_COMPONENTS, MAX_RANK, SpecError, TensorSpec};
use crate::structure::{MAX_DEPTH, MAX_NAME_BYTES, MAX_NODES, Structure, StructureError};

/// Maximum size of an encoded spec in bytes. The other limits keep every spec below this size: 32 KiB of
/// names, 256 nodes of at most 24 bytes, and 64 tensors of at most 160 bytes.
pub const MAX_SPEC_BYTES: usize = 64 << 10;

/// The error for bytes that are not a spec. All variants are faults of the writer of the bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecCodecError {
    /// The encoded spec is too long.
    #[error("a spec of {bytes} bytes exceeds the limit of {MAX_SPEC_BYTES}")]
    TooLong {
        /// Size of the encoded spec in bytes.
        bytes: usize,
    },
    /// The bytes are not CBOR, or not the CBOR of a spec.
    #[error("the spec is malformed at byte {at}: {what}")]
    Malformed {
        /// The offset at which decoding stopped.
        at: usize,
        /// Description of the fault.
        what: &'static str,
    },
    /// The spec uses a dtype that this version does not know.
    #[error(
        "the spec uses dtype code {code}, which this release does not know; run the same release on both sides"
    )]
    UnknownDtype {
        /// The unknown code.
        code: u8,
    },
    /// The bytes are well-formed, but the decoded spec is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

impl ElementSpec {
    /// Encodes the spec as CBOR, in at most [`MAX_SPEC_BYTES`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut encoder = Encoder::new(Vec::new());
        write_spec(self, &mut encoder).expect("writing to a vector never fails");
        encoder.into_writer()
    }

    /// Decodes a spec. Never panics, whatever the bytes are.
    ///
    /// # Errors
    /// [`SpecCodecError`] if the bytes are not a valid spec.
    pub fn from_bytes(bytes: &[u8]) -> Result<ElementSpec, SpecCodecError> {
        if bytes.len() > MAX_SPEC_BYTES {
            return Err(SpecCodecError::TooLong { bytes: bytes.len() });
        }
        let mut decoder = Decoder::new(bytes);
        let spec = read_spec(&mut decoder)?;
        if decoder.position() != bytes.len() {
            return Err(malformed(&decoder, "found bytes after the end of the spec"));
        }
        Ok(spec)
    }
}

type Written = Result<(), minicbor::encode::Error<Infallible>>;
type Bytes = Encoder<Vec<u8>>;

fn write_spec(spec: &ElementSpec, out: &mut Bytes) -> Written {
    out.map(2)?.u8(SPEC_STRUCTURE)?;
    write_structure(spec.structure(), out)?;
    out.u8(SPEC_COMPONENTS)?.array(spec.components().len() as u64)?;
    spec.components()
        .iter()
        .try_for_each(|tensor| write_tensor(tensor, out))
}

fn write_tensor(tensor: &TensorSpec, out: &mut Bytes) -> Written {
    let dims = tensor.dims();
    out.map(1 + u64::from(dims.is_some()))?
        .u8(TENSOR_DTYPE)?
        .u8(tensor.dtype().code())?;
    let Some(dims) = dims else { return Ok(()) };
    out.u8(TENSOR_DIMS)?.array(dims.len() as u64)?;
    for dim in dims {
        match dim {
            Some(dim) => out.u64(*dim)?,
            None => out.null()?,
        };
    }
    Ok(())
}

fn write_structure(structure: &Structure, out: &mut Bytes) -> Written {
    match structure {
        Structure::Leaf => out.map(1)?.u8(STRUCTURE_KIND)?.u8(KIND_LEAF).map(drop),
        Structure::None => out.map(1)?.u8(STRUCTURE_KIND)?.u8(KIND_NONE).map(drop),
        Structure::Sparse => out.map(1)?.u8(STRUCTURE_KIND)?.u8(KIND_SPARSE).map(drop),
        Structure::Ragged { ragged_rank } => out
            .map(2)?
            .u8(STRUCTURE_KIND)?
            .u8(KIND_RAGGED)?
            .u8(STRUCTURE_RAGGED_RANK)?
            .u8(*ragged_rank)
            .map(drop),
        Structure::Tuple(items) => write_items(KIND_TUPLE, items, out),
        Structure::List(items) => write_items(KIND_LIST, items, out),
        Structure::Dict(entries) => {
            out.map(3)?.u8(STRUCTURE_KIND)?.u8(KIND_DICT)?;
            out.u8(STRUCTURE_ITEMS)?.array(entries.len() as u64)?;
            entries
                .iter()
                .try_for_each(|(_, item)| write_structure(item, out))?;
            out.u8(STRUCTURE_NAMES)?.array(entries.len() as u64)?;
            entries.iter().try_for_each(|(name, _)| out.str(name).map(drop))
        }
    }
}

fn write_items(kind: u8, items: &[Structure], out: &mut Bytes) -> Written {
    out.map(2)?
        .u8(STRUCTURE_KIND)?
        .u8(kind)?
        .u8(STRUCTURE_ITEMS)?
        .array(items.len() as u64)?;
    items.iter().try_for_each(|item| write_structure(item, out))
}

fn read_spec(input: &mut Decoder<'_>) -> Result<ElementSpec, SpecCodecError> {
    let (mut structure, mut components) = (None, None);
    for _ in 0..read_map(input)? {
        match read_field(input)? {
            SPEC_STRUCTURE => structure = Some(read_structure(input, 0, &mut 0)?),
            SPEC_COMPONENTS => components = Some(read_list(input, MAX_COMPONENTS, read_tensor)?),
            _ => skip(input)?,
        }
    }
    let structure = structure.ok_or_else(|| malformed(input, "expected a structure in the spec"))?;
    let components = components.ok_or_else(|| malformed(input, "expected components in the spec"))?;
    Ok(ElementSpec::new(structure, components)?)
}

fn read_tensor(input: &mut Decoder<'_>) -> Result<TensorSpec, SpecCodecError> {
    let (mut dtype, mut dims) = (None, None);
    for _ in 0..read_map(input)? {
        match read_field(input)? {
            TENSOR_DTYPE => {
                let code = read_u8(input)?;
                dtype = Some(Dtype::from_code(code).ok_or(SpecCodecError::UnknownDtype { code })?);
            }
            TENSOR_DIMS => dims = Some(read_list(input, MAX_RANK, read_dim)?),
            _ => skip(input)?,
        }
    }
    let dtype = dtype.ok_or_else(|| malformed(input, "expected a dtype in the tensor"))?;
    Ok(dims.map_or_else(
        || TensorSpec::unknown_rank(dtype),
        |dims| TensorSpec::with_dims(dtype, &dims),
    ))
}

fn read_dim(input: &mut Decoder<'_>) -> Result<Option<u64>, SpecCodecError> {
    if input.datatype().is_ok_and(|found| found == Type::Null) {
        input
            .null()
            .map_err(|_| malformed(input, "expected a dimension as a number or null"))?;
        return Ok(None);
    }
    input
        .u64()
        .map(Some)
        .map_err(|_| malformed(input, "expected a dimension as a number or null"))
}

fn read_structure(
    input: &mut Decoder<'_>,
    depth: usize,
    nodes: &mut usize,
) -> Result<Structure, SpecCodecError> {
    *nodes += 1;
    if *nodes > MAX_NODES {
        return Err(SpecError::from(StructureError::TooManyNodes).into());
    }
    if depth > MAX_DEPTH {
        return Err(SpecError::from(StructureError::TooDeep).into());
    }
    let (mut kind, mut ragged_rank) = (None, None);
    let (mut items, mut names) = (Vec::new(), Vec::new());
    for _ in 0..read_map(input)? {
        match read_field(input)? {
            STRUCTURE_KIND => kind = Some(read_u8(input)?),
            STRUCTURE_ITEMS => {
                items = read_list(input, MAX_NODES, |input| read_structure(input, depth + 1, nodes))?;
            }
            STRUCTURE_NAMES => names = read_list(input, MAX_NODES, read_name)?,
            STRUCTURE_RAGGED_RANK => ragged_rank = Some(read_u8(input)?),
            _ => skip(input)?,
        }
    }
    match kind {
        Some(KIND_LEAF) => Ok(Structure::Leaf),
        Some(KIND_NONE) => Ok(Structure::None),
        Some(KIND_SPARSE) => Ok(Structure::Sparse),
        Some(KIND_TUPLE) => Ok(Structure::Tuple(items)),
        Some(KIND_LIST) => Ok(Structure::List(items)),
        Some(KIND_DICT) if names.len() == items.len() => {
            Ok(Structure::Dict(names.into_iter().zip(items).collect()))
        }
        Some(KIND_DICT) => Err(malformed(input, "expected one name for each item of a dict")),
        Some(KIND_RAGGED) => {
            let ragged_rank =
                ragged_rank.ok_or_else(|| malformed(input, "expected a rank in the ragged tensor"))?;
            Ok(Structure::Ragged { ragged_rank })
        }
        Some(_) => Err(malformed(input, "unknown kind of structure")),
        None => Err(malformed(input, "expected a kind in the structure")),
    }
}

fn read_name(input: &mut Decoder<'_>) -> Result<String, SpecCodecError> {
    let name = input
        .str()
        .map_err(|_| malformed(input, "expected a name as text"))?;
    if name.len() > MAX_NAME_BYTES {
        return Err(SpecError::from(StructureError::NameTooLong { bytes: name.len() }).into());
    }
    Ok(name.to_owned())
}

fn read_list<T>(
    input: &mut Decoder<'_>,
    max: usize,
    mut read: impl FnMut(&mut Decoder<'_>) -> Result<T, SpecCodecError>,
) -> Result<Vec<T>, SpecCodecError> {
    let count = input.array().ok().flatten();
    let count = count
        .filter(|count| *count <= max as u64)
        .ok_or_else(|| malformed(input, "expected a list within the limit of its length"))?;
    (0..count).map(|_| read(input)).collect()
}

fn read_map(input: &mut Decoder<'_>) -> Result<u64, SpecCodecError> {
    let count = input.map().ok().flatten();
    count
        .filter(|count| *count <= FIELDS_MAX)
        .ok_or_else(|| malformed(input, "expected a map within the limit of its fields"))
}

fn read_field(input: &mut Decoder<'_>) -> Result<u8, SpecCodecError> {
    read_u8(input)
}

fn read_u8(input: &mut Decoder<'_>) -> Result<u8, SpecCodecError> {
    input
        .u8()
        .map_err(|_| malformed(input, "expected a number up to 255"))
}

fn skip(input: &mut Decoder<'_>) -> Result<(), SpecCodecError> {
    input
        .skip()
        .map_err(|_| malformed(input, "expected CBOR in an unknown field"))
}

fn malformed(input: &Decoder<'_>, what: &'static str) -> SpecCodecError {
    SpecCodecError::Malformed {
        at: input.position(),
        what,
    }
}

const SPEC_STRUCTURE: u8 = 0;
const SPEC_COMPONENTS: u8 = 1;
const TENSOR_DTYPE: u8 = 0;
const TENSOR_DIMS: u8 = 1;
const STRUCTURE_KIND: u8 = 0;
const STRUCTURE_ITEMS: u8 = 1;
const STRUCTURE_NAMES: u8 = 2;
const STRUCTURE_RAGGED_RANK: u8 = 3;
const KIND_LEAF: u8 = 0;
const KIND_TUPLE: u8 = 1;
const KIND_LIST: u8 = 2;
const KIND_DICT: u8 = 3;
const KIND_RAGGED: u8 = 4;
const KIND_SPARSE: u8 = 5;
const KIND_NONE: u8 = 6;
/// Maximum number of fields of one map, with room for fields of later versions.
const FIELDS_MAX: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::DIM_MAX;
    use proptest::prelude::*;

    fn dtype() -> impl Strategy<Value = Dtype> {
        prop::sample::select(Dtype::ALL.to_vec())
    }

    fn tensor() -> impl Strategy<Value = TensorSpec> {
        let dims = prop::option::of(prop::collection::vec(prop::option::of(0..=DIM_MAX), 0..=MAX_RANK));
        (dtype(), dims).prop_map(|(dtype, dims)| match dims {
            Some(dims) => TensorSpec::with_dims(dtype, &dims),
            None => TensorSpec::unknown_rank(dtype),
        })
    }

    fn structure() -> impl Strategy<Value = Structure> {
        let leaf = prop_oneof![Just(Structure::Leaf), Just(Structure::None)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let entries = prop::collection::btree_map(".{0,8}", inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Structure::Tuple),
                prop::collection::vec(inner, 0..4).prop_map(Structure::List),
                entries.prop_map(|entries| Structure::Dict(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn specs_round_trip(structure in structure(), tensors in prop::collection::vec(tensor(), 64)) {
            let specs = tensors[..structure.leaves().min(64)].to_vec();
            let Ok(spec) = ElementSpec::new(structure, specs) else { return Ok(()) };
            prop_assert_eq!(ElementSpec::from_bytes(&spec.to_bytes()), Ok(spec));
        }

        #[test]
        fn any_bytes_are_a_spec_or_an_error(bytes: Vec<u8>) {
            let _ = ElementSpec::from_bytes(&bytes);
        }

        #[test]
        fn damaged_specs_are_a_spec_or_an_error(
            structure in structure(),
            tensors in prop::collection::vec(tensor(), 64),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let specs = tensors[..structure.leaves().min(64)].to_vec();
            let Ok(spec) = ElementSpec::new(structure, specs) else { return Ok(()) };
            let mut bytes = spec.to_bytes();
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            // The decoder accepts only valid specs, so an accepted spec can be encoded again.
            if let Ok(other) = ElementSpec::from_bytes(&bytes) {
                prop_assert_eq!(ElementSpec::from_bytes(&other.to_bytes()), Ok(other));
            }
            let _ = ElementSpec::from_bytes(&bytes[..cut.index(bytes.len())]);
        }
    }

    #[test]
    fn ragged_and_sparse_round_trip() {
        let index = |dims: &[Option<u64>]| TensorSpec::with_dims(Dtype::I64, dims);
        let structure = Structure::Tuple(vec![Structure::Ragged { ragged_rank: 2 }, Structure::Sparse]);
        let values = TensorSpec::with_dims(Dtype::F32, &[None]);
        let specs = vec![
            values.clone(),
            index(&[None]),
            index(&[None]),
            index(&[None, Some(2)]),
            values,
            index(&[Some(2)]),
        ];
        let spec = ElementSpec::new(structure, specs).unwrap();
        assert_eq!(ElementSpec::from_bytes(&spec.to_bytes()), Ok(spec));
    }

    #[test]
    fn the_largest_spec_fits_and_comes_back() {
        let name = |index: usize| format!("{index:0>256}");
        let entries = (0..MAX_COMPONENTS).map(|index| (name(index), Structure::Leaf));
        let dims = [Some(DIM_MAX); MAX_RANK];
        let specs = vec![TensorSpec::with_dims(Dtype::U8, &dims); MAX_COMPONENTS];
        let spec = ElementSpec::new(Structure::Dict(entries.collect()), specs).unwrap();
        assert!(spec.to_bytes().len() <= MAX_SPEC_BYTES);
        assert_eq!(ElementSpec::from_bytes(&spec.to_bytes()), Ok(spec));
    }

    #[test]
    fn deep_long_and_unknown_are_refused_by_name() {
        // The bytes begin {0: {1: [{1: [ and never end the nesting.
        let deep = [&[0xa1, 0x00][..], &[0xa1, 0x01, 0x81].repeat(10_000)].concat();
        let fault = ElementSpec::from_bytes(&deep).unwrap_err();
        assert_eq!(fault, SpecCodecError::Spec(StructureError::TooDeep.into()));
        let long = vec![0; MAX_SPEC_BYTES + 1];
        assert_eq!(
            ElementSpec::from_bytes(&long).unwrap_err(),
            SpecCodecError::TooLong {
                bytes: MAX_SPEC_BYTES + 1
            }
        );
        let dtype = [0xa2, 0, 0xa1, 0, 0, 1, 0x81, 0xa1, 0, 0x18, 99];
        assert_eq!(
            ElementSpec::from_bytes(&dtype).unwrap_err(),
            SpecCodecError::UnknownDtype { code: 99 }
        );
    }

    #[test]
    fn unknown_fields_are_skipped() {
        // {0: {0: 0, 9: [1, {2: 3}]}, 1: [{0: 6, 1: [2], 7: "x"}], 8: null}
        let later = [
            0xa3, 0, 0xa2, 0, 0, 9, 0x82, 1, 0xa1, 2, 3, 1, 0x81, 0xa3, 0, 6, 1, 0x81, 2, 7, 0x61, b'x', 8,
            0xf6,
        ];
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[2])).unwrap();
        assert_eq!(ElementSpec::from_bytes(&later), Ok(spec));
    }
}
