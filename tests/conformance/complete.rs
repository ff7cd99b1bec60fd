//! Tests that every row of the upstream tests is tested in this folder, or is left out with a reason. Also
//! tests that the replacements of upstream's unit tests exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

fn rows() -> BTreeSet<String> {
    let rows = fs::read_to_string(folder().join("rows.txt")).expect("the list of rows");
    rows.lines().map(str::to_owned).collect()
}

/// Returns the names of all tests in this folder.
fn tested() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for entry in fs::read_dir(folder()).expect("this folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let code = fs::read_to_string(&path).expect("a source file");
            let after_test = code.split("#[test]\nfn ").skip(1);
            tests.extend(after_test.filter_map(|text| Some(text.split_once('(')?.0.to_owned())));
        }
    }
    tests
}

/// Returns the first cells of the table of rows that are left out. The second cells contain the reasons.
fn left_out() -> BTreeSet<String> {
    let page = fs::read_to_string(folder().join("README.md")).expect("the table");
    let cells = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split("` | ");
        let (row, reason) = (cells.next()?, cells.next()?);
        (row.contains("__") && reason.trim_end_matches('|').trim().len() > 10).then(|| row.to_owned())
    });
    cells.collect()
}

#[test]
fn every_row_is_tested_or_excused() {
    let (rows, tested, left_out) = (rows(), tested(), left_out());
    let forgotten: Vec<_> = rows
        .iter()
        .filter(|row| !tested.contains(*row) && !left_out.contains(*row))
        .collect();
    assert!(
        forgotten.is_empty(),
        "neither tested nor left out: {forgotten:#?}"
    );
    let both: Vec<_> = tested.intersection(&left_out).collect();
    assert!(both.is_empty(), "tested, and listed as left out: {both:#?}");
    let is_row = |name: &&String| name.contains("__");
    let invented: Vec<_> = tested
        .union(&left_out)
        .filter(is_row)
        .filter(|name| !rows.contains(*name))
        .collect();
    assert!(invented.is_empty(), "no rows of upstream's: {invented:#?}");
}

/// Returns the second cells of the table of unit tests.
fn unit_rows() -> Vec<String> {
    let page = fs::read_to_string(folder().join("README.md")).expect("the table");
    let (_, section) = page
        .split_once("## Rows of upstream's unit tests\n")
        .expect("its section");
    let section = section
        .split_once("\n## ")
        .map_or(section, |(section, _)| section);
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows
        .skip(1)
        .map(|row| row.split(" | ").nth(1).unwrap_or_default().to_owned());
    cells.collect()
}

#[test]
fn named_unit_tests_are_where_stated() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut found, mut missing) = (0, Vec::new());
    for cell in unit_rows() {
        assert!(cell.len() > 20, "expected a test or a reason, found {cell:?}");
        let mut code = String::new();
        for name in cell.split('`').skip(1).step_by(2) {
            if name.ends_with(".rs") {
                code = fs::read_to_string(root.join(name)).unwrap_or_default();
            } else if code.contains(&format!("fn {name}(")) {
                found += 1;
            } else {
                missing.push(name.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
    assert!(found > 0, "the table names no test");
}
