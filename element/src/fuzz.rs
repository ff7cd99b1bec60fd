//! Fuzz targets for the decoders of elements. `cargo test` replays their corpora and adds random inputs.
//! CONTRIBUTING.md describes the search for new inputs.

use std::sync::{Arc, LazyLock};

use crate::{
    Dtype, Element, ElementSpec, HeapAlloc, Layout, Origin, Pack, SlotAlloc, Strings, Structure, TensorSpec,
    each_lease,
};

/// The number of random inputs, in addition to the corpus, for each target in a test run.
const RANDOM_INPUTS: usize = 200;

#[test]
fn specs() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            if let Ok(spec) = ElementSpec::from_bytes(bytes) {
                let again = ElementSpec::from_bytes(&spec.to_bytes());
                assert_eq!(again.as_ref(), Ok(&spec));
                let _ = Layout::new(spec);
            }
        });
}

#[test]
fn headers() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let Some((layout, element)) = bytes.split_first() else {
                return;
            };
            open(&LAYOUTS[usize::from(*layout) % LAYOUTS.len()], element);
        });
}

#[test]
fn packs() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let Some((count, rest)) = bytes.split_first() else {
                return;
            };
            let (lens, region) = rest.split_at(rest.len().min(usize::from(*count) * 2));
            let lens: Vec<u64> = lens
                .chunks_exact(2)
                .map(|len| u64::from(u16::from_le_bytes([len[0], len[1]])))
                .collect();
            let mut slot = HeapAlloc.alloc(region.len()).unwrap();
            slot.copy_from_slice(region);
            if let Ok(pack) = Pack::from_parts(slot.freeze(), &lens) {
                assert_eq!(pack.len(), lens.len());
                assert_eq!(pack.region().len(), region.len());
            }
        });
}

#[test]
fn strings() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let Some((items, payload)) = bytes.split_first() else {
                return;
            };
            if let Ok(strings) = Strings::open(payload, usize::from(*items)) {
                assert_eq!(strings.iter().count(), usize::from(*items));
                strings.iter_str().for_each(drop);
            }
        });
}

/// Layouts whose headers contain different data: no table, one component of varying shape, strings, or many
/// components.
static LAYOUTS: LazyLock<[Arc<Layout>; 4]> = LazyLock::new(|| {
    let varying = TensorSpec::with_dims(Dtype::F32, &[None, Some(2)]);
    let specs = [
        ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[64])),
        ElementSpec::single(varying.clone()),
        ElementSpec::dict([
            ("name", TensorSpec::with_dims(Dtype::String, &[None])),
            ("image", TensorSpec::unknown_rank(Dtype::U8)),
        ]),
        ElementSpec::new(Structure::Tuple(vec![Structure::Leaf; 5]), vec![varying; 5]),
    ];
    specs.map(|spec| Layout::new(spec.unwrap()).unwrap())
});

/// Opens an element twice, as memory of this process and of another process. Both attempts must give the same
/// result, and every view must be inside the element.
fn open(layout: &Arc<Layout>, bytes: &[u8]) {
    let mut slot = HeapAlloc.alloc(bytes.len()).unwrap();
    slot.copy_from_slice(bytes);
    let slot = slot.freeze();
    each_lease(&slot, |_| {});
    let ours = Element::open(slot.clone(), layout, Origin::Ours);
    let foreign = Element::open(slot, layout, Origin::Foreign);
    assert_eq!(
        ours.as_ref().map(|_| ()).map_err(ToString::to_string),
        foreign.as_ref().map(|_| ()).map_err(ToString::to_string)
    );
    let (Ok(ours), Ok(foreign)) = (ours, foreign) else {
        return;
    };
    assert_eq!(ours.provenance(), foreign.provenance());
    for (one, other) in ours.components().zip(foreign.components()) {
        assert_eq!((one.dims(), one.bytes()), (other.dims(), other.bytes()));
        if let Ok(strings) = one.strings() {
            strings.iter().for_each(drop);
        }
    }
    let copy = ours.to_owned_copy().unwrap();
    assert_eq!(copy.slot()[..], ours.slot()[..]);
}
