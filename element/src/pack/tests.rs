//! Tests packs against naive models: written elements are read back unchanged, however they are taken and
//! split. Damaged bytes never lead to a panic or to a view outside the element.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::{
    Dtype, Element, ElementSpec, HeaderError, HeapAlloc, Layout, Origin, Pool, Provenance, SLOT_ALIGN, Shape,
    ShapeError, Slot, SlotAlloc, TensorSpec,
};

/// A tensor in the naive model.
#[derive(Debug, Clone)]
struct Model {
    dtype: Dtype,
    dims: Vec<u64>,
    payload: Payload,
}

#[derive(Debug, Clone)]
enum Payload {
    Raw(Vec<u8>),
    Strings(Vec<Vec<u8>>),
}

fn model_tensor() -> impl Strategy<Value = Model> {
    let dims = prop::collection::vec(0u64..5, 0..4);
    (prop::sample::select(Dtype::ALL.to_vec()), dims, any::<u8>()).prop_map(|(dtype, dims, seed)| {
        let items = dims.iter().product::<u64>() as usize;
        let byte = |index: usize| seed.wrapping_add(index as u8);
        let payload = match dtype.item_bytes() {
            Some(size) => Payload::Raw((0..items * size).map(byte).collect()),
            None => Payload::Strings((0..items).map(|item| vec![byte(item); item % 7]).collect()),
        };
        Model { dtype, dims, payload }
    })
}

fn provenance() -> impl Strategy<Value = Vec<Provenance>> {
    let entry = any::<(u64, u64, u64, u32)>();
    let entry = entry.prop_map(|(lease, from, upto, attempt)| Provenance {
        lease,
        from,
        upto,
        attempt,
    });
    prop::collection::vec(entry, 0..4)
}

/// Returns a spec that accepts the tensors. If `open` is true, the spec leaves all shapes open.
fn spec_of(tensors: &[Model], open: bool) -> ElementSpec {
    let spec = |tensor: &Model| match open {
        true => TensorSpec::unknown_rank(tensor.dtype),
        false => TensorSpec::fixed(tensor.dtype, &tensor.dims),
    };
    ElementSpec::tuple(tensors.iter().map(spec)).unwrap()
}

fn push(writer: &mut PackWriter, layout: &Layout, tensors: &[Model], sequence: u64, from: &[Provenance]) {
    let lists: Vec<Vec<&[u8]>> = tensors
        .iter()
        .map(|tensor| match &tensor.payload {
            Payload::Raw(_) => vec![],
            Payload::Strings(items) => items.iter().map(Vec::as_slice).collect(),
        })
        .collect();
    let refs: Vec<TensorRef<'_>> = tensors
        .iter()
        .zip(&lists)
        .map(|(tensor, list)| TensorRef {
            dtype: tensor.dtype,
            dims: &tensor.dims,
            data: match &tensor.payload {
                Payload::Raw(bytes) => TensorBytes::Raw(bytes),
                Payload::Strings(_) => TensorBytes::Strings(list),
            },
        })
        .collect();
    writer.push(layout, &refs, sequence, from).unwrap();
}

fn assert_same(element: &Element, tensors: &[Model]) {
    assert_eq!(element.len(), tensors.len());
    for (view, tensor) in element.components().zip(tensors) {
        assert_eq!((view.dtype(), view.dims()), (tensor.dtype, &tensor.dims[..]));
        assert!(view.bytes().as_ptr().addr().is_multiple_of(SLOT_ALIGN));
        match &tensor.payload {
            Payload::Raw(bytes) => assert_eq!(view.bytes(), bytes),
            Payload::Strings(items) => {
                assert!(view.strings().unwrap().iter().eq(items.iter().map(Vec::as_slice)));
            }
        }
    }
}

/// Copies an element's bytes to a slot of their own.
fn alone(bytes: &[u8]) -> Slot {
    let mut slot = HeapAlloc.alloc(bytes.len()).unwrap();
    slot.copy_from_slice(bytes);
    slot.freeze()
}

/// Opens damaged bytes with both origins. An element that opens must have all views inside the slot, in
/// order.
fn open_damaged(bytes: &[u8], layout: &Arc<Layout>) -> Result<(), TestCaseError> {
    let slot = alone(bytes);
    let ours = Element::open(slot.clone(), layout, Origin::Ours);
    let foreign = Element::open(slot.clone(), layout, Origin::Foreign);
    prop_assert_eq!(ours.as_ref().err(), foreign.as_ref().err());
    let Ok(element) = ours else { return Ok(()) };
    let inside = slot.as_ptr_range();
    let mut floor = inside.start;
    for view in element.components() {
        let range = view.bytes().as_ptr_range();
        prop_assert!(floor <= range.start && range.end <= inside.end);
        floor = range.end;
        if let Some(item_bytes) = view.dtype().item_bytes() {
            prop_assert_eq!(view.items() * item_bytes, view.bytes().len());
        } else if let Ok(strings) = view.strings() {
            prop_assert!(strings.iter().map(<[u8]>::len).sum::<usize>() <= view.bytes().len());
        }
    }
    Ok(())
}

/// Writes one element and returns its bytes.
fn written(layout: &Layout, tensors: &[Model], from: &[Provenance]) -> Vec<u8> {
    let (mut writer, open) = PackWriter::open(&HeapAlloc, 1 << 16, 1).unwrap();
    push(&mut writer, layout, tensors, 7, from);
    open.take(1, u64::MAX).unwrap().region().to_vec()
}

proptest! {
    #[test]
    fn what_is_written_comes_back(
        tensors in prop::collection::vec(model_tensor(), 0..6),
        from in provenance(),
        open_spec: bool,
        copies in 1usize..5,
        foreign: bool,
    ) {
        let layout = Layout::new(spec_of(&tensors, open_spec)).unwrap();
        let pool = Pool::new(1 << 20);
        // Fills the memory first, so that unwritten bytes are detected.
        pool.alloc(1 << 16).unwrap().fill(0xa5);
        let (mut writer, open) = PackWriter::open(&pool, 1 << 16, copies).unwrap();
        for sequence in 0..copies {
            push(&mut writer, &layout, &tensors, sequence as u64, &from);
        }
        let pack = open.take(usize::MAX, u64::MAX).unwrap();
        prop_assert_eq!(pack.len(), copies);
        let origin = if foreign { Origin::Foreign } else { Origin::Ours };
        for (sequence, slot) in pack.slots().enumerate() {
            let element = Element::open(slot, &layout, origin).unwrap();
            prop_assert_eq!(element.sequence(), sequence as u64);
            prop_assert_eq!(element.provenance(), &from[..]);
            assert_same(&element, &tensors);
            assert_same(&element.to_owned_copy().unwrap(), &tensors);
        }
        let lens: Vec<u64> = pack.lens().collect();
        let received = Pack::from_parts(alone(pack.region()), &lens).unwrap();
        let last = Element::open(received.element_slot(copies - 1).unwrap(), &layout, Origin::Ours).unwrap();
        assert_same(&last, &tensors);
    }

    #[test]
    fn splitting_keeps_every_element_once_in_order(
        sizes in prop::collection::vec(0u64..300, 1..40),
        steps in prop::collection::vec((any::<bool>(), 1usize..6, 100u64..600, any::<Index>()), 1..80),
    ) {
        let layout = Layout::new(ElementSpec::single(TensorSpec::with_dims(Dtype::U8, &[None])).unwrap()).unwrap();
        let (mut writer, open) = PackWriter::open(&HeapAlloc, 1 << 15, sizes.len()).unwrap();
        let element_bytes = |size: u64| layout.element_bytes(&[Shape::fixed(&[size])], 0).unwrap() as u64;
        let (mut written, mut taken) = (0, 0);
        for (write, most, limit, split) in steps {
            if write {
                let Some(size) = sizes.get(written) else { continue };
                let mut element = writer.begin(&layout, &[Shape::fixed(&[*size])], 0).unwrap();
                element.component_mut(0).fill(written as u8);
                element.finish(written as u64, &[]).unwrap();
                written += 1;
            } else {
                let waiting = sizes[taken..written].iter().map(|size| element_bytes(*size));
                let wanted = waiting.clone().take(most).take_while(|bytes| *bytes <= limit).count();
                prop_assert_eq!(open.next_len(), waiting.clone().next());
                let shared = open.part(taken, most, limit);
                let pack = open.take(most, limit);
                prop_assert_eq!(pack.as_ref().map_or(0, Pack::len), wanted);
                // A part is the same memory as the taken pack, before and after the elements are taken.
                for shared in [shared, open.part(taken, most, limit)] {
                    let place = |pack: &Pack| (pack.len(), pack.region().as_ptr_range());
                    prop_assert_eq!(shared.as_ref().map(place), pack.as_ref().map(place));
                }
                prop_assert_eq!((open.finished(), open.element_len(written)), (written, None));
                let Some(mut tail) = pack else { continue };
                prop_assert!(tail.lens().eq(waiting.clone().take(wanted)));
                prop_assert_eq!(tail.fitting(most, limit), wanted);
                let head = tail.split_to(split.index(wanted + 1));
                prop_assert_eq!(head.len() + tail.len(), wanted);
                for part in [&head, &tail] {
                    let lens: Vec<u64> = part.lens().collect();
                    prop_assert!(part.is_empty() || Pack::from_parts(part.region().clone(), &lens).is_ok());
                    for slot in part.slots() {
                        let element = Element::open(slot, &layout, Origin::Ours).unwrap();
                        prop_assert_eq!(element.sequence(), taken as u64);
                        let bytes = element.component(0).unwrap().bytes();
                        prop_assert_eq!(bytes, &vec![taken as u8; sizes[taken] as usize][..]);
                        taken += 1;
                    }
                }
            }
        }
        drop(writer);
        let rest = open.take(usize::MAX, u64::MAX).map_or(0, |pack| pack.len());
        prop_assert_eq!((taken + rest, open.next_len()), (written, None));
    }

    #[test]
    fn any_bytes_are_an_element_or_an_error(bytes: Vec<u8>, tensors in prop::collection::vec(model_tensor(), 0..4)) {
        let mut bytes = bytes;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        for open in [false, true] {
            open_damaged(&bytes, &Layout::new(spec_of(&tensors, open)).unwrap())?;
        }
    }

    #[test]
    fn damaged_elements_never_lead_outside_the_slot(
        tensors in prop::collection::vec(model_tensor(), 1..5),
        from in provenance(),
        open_spec: bool,
        flips in prop::collection::vec((any::<Index>(), any::<bool>(), 0u8..8), 1..6),
        cut in any::<Index>(),
        more in prop::collection::vec(any::<u64>(), 1..12),
    ) {
        let layout = Layout::new(spec_of(&tensors, open_spec)).unwrap();
        let whole = written(&layout, &tensors, &from);
        let mut flipped = whole.clone();
        for (at, in_header, bit) in flips {
            // Half of the damage goes to the header, which has the most effect.
            let floor = if in_header { whole.len().saturating_sub(160) } else { 0 };
            let at = floor + at.index(whole.len() - floor);
            flipped[at] ^= 1 << bit;
            open_damaged(&flipped, &layout)?;
        }
        open_damaged(&whole[..cut.index(whole.len())], &layout)?;
        open_damaged(&whole[cut.index(whole.len()) / 8 * 8..], &layout)?;
        let longer: Vec<u8> = whole.iter().copied().chain(more.iter().flat_map(|word| word.to_le_bytes())).collect();
        open_damaged(&longer, &layout)?;
    }

    #[test]
    fn any_table_is_a_pack_or_an_error(size in 0usize..2000, lens in prop::collection::vec(any::<u64>(), 0..6)) {
        for scale in [1, 1 << 54] {
            let lens: Vec<u64> = lens.iter().map(|len| len / scale).collect();
            let Ok(pack) = Pack::from_parts(HeapAlloc.alloc(size).unwrap().freeze(), &lens) else { continue };
            prop_assert_eq!(pack.slots().map(|slot| slot.len() as u64).collect::<Vec<_>>(), lens);
        }
    }
}

fn bytes_layout() -> Arc<Layout> {
    Layout::new(ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[64])).unwrap()).unwrap()
}

#[test]
fn a_full_pack_keeps_what_it_has() {
    let layout = bytes_layout();
    let (mut writer, open) = PackWriter::open(&HeapAlloc, 128 + 104, 10).unwrap();
    for sequence in 0..2 {
        writer
            .begin(&layout, &[], 0)
            .unwrap()
            .finish(sequence, &[])
            .unwrap();
    }
    let fault = writer.begin(&layout, &[], 0).unwrap_err();
    assert!(fault.is_full(), "{fault}");
    assert_eq!(writer.len(), 2);
    assert_eq!(open.take(10, u64::MAX).map(|pack| pack.len()), Some(2));
    let (mut writer, _open) = PackWriter::open(&HeapAlloc, 4096, 1).unwrap();
    writer.begin(&layout, &[], 0).unwrap().finish(0, &[]).unwrap();
    assert!(writer.begin(&layout, &[], 0).unwrap_err().is_full());
}

#[test]
fn an_abandoned_or_refused_element_leaves_no_trace() {
    let layout = bytes_layout();
    let (mut writer, open) = PackWriter::open(&HeapAlloc, 4096, 10).unwrap();
    writer.begin(&layout, &[], 0).unwrap().component_mut(0).fill(1);
    let tensor = |dtype, data| TensorRef {
        dtype,
        dims: &[64],
        data: TensorBytes::Raw(data),
    };
    let short = writer.push(&layout, &[tensor(Dtype::U8, &[0; 63])], 0, &[]);
    assert_eq!(
        short,
        Err(WriteError::Size {
            component: 0,
            given_bytes: 63,
            wanted_bytes: 64
        })
    );
    let other = writer.push(&layout, &[tensor(Dtype::I8, &[0; 64])], 0, &[]);
    assert_eq!(
        other,
        Err(WriteError::Shape(ShapeError::Refused { component: 0 }))
    );
    let none = writer.push(&layout, &[], 0, &[]);
    assert_eq!(
        none,
        Err(WriteError::Shape(ShapeError::Count { given: 0, wanted: 1 }))
    );
    let unplanned = writer
        .begin(&layout, &[], 0)
        .unwrap()
        .finish(0, &[Provenance::default()]);
    assert_eq!(
        unplanned,
        Err(WriteError::Shape(ShapeError::TooManyProvenance { count: 1 }))
    );
    assert!(open.take(10, u64::MAX).is_none());
    assert!(writer.is_empty());
}

#[test]
fn reused_memory_shows_in_no_gap() {
    let spec = ElementSpec::tuple([
        TensorSpec::fixed(Dtype::U8, &[3]),
        TensorSpec::fixed(Dtype::U8, &[5]),
    ]);
    let layout = Layout::new(spec.unwrap()).unwrap();
    let pool = Pool::new(8192);
    pool.alloc(4096).unwrap().fill(0xa5);
    let (mut writer, open) = PackWriter::open(&pool, 4096, 10).unwrap();
    for sequence in 0..3 {
        let mut element = writer.begin(&layout, &[], 1).unwrap();
        element.component_mut(0).fill(1);
        element.component_mut(1).fill(2);
        element.finish(sequence, &[Provenance::default()]).unwrap();
    }
    let pack = open.take(10, u64::MAX).unwrap();
    assert!(!pack.region().contains(&0xa5));
}

#[test]
fn lying_headers_are_refused_by_name() {
    let layout = bytes_layout();
    let (mut writer, open) = PackWriter::open(&HeapAlloc, 4096, 10).unwrap();
    writer.begin(&layout, &[], 0).unwrap().finish(0, &[]).unwrap();
    let good = open.take(1, u64::MAX).unwrap().region().to_vec();
    let open_one = |bytes: &[u8]| {
        Element::open(alone(bytes), &layout, Origin::Foreign)
            .map(drop)
            .unwrap_err()
    };
    assert_eq!(open_one(&good[..32]), HeaderError::Length { size_bytes: 32 });
    assert_eq!(open_one(&good[..103]), HeaderError::Length { size_bytes: 103 });
    assert_eq!(open_one(&good[8..]), HeaderError::NotStatic);
    let mut versioned = good.clone();
    versioned[64] = 9;
    assert_eq!(open_one(&versioned), HeaderError::Version { version: 9 });
    let mut long = good.clone();
    long[68..72].copy_from_slice(&u32::MAX.to_le_bytes());
    let size_bytes = good.len();
    assert_eq!(
        open_one(&long),
        HeaderError::HeaderLength {
            header_bytes: u32::MAX as usize,
            size_bytes
        }
    );
    let slot = alone(&[&[0; 8], &good[..]].concat());
    let misaligned = Element::open(slot.slice(8..slot.len()), &layout, Origin::Ours).map(drop);
    assert_eq!(misaligned, Err(HeaderError::Misaligned));
}

#[test]
fn a_taker_sees_whole_elements_during_writes() {
    const ELEMENTS: u64 = 5000;
    let layout =
        Layout::new(ElementSpec::single(TensorSpec::with_dims(Dtype::U64, &[None])).unwrap()).unwrap();
    let (mut writer, open) = PackWriter::open(&HeapAlloc, 4 << 20, ELEMENTS as usize).unwrap();
    std::thread::scope(|scope| {
        let layout = &layout;
        scope.spawn(move || {
            for sequence in 0..ELEMENTS {
                let items = vec![sequence; 1 + (sequence % 50) as usize];
                let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_le_bytes()).collect();
                let dims = [items.len() as u64];
                let tensor = TensorRef {
                    dtype: Dtype::U64,
                    dims: &dims,
                    data: TensorBytes::Raw(&bytes),
                };
                writer.push(layout, &[tensor], sequence, &[]).unwrap();
            }
        });
        let mut next = 0;
        while next < ELEMENTS {
            let Some(pack) = open.take(7, u64::MAX) else {
                std::thread::yield_now();
                continue;
            };
            for slot in pack.slots() {
                let element = Element::open(slot, layout, Origin::Ours).unwrap();
                assert_eq!(element.sequence(), next);
                let items = element.component(0).unwrap().as_slice::<u64>().unwrap();
                assert_eq!(items, vec![next; 1 + (next % 50) as usize]);
                next += 1;
            }
        }
        assert!(open.take(1, u64::MAX).is_none());
    });
}
