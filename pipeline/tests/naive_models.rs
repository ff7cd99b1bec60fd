//! Tests of operations and sources that the random chains of `model` do not cover. Each test compares
//! an operation with naive code over random data, saves the state at a random position, and continues.
//! `promises` names the test of every operation.

use std::path::Path;

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use millstream_pipeline::exec::save;
use millstream_pipeline::graph::{
    ConstantTensor, Dataset, Expr, ImageFolder, JsonField, Packing, Params, col,
};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{context, functions, open, rendered, scalar};

/// Returns all elements, rendered as text. The executor is saved and restored after `cut` elements.
fn interrupted(dataset: &Dataset, cut: usize) -> Vec<String> {
    let graph = dataset.clone().graph().unwrap();
    let mut executor = open(&graph);
    let mut found = Vec::new();
    for _ in 0..cut {
        found.extend(executor.next().unwrap().map(|item| rendered(&item.value)));
    }
    let state = executor.save().unwrap();
    // Only one execution at a time may write the files, so the first executor must end.
    drop(executor);
    let mut restored = open(&graph);
    restored.restore(&state).unwrap();
    while let Some(item) = restored.next().unwrap() {
        found.push(rendered(&item.value));
    }
    found
}

fn numbers(numbers: &[i64]) -> Dataset {
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[numbers.len() as u64])).unwrap();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Dataset::tensor_slices(spec, vec![ConstantTensor::fixed(bytes)])
}

fn texts(texts: &[String]) -> Dataset {
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::String, &[texts.len() as u64])).unwrap();
    Dataset::tensor_slices(spec, vec![ConstantTensor::items(texts.iter().cloned())])
}

fn shown(numbers: &[i64]) -> Vec<String> {
    numbers.iter().map(i64::to_string).collect()
}

fn some_numbers() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(any::<i64>(), 1..9)
}

/// Draws nested containers with at least one leaf.
fn structures() -> impl Strategy<Value = Structure> {
    Just(Structure::Leaf).prop_recursive(3, 12, 3, |inner| {
        let items = || prop::collection::vec(inner.clone(), 1..4);
        let named = |items: Vec<Structure>| {
            let names = (0..).map(|index| format!("k{index}"));
            Structure::Dict(names.zip(items).collect())
        };
        prop_oneof![
            items().prop_map(Structure::Tuple),
            items().prop_map(Structure::List),
            items().prop_map(named),
        ]
    })
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).display().to_string()
}

proptest! {
    #![proptest_config(rounds(40))]

    #[test]
    fn constants_are_one_element_or_their_rows(rows in prop::collection::vec((any::<i64>(), "[a-z]{0,3}"), 1..9), cut in 0usize..8) {
        let count = rows.len() as u64;
        let spec = ElementSpec::tuple([TensorSpec::fixed(Dtype::I64, &[count]), TensorSpec::fixed(Dtype::String, &[count])]);
        let spec = spec.unwrap();
        let tensors = || {
            let bytes: Vec<u8> = rows.iter().flat_map(|(number, _)| number.to_le_bytes()).collect();
            vec![ConstantTensor::fixed(bytes), ConstantTensor::items(rows.iter().map(|(_, text)| text.clone()))]
        };
        let each: Vec<String> = rows.iter().map(|(number, text)| format!("{number} {text}")).collect();
        prop_assert_eq!(interrupted(&Dataset::tensor_slices(spec.clone(), tensors()), cut), each);
        let (left, right): (Vec<String>, Vec<String>) = rows.iter().map(|(number, text)| (number.to_string(), text.clone())).unzip();
        let whole = format!("[{}] [{}]", left.join(" "), right.join(" "));
        prop_assert_eq!(interrupted(&Dataset::tensors(spec, tensors()), cut), [whole]);
    }

    #[test]
    fn files_come_sorted_or_seeded(
        names in prop::collection::btree_set("[a-c\u{e9}]{1,3}", 1..9),
        seed: u64,
        cut in 0usize..8,
    ) {
        let directory = tempfile::tempdir().unwrap();
        for name in &names {
            std::fs::write(path(directory.path(), &format!("{name}.txt")), "").unwrap();
            std::fs::write(path(directory.path(), &format!("{name}.other")), "").unwrap();
        }
        let pattern = path(directory.path(), "*.txt");
        let mut expected: Vec<String> = names.iter().map(|name| path(directory.path(), &format!("{name}.txt"))).collect();
        expected.sort();
        prop_assert_eq!(interrupted(&Dataset::files(&*pattern), cut), &expected[..]);
        let shuffled = Dataset::files_shuffled(&*pattern, Some(seed));
        let mut found = interrupted(&shuffled, cut);
        prop_assert_eq!(&interrupted(&shuffled, 3), &found);
        found.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_picture_folder_has_files_and_classes(
        files in prop::collection::btree_map(("[a-c]{1,2}", "[a-c]{1,2}"), "[a-z]{1,4}", 1..9),
        cut in 0usize..8,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let classes: std::collections::BTreeSet<&String> = files.keys().map(|(class, _)| class).collect();
        let mut expected = Vec::new();
        for ((class, name), content) in &files {
            let file = format!("{class}/{name}.png");
            let file = path(directory.path(), &file);
            std::fs::create_dir_all(Path::new(&file).parent().unwrap()).unwrap();
            std::fs::write(&file, content).unwrap();
            let label = classes.iter().position(|other| *other == class).unwrap();
            expected.push((file.clone(), format!("{content} {label} {file}")));
        }
        expected.sort();
        let expected: Vec<String> = expected.into_iter().map(|(_, shown)| shown).collect();
        let folder = Dataset::image_folder(ImageFolder::new(path(directory.path(), "")));
        prop_assert_eq!(interrupted(&folder, cut), expected);
    }

    #[test]
    fn integers_are_read_of_their_text(all in some_numbers(), cut in 0usize..8) {
        prop_assert_eq!(interrupted(&texts(&shown(&all)).parse_int(""), cut), shown(&all));
    }

    #[test]
    fn fields_of_documents_become_components(
        documents in prop::collection::vec((any::<i64>(), prop::option::of(any::<bool>()), prop::collection::vec(any::<i64>(), 0..4)), 1..6),
        cut in 0usize..8,
    ) {
        let written = documents.iter().map(|(n, flag, list)| {
            let flag = flag.map_or(String::new(), |flag| format!("\"flag\": {flag}, "));
            format!("{{\"in\": {{\"n\": {n}}}, {flag}\"list\": [{}]}}", shown(list).join(", "))
        });
        let written: Vec<String> = written.collect();
        let fields = [
            JsonField::new("n", "in.n", Dtype::I64, &[]),
            JsonField::new("list", "list", Dtype::I64, &[None]),
        ];
        let expected = documents.iter().map(|(n, _, list)| format!("{n} [{}]", shown(list).join(" ")));
        prop_assert_eq!(interrupted(&texts(&written).parse_json("", fields), cut), expected.collect::<Vec<_>>());
    }

    #[test]
    fn texts_are_cut_into_the_words_between(lines in prop::collection::vec("[ab ]{0,6}", 1..6), by_one: bool) {
        let separator = by_one.then_some(" ");
        let (mut words, mut ends) = (Vec::new(), vec![0i64]);
        for line in &lines {
            match separator {
                Some(separator) => words.extend(line.split(separator)),
                None => words.extend(line.split_whitespace()),
            }
            ends.push(words.len() as i64);
        }
        let count = lines.len() as u64;
        let cut = texts(&lines).batch(count, false).split_ragged("", separator);
        let expected = format!("[{}] [{}]", words.join(" "), shown(&ends).join(" "));
        prop_assert_eq!(interrupted(&cut, 0), [expected]);
    }

    #[test]
    fn selected_components_keep_names_and_order(
        all in some_numbers(),
        order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
        kept in 1usize..5,
        cut in 0usize..8,
    ) {
        let names = ["a", "b", "c", "d"];
        let four = numbers(&all).map_exprs((0i64..).zip(names).map(|(add, name)| (name, col("") + add)));
        let order = &order[..kept];
        let paths: Vec<String> = order.iter().map(|index| format!("new {index}")).collect();
        let chosen = four.select(order.iter().zip(&paths).map(|(index, name)| (names[*index], &**name)));
        let facts = chosen.clone().graph().unwrap().facts(&functions()).unwrap();
        prop_assert_eq!(facts.spec.structure().paths(), paths);
        let shifted = |number: &i64| {
            let shifted: Vec<i64> = order.iter().map(|index| number.wrapping_add(*index as i64)).collect();
            shown(&shifted).join(" ")
        };
        prop_assert_eq!(interrupted(&chosen, cut), all.iter().map(shifted).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_computed_nests_as_its_structure_says(structure in structures(), all in some_numbers(), cut in 0usize..8) {
        let leaves = structure.leaves();
        let exprs = |count: usize| (0..count as i64).map(|leaf| col("") * (leaf + 2));
        let nested = numbers(&all).map_nested(structure.clone(), exprs(leaves));
        let facts = nested.clone().graph().unwrap().facts(&functions()).unwrap();
        prop_assert_eq!(facts.spec.structure(), &structure);
        let multiples = |number: &i64| {
            let multiples: Vec<i64> = (0..leaves as i64).map(|leaf| number.wrapping_mul(leaf + 2)).collect();
            shown(&multiples).join(" ")
        };
        prop_assert_eq!(interrupted(&nested, cut), all.iter().map(multiples).collect::<Vec<_>>());
        for other in [leaves - 1, leaves + 1] {
            let exprs: Vec<Expr> = exprs(other).collect();
            prop_assert!(numbers(&all).map_nested(structure.clone(), exprs).graph().is_err(), "{other} for {leaves}");
        }
    }

    #[test]
    fn only_the_stated_cardinality_passes(count in 0i64..12, stated in 0u64..12, cut in 0usize..8) {
        let held = Dataset::range(0, count, 1).filter("below", Params::encode(&100i64).unwrap()).assert_cardinality(stated);
        if stated == count as u64 {
            prop_assert_eq!(interrupted(&held, cut), shown(&(0..count).collect::<Vec<_>>()));
            return Ok(());
        }
        let mut executor = open(&held.graph().unwrap());
        let mut before = 0;
        let error = loop {
            match executor.next() {
                Ok(Some(_)) => before += 1,
                Ok(None) => panic!("expected an error for {stated} stated elements, found {count} elements"),
                Err(error) => break error,
            }
        };
        prop_assert!(before <= stated && before <= count as u64, "{error}");
    }

    #[test]
    fn resampling_keeps_order_and_the_rarest_class(
        count in 1i64..30,
        classes in 1i64..4,
        seed: u64,
        cut in 0usize..8,
    ) {
        let target = vec![1.0; classes as usize];
        // The initial frequencies declare class 0 to be the rarest.
        let initial = (0..classes).map(|class| if class == 0 { 1.0 } else { 3.0 }).collect();
        let modulo = |number: Dataset| number.map("modulo", Params::encode(&classes).unwrap());
        let resampled = Dataset::range(0, count, 1).rejection_resample(modulo, target, Some(initial), Some(seed));
        let found = interrupted(&resampled, cut);
        let all: Vec<String> = (0..count).map(|number| format!("{} {number}", number % classes)).collect();
        let mut rest = all.iter();
        prop_assert!(found.iter().all(|one| rest.any(|other| other == one)), "{found:?}");
        prop_assert!(all.iter().filter(|one| one.starts_with("0 ")).all(|one| found.contains(one)), "{found:?}");
    }

    #[test]
    fn elements_in_files_are_those_written(all in some_numbers(), packing in 0usize..3, cut in 0usize..8) {
        let packing = [Packing::None, Packing::Lz4, Packing::Gzip][packing];
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| path(directory.path(), name);
        let input = numbers(&all);
        save(&input.clone().graph().unwrap(), context(), Path::new(&place("saved")), packing).unwrap();
        prop_assert_eq!(interrupted(&Dataset::load(&place("saved"), scalar()), cut), shown(&all));
        for kept in [input.clone().cache_in(place("cache")), input.snapshot(place("snapshots"), packing)] {
            prop_assert_eq!(interrupted(&kept, cut), shown(&all), "expected the same elements while the files are written");
            prop_assert_eq!(interrupted(&kept, cut), shown(&all), "expected the same elements when the files are read");
        }
    }
}
