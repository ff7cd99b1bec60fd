//! Tests of expressions over strings.

use millstream_element::Dtype;
use millstream_pipeline::exec::Tensor;
use millstream_pipeline::graph::{Expr, Span, TextUnit, col, joined, lit};
use millstream_testkit::rounds;
use proptest::prelude::*;

use super::arrays::{array_of, byte_string, computed, string, strings, texts};

fn of(items: &[&str], expr: Expr) -> Tensor {
    computed(&[("x", strings(items))], expr).unwrap()
}

fn text_of(items: &[&str], expr: Expr) -> Vec<String> {
    texts(&of(items, expr))
}

fn numbers_of(items: &[&str], expr: Expr) -> Vec<i64> {
    array_of(&of(items, expr)).items
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn parts_joined_again_are_the_whole(text in "[a-c, é]{0,20}", cuts in 0u64..4) {
        let parts = computed(&[("x", string(&text))], col("x").split(Some(", "))).unwrap();
        let expected: Vec<&str> = text.split(", ").collect();
        prop_assert_eq!(texts(&parts), expected);
        let whole = computed(&[("x", string(&text))], col("x").split(Some(", ")).join(", ")).unwrap();
        prop_assert_eq!(texts(&whole), [text.clone()]);
        let some = computed(&[("x", string(&text))], col("x").split_at_most(Some(","), cuts)).unwrap();
        let expected: Vec<&str> = text.splitn(cuts as usize + 1, ',').collect();
        prop_assert_eq!(texts(&some), expected);
        let words = computed(&[("x", string(&text))], col("x").split(None)).unwrap();
        let expected: Vec<&str> = text.split_whitespace().collect();
        prop_assert_eq!(texts(&words), expected);
    }

    #[test]
    fn text_operations_are_those_of_rust(items in prop::collection::vec("[a-zA-Zß ]{0,8}", 0..4), start in -3i64..4, length in 0u64..4) {
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let each = |f: fn(&str) -> String| items.iter().map(|item| f(item)).collect::<Vec<_>>();
        prop_assert_eq!(text_of(&items, col("x").lower()), each(str::to_lowercase));
        prop_assert_eq!(text_of(&items, col("x").upper()), each(str::to_uppercase));
        prop_assert_eq!(text_of(&items, col("x").strip()), each(|item| item.trim().to_owned()));
        prop_assert_eq!(text_of(&items, col("x") + "!"), each(|item| format!("{item}!")));
        let lengths: Vec<i64> = items.iter().map(|item| item.chars().count() as i64).collect();
        prop_assert_eq!(numbers_of(&items, col("x").text_len(TextUnit::Chars)), lengths);
        let equal: Vec<i64> = items.iter().map(|item| (*item == "a").into()).collect();
        prop_assert_eq!(numbers_of(&items, col("x").eq("a").cast(Dtype::I64)), equal);
        let parts: Option<Vec<String>> = items
            .iter()
            .map(|item| {
                let chars: Vec<char> = item.chars().collect();
                let start = usize::try_from(if start < 0 { start + chars.len() as i64 } else { start }).ok()?;
                Some(chars.get(start..)?.iter().take(length as usize).collect())
            })
            .collect();
        let found = computed(&[("x", strings(&items))], col("x").substr(start, length, TextUnit::Chars));
        match parts {
            Some(parts) => prop_assert_eq!(texts(&found.unwrap()), parts),
            None => prop_assert!(found.unwrap_err().to_string().contains("outside")),
        }
    }

    #[test]
    fn numbers_survive_being_text(value: f64, int: i64) {
        let found = computed(&[("x", string(&format!(" {value:?}\n")))], col("x").to_number(Dtype::F64)).unwrap();
        prop_assert_eq!(found.contiguous().unwrap(), value.to_le_bytes());
        let text = computed(&[("x", string(&int.to_string()))], col("x").to_number(Dtype::I64).to_text()).unwrap();
        prop_assert_eq!(texts(&text), [int.to_string()]);
    }
}

#[test]
fn hashes_are_the_same_for_ever() {
    // SipHash-2-4 of "" with a key of zeros is 0x1e924b9d737700d7.
    assert_eq!(
        numbers_of(&[""], col("x").hash_bucket(1000)),
        [(0x1e92_4b9d_7377_00d7u64 % 1000) as i64]
    );
    let buckets = numbers_of(&["a", "b", "a"], col("x").hash_bucket(1 << 40));
    assert_eq!(buckets[0], buckets[2]);
    assert_ne!(buckets[0], buckets[1]);
}

#[test]
fn words_have_the_numbers_of_their_vocabulary() {
    let x = || col("x");
    let words = ["the", "cat"];
    assert_eq!(
        numbers_of(&["cat", "dog", "the"], x().lookup(words, Some(-1))),
        [1, -1, 0]
    );
    let hashed = numbers_of(&["cat", "dog", "the"], x().lookup_hashed(words, 3));
    assert_eq!([hashed[0], hashed[2]], [1, 0]);
    assert!((2..5).contains(&hashed[1]));
    let refused = computed(&[("x", strings(&["dog"]))], x().lookup(words, None));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("\"dog\" is not in the vocabulary"), "{message}");
}

#[cfg(feature = "text")]
#[test]
fn patterns_match_and_replace() {
    let x = || col("x");
    let full = x().regex_full_match("a+|b").cast(Dtype::I64);
    assert_eq!(numbers_of(&["aa", "ab", "b", ""], full), [1, 0, 1, 0]);
    let contains = x().regex_contains("b").cast(Dtype::I64);
    assert_eq!(numbers_of(&["aa", "ab"], contains), [0, 1]);
    assert_eq!(
        text_of(&["2024-05", "x"], x().regex_replace(r"(\d+)-(\d+)", "$2/$1")),
        ["05/2024", "x"]
    );
    assert_eq!(text_of(&["aaa"], x().regex_replace_first("a", "b")), ["baa"]);
}

#[test]
fn strings_are_moved_and_chosen_as_numbers_are() {
    let x = || col("x");
    assert_eq!(
        text_of(&["a", "b", "c"], x().slice([Span::from(1..)])),
        ["b", "c"]
    );
    assert_eq!(text_of(&["a", "b"], x().gather(lit(1), 0)), ["b"]);
    assert_eq!(text_of(&["a"], x().pad_to(0, 3, "-", false)), ["a", "-", "-"]);
    assert_eq!(
        text_of(&["a", "b"], x().eq("a").if_else("yes", x())),
        ["yes", "b"]
    );
    assert_eq!(
        text_of(&["a", "b"], joined([x(), lit("-"), x()], "")),
        ["a-a", "b-b"]
    );
    assert_eq!(
        text_of(&["a", "b"], x().reshape([2, 1]).transpose([]).join("+")),
        ["a+b"]
    );
    let raw = computed(&[("x", byte_string(b"AB"))], col("x").lower().cast(Dtype::String)).unwrap();
    assert_eq!(texts(&raw), ["ab"]);
    let broken = computed(&[("x", byte_string(&[0xff]))], col("x").cast(Dtype::String));
    assert!(broken.unwrap_err().to_string().contains("not UTF-8"));
}

#[test]
fn a_cut_within_a_character_is_refused() {
    let cut = computed(&[("x", string("é"))], col("x").substr(0, 1, TextUnit::Bytes));
    assert!(cut.unwrap_err().to_string().contains("cut a character"));
    let bytes = computed(
        &[("x", string("é"))],
        col("x").cast(Dtype::Bytes).substr(0, 1, TextUnit::Bytes),
    );
    assert_eq!(bytes.unwrap().contiguous().unwrap(), [0xc3]);
}
