//! Tests of texts that are converted to token ids.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{ErrorKind, ExecError, Executor, OpenError};
use millstream_pipeline::graph::{ConstantTensor, Dataset, DtypeField, NoFunctions, Tokenise, Tokeniser};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{WORDS, context, rendered};

/// Returns a dataset of texts or byte strings.
fn texts(dtype: Dtype, rows: &[&[u8]]) -> Dataset {
    let spec = ElementSpec::single(TensorSpec::fixed(dtype, &[rows.len() as u64])).unwrap();
    let items = rows.iter().map(|row| row.to_vec());
    Dataset::tensor_slices(spec, vec![ConstantTensor::items(items)])
}

fn words() -> Tokenise {
    Tokenise::new("", Tokeniser::Given(WORDS.as_bytes().to_vec()))
}

fn opened(dataset: Dataset) -> Result<Executor, OpenError> {
    Executor::open(&dataset.graph().unwrap(), context())
}

fn all(dataset: Dataset) -> Result<Vec<String>, ExecError> {
    let mut executor = opened(dataset).unwrap();
    let next = || executor.next().map(|item| item.map(|item| rendered(&item.value)));
    std::iter::repeat_with(next)
        .map_while(Result::transpose)
        .collect()
}

proptest! {
    #![proptest_config(rounds(32))]

    #[test]
    fn each_word_becomes_its_id(
        texts_of_words in prop::collection::vec(prop::collection::vec(0usize..3, 0..9), 1..6),
        special_tokens: bool,
        ids_max in prop::option::of(1usize..6),
        narrow: bool,
    ) {
        let words_of_ids = ["zebra", "a", "b"];
        let rows: Vec<String> = texts_of_words
            .iter()
            .map(|ids| ids.iter().map(|id| words_of_ids[*id]).collect::<Vec<_>>().join(" "))
            .collect();
        let tokenise = Tokenise {
            dtype: DtypeField(if narrow { Dtype::I32 } else { Dtype::I64 }),
            special_tokens,
            ids_max: ids_max.map(|most| most as u64),
            ..words()
        };
        let rows: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
        let expected: Vec<String> = texts_of_words
            .iter()
            .map(|ids| {
                let ids = special_tokens.then_some(3).into_iter().chain(ids.iter().copied());
                let ids: Vec<String> = ids.take(ids_max.unwrap_or(usize::MAX)).map(|id| id.to_string()).collect();
                format!("[{}]", ids.join(" "))
            })
            .collect();
        prop_assert_eq!(all(texts(Dtype::Bytes, &rows).tokenise(tokenise)).unwrap(), expected);
    }
}

#[test]
fn a_tokeniser_file_is_read_at_opening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokenizer.json");
    let tokenise = || Tokenise::new("", Tokeniser::File(path.display().to_string()));
    let dataset = || texts(Dtype::String, &[b"b a"]).tokenise(tokenise());
    let missing = opened(dataset()).unwrap_err().to_string();
    assert!(
        missing.contains("tokenise") && missing.contains("tokenizer.json"),
        "{missing}"
    );
    std::fs::write(&path, WORDS).unwrap();
    assert_eq!(all(dataset()).unwrap(), ["[3 2 1]"]);
    std::fs::write(&path, &WORDS.as_bytes()[..WORDS.len() / 2]).unwrap();
    let torn = opened(dataset()).unwrap_err().to_string();
    assert!(torn.contains("invalid definition of a tokeniser"), "{torn}");
}

#[test]
fn an_invalid_text_is_its_elements_error() {
    let error = all(texts(Dtype::Bytes, &[b"a", b"\xff"]).tokenise(words())).unwrap_err();
    assert_eq!(error.failure().kind, ErrorKind::Value);
    assert!(error.to_string().contains("not UTF-8"), "{error}");
}

#[test]
fn impossible_tokenisers_are_refused_at_definition() {
    let refused = |tokenise: Tokenise, rows: Dataset| {
        let graph = rows.tokenise(tokenise).graph();
        match graph {
            Err(error) => error.to_string(),
            Ok(graph) => graph.facts(&NoFunctions).unwrap_err().to_string(),
        }
    };
    let one = || texts(Dtype::String, &[b"a"]);
    let of = |dtype| Tokenise {
        dtype: DtypeField(dtype),
        ..words()
    };
    assert!(refused(of(Dtype::F32), one()).contains("i32 or i64"));
    let nothing = Tokenise {
        ids_max: Some(0),
        ..words()
    };
    assert!(refused(nothing, one()).contains("the least is 1"));
    assert!(refused(words(), one().batch(1, false)).contains("before they are batched"));
    assert!(refused(words(), Dataset::range(0, 1, 1)).contains("byte string"));
}
