//! The rules of the source tree, with their tables: the dependencies of crates, the shape of files, the files
//! with `unsafe`, and forbidden words. The module `source` reads the source files.
//!
//! A violation is printed as `file:line: rule: what to do`. Every entry of a table must exist in the tree.

use crate::source::comments;
use crate::source::corpora;
use crate::source::cycles;
use crate::source::manifest::{self, CrateEdges};
use crate::source::names;
use crate::source::paths::{self, Wall};
use crate::source::protocol;
use crate::source::shape;
use crate::source::tree::{self, File, Finding};
use crate::source::words;

/// The dependencies between crates: each crate depends on exactly these crates of the workspace.
const CRATES: &[CrateEdges<'_>] = &[
    ("millstream-element", &[]),
    ("millstream-link", &[]),
    ("millstream-trace", &[]),
    ("millstream-control", &["millstream-link", "millstream-trace"]),
    ("millstream-dataplane", &["millstream-element", "millstream-link"]),
    ("millstream-pipeline", &["millstream-element"]),
    (
        "millstream-pyworker",
        &[
            "millstream-dataplane",
            "millstream-element",
            "millstream-pipeline",
        ],
    ),
    (
        "millstream-client",
        &[
            "millstream-control",
            "millstream-dataplane",
            "millstream-element",
            "millstream-link",
            "millstream-trace",
        ],
    ),
    ("millstream-admin", &["millstream-link"]),
    (
        "millstream",
        &[
            "millstream-admin",
            "millstream-client",
            "millstream-control",
            "millstream-dataplane",
            "millstream-element",
            "millstream-link",
            "millstream-pipeline",
            "millstream-pyworker",
            "millstream-trace",
        ],
    ),
    ("millstream-testkit", &[]),
    ("millstream-python", &["millstream"]),
];

/// The crates that tests of any crate may use, and that no product code may use.
const TEST_TOOLS: &[&str] = &["millstream-testkit"];

/// Files that may name the QUIC implementation. The last entry contains the benchmark `raw-quic`, which must
/// not use this project's transport.
const QUINN: &[&str] = &[
    "link",
    "dataplane/src/transport/quic",
    "control/src/rpc",
    "control/tests/support/raw.rs",
    "benches/transfer",
];

/// Files that may name Python.
const PYO3: &[&str] = &["python"];

/// Paths that modules inside a crate must not name.
const WALLS: &[Wall] = &[
    Wall {
        around: "element/src",
        keeps_out: &["async", "tokio", "futures_util", "std::net", "std::fs"],
    },
    Wall {
        around: "dataplane/src/proto",
        keeps_out: &[
            "async",
            "tokio",
            "quinn",
            "millstream_link",
            "crate::transport",
            "crate::worker",
        ],
    },
    Wall {
        around: "dataplane/src/worker",
        keeps_out: &[
            "quinn",
            "crate::transport::quic",
            "crate::transport::memory",
            "crate::transport::shm",
        ],
    },
    Wall {
        around: "dataplane/src/transport",
        keeps_out: &["crate::worker"],
    },
    Wall {
        around: "dataplane/src/transport/memory",
        keeps_out: &["crate::transport::quic", "crate::transport::shm"],
    },
    Wall {
        around: "dataplane/src/transport/quic",
        keeps_out: &["crate::transport::memory", "crate::transport::shm"],
    },
    Wall {
        around: "dataplane/src/transport/shm",
        keeps_out: &["quinn", "crate::transport::quic", "crate::transport::memory"],
    },
    Wall {
        around: "control/src/dispatcher",
        keeps_out: &[
            "async",
            "tokio",
            "quinn",
            "crate::rpc",
            "crate::store",
            "crate::agent",
        ],
    },
    Wall {
        around: "control/src/dispatcher/tables",
        keeps_out: &["dispatcher::action", "dispatcher::state", "dispatcher::machine"],
    },
    Wall {
        around: "pipeline/src/graph",
        keeps_out: &["crate::exec", "std::fs", "std::thread"],
    },
    Wall {
        around: "client/src",
        keeps_out: &["millstream_control::dispatcher", "millstream_dataplane::worker"],
    },
];

/// The folders in which source files must not import each other in a circle.
const SOURCES: &[&str] = &[
    "element/src",
    "link/src",
    "control/src",
    "dataplane/src",
    "pipeline/src",
    "client/src",
    "pyworker/src",
    "python/src",
    "src",
];

/// Pure state machines and values. The lints of `clippy.toml` deny these files clocks, sockets, tasks and
/// randomness.
const PURE: &[&str] = &[
    "dataplane/src/proto",
    "dataplane/src/transport/shm/address.rs",
    "dataplane/src/transport/shm/datagram.rs",
    "dataplane/src/transport/shm/layout.rs",
    "dataplane/src/transport/shm/leases.rs",
    "dataplane/src/transport/shm/pages.rs",
    "dataplane/src/transport/shm/returns.rs",
    "dataplane/src/transport/shm/ring.rs",
    "dataplane/src/transport/shm/wait.rs",
    "dataplane/src/transport/shm/words.rs",
    "dataplane/src/worker/auto",
    "dataplane/src/worker/turns.rs",
    "dataplane/src/worker/window.rs",
    "control/src/dispatcher",
    "control/src/scaling",
    "control/src/agent/books.rs",
    "control/src/rpc/client/told.rs",
    "control/src/rpc/session/numbers.rs",
    "pipeline/src/exec/tune/buffer.rs",
    "pipeline/src/exec/tune/threads.rs",
    "pipeline/src/graph",
    "pyworker/src/wire.rs",
    "link/src/ticket.rs",
    "client/src/reader_core",
    "src/bin/millstream/autoscale/follower.rs",
    "src/bin/millstream/doctor/verdicts",
];

/// The files that may contain `unsafe`, each with the reason.
const UNSAFE: &[&str] = &[
    "python/src/array.rs",                       // Python arrays over the memory of a slot
    "python/src/dlpack.rs",                      // a C interface
    "python/src/fork.rs",                        // a fork handler
    "python/src/npy.rs",                         // numpy's table of C functions
    "dataplane/src/transport/shm/arena.rs",      // slots in a mapping
    "dataplane/src/transport/shm/doorbell.rs",   // a futex in shared words
    "dataplane/src/transport/shm/map.rs",        // memory mapped from a descriptor
    "dataplane/src/transport/shm/view.rs",       // slots in another process's memory
    "element/src/slot/append.rs",                // reads of a committed prefix during further writes
    "element/src/slot/region.rs",                // aligned allocation
    "element/src/slot/shared.rs",                // shared views of a region
    "pipeline/src/exec/spread.rs",               // rows of a stack, written by several threads
    "pipeline/src/image/jpeg/wide.rs",           // processor-specific instructions
    "pyworker/src/region.rs",                    // memory written by another process
    "benches/transfer/gauge.rs",                 // counters in shared memory
    "benches/transfer/yardstick/iceoryx2.rs",    // loaned slots of iceoryx2
    "benches/transfer/yardstick/shared/area.rs", // a futex in shared words
];

/// The documentation pages for readers.
const PAGES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/python.md",
    "docs/rust.md",
    "docs/service.md",
    "docs/design/control-plane.md",
    "docs/design/data-plane.md",
    "docs/design/differences-from-tf-data.md",
    "docs/design/pipeline.md",
    "docs/design/python.md",
    "docs/design/same-host.md",
    "docs/design/simulation.md",
    "docs/design/storage.md",
    "CHANGELOG.md",
    "LICENSE",
    "examples/data/SOURCES.md",
    ".ci/run",
    "ci/check",
    "ci/full",
    "deny.toml",
    "clippy.toml",
];

/// `true` if everything in the tables exists. With `false`, missing entries are skipped.
const ALL_LANDED: bool = true;

#[test]
fn crates_depend_as_the_table_says() {
    let packages = manifest::packages().expect("cargo reads the manifests");
    assert_clean(manifest::wrong_edges(&packages, CRATES, TEST_TOOLS));
}

#[test]
fn only_the_shells_name_quinn() {
    assert_named_only_in(QUINN, &["quinn", "quinn_proto", "quinn_udp"]);
}

#[test]
fn only_the_wheel_names_python() {
    assert_named_only_in(PYO3, &["pyo3", "pyo3_ffi"]);
}

#[test]
fn modules_keep_out_what_the_table_says() {
    let files = tree::files();
    // The client's simulation is a test of all parts together, so the walls do not apply.
    let is_product = |file: &&File| !file.is_in("client/src/simulation");
    let breaches = |file| WALLS.iter().flat_map(move |wall| paths::breaches(file, wall));
    assert_clean(files.iter().filter(is_product).flat_map(breaches));
}

#[test]
fn files_import_each_other_in_no_circle() {
    let files = tree::files();
    for root in SOURCES {
        let circles = cycles::circles(&files, root);
        let imports: Vec<String> = circles.into_iter().flat_map(|circle| circle.imports).collect();
        assert!(
            imports.is_empty(),
            "{root}: files import each other in a circle: {imports:#?}"
        );
    }
}

#[test]
fn every_module_lies_where_its_name_says() {
    let is_moved = |line: &str| line.trim_start().starts_with("#[path");
    let what = "move the file to where its module's name leads";
    assert_clean(
        tree::files()
            .iter()
            .filter(|file| file.is_rust())
            .flat_map(|file| {
                let moved = file.text.lines().enumerate().filter(|(_, line)| is_moved(line));
                moved
                    .map(|(index, _)| Finding::new(&file.path, index + 1, "#[path]", what))
                    .collect::<Vec<_>>()
            }),
    );
}

#[test]
fn definitions_of_operations_know_no_execution() {
    let files = tree::files();
    let is_definition = |file: &&File| file.is_in("pipeline/src/ops") && file.name() == "definition.rs";
    let breaches = |file: &File| {
        let around: &'static str = "pipeline/src/ops";
        let keeps_out = &["crate::exec", "std::fs", "std::thread"];
        paths::breaches(file, &Wall { around, keeps_out })
    };
    assert_clean(files.iter().filter(is_definition).flat_map(breaches));
}

/// The product files that name the operation `shuffle`. A new operation adds its room, a line in the table,
/// and a Python method. The other files contain re-exports, and rewrites that concern shuffles.
const KNOWS_SHUFFLE: &[&str] = &[
    "pipeline/src/exec/build.rs",
    "pipeline/src/graph/mod.rs",
    "pipeline/src/ops/mod.rs",
    "pipeline/src/ops/shard/sharding.rs",
    "pipeline/src/ops/table.rs",
    "pipeline/src/rewrite/casts.rs",
    "pipeline/src/rewrite/full_shuffles.rs",
    "python/millstream/_dataset.py",
];

#[test]
fn shuffle_stands_where_it_should() {
    let knows = |text: &str| {
        let marks = [
            "ops::shuffle::",
            "mod shuffle;",
            "super::shuffle::exec",
            "then(\"shuffle\"",
        ];
        marks.iter().any(|mark| text.contains(mark))
    };
    let is_product = |file: &&File| {
        ["pipeline/src", "python/src", "python/millstream", "src"]
            .iter()
            .any(|root| file.is_in(root))
            && !file.is_in("pipeline/src/ops/shuffle")
    };
    let files = tree::files();
    let found = files.iter().filter(is_product).filter(|file| knows(&file.text));
    let found: Vec<&str> = found.map(|file| file.path.as_str()).collect();
    assert_eq!(found, KNOWS_SHUFFLE);
}

/// The maximum number of methods of `Dispatcher`, which routes events and owns no tables.
const ROUTES_MAX: usize = 40;

#[test]
fn the_dispatcher_only_routes() {
    let mut methods = 0;
    for file in tree::files()
        .iter()
        .filter(|file| file.is_in("control/src/dispatcher"))
    {
        let blocks = file.text.split("\nimpl Dispatcher {\n").skip(1);
        let bodies = blocks.map(|rest| rest.split("\n}\n").next().unwrap_or(rest));
        let is_method = |line: &&str| line.starts_with("    fn ") || line.starts_with("    pub");
        methods += bodies.flat_map(str::lines).filter(is_method).count();
    }
    assert!(
        (1..=ROUTES_MAX).contains(&methods),
        "Dispatcher has {methods} methods"
    );
}

#[test]
fn the_worked_example_is_compiled() {
    let files = tree::files();
    let text = |path: &str| {
        files
            .iter()
            .find(|file| file.path == path)
            .map(|file| file.text.as_str())
    };
    let page = text("CONTRIBUTING.md").expect("the page");
    let mut lines = 0;
    for part in ["definition.rs", "exec.rs"] {
        let code = text(&format!("pipeline/src/ops/every/{part}")).expect("the example");
        assert!(
            page.contains(&format!("```rust\n{code}```")),
            "CONTRIBUTING.md shows another {part} than pipeline/src/ops/every has: copy it there"
        );
        lines += code.lines().count();
    }
    assert!(lines < 100, "the example has {lines} lines");
}

#[test]
fn every_source_file_says_what_it_owns() {
    assert_clean(
        tree::files()
            .iter()
            .filter(|file| file.is_rust())
            .flat_map(shape::opening),
    );
}

#[test]
fn files_and_functions_stay_short() {
    assert_clean(
        tree::files()
            .iter()
            .filter(|file| file.is_rust())
            .flat_map(shape::lengths),
    );
}

#[test]
fn parent_modules_are_tables_of_contents() {
    let is_parent = |file: &&File| file.path.contains("src/") && ["lib.rs", "mod.rs"].contains(&file.name());
    let is_test = |file: &&File| file.path.contains("/tests/");
    let files = tree::files();
    assert_clean(
        files
            .iter()
            .filter(is_parent)
            .filter(|file| !is_test(file))
            .flat_map(shape::table_of_contents),
    );
}

#[test]
fn unsafe_stands_only_in_the_named_files() {
    let files = tree::files();
    let stray = |file: &File| {
        let lines = shape::unsafe_lines(file).into_iter();
        lines
            .map(|line| Finding::new(&file.path, line, "unsafe", "not in a file named for it"))
            .collect::<Vec<_>>()
    };
    let unnamed = files
        .iter()
        .filter(|file| file.is_rust() && !UNSAFE.contains(&file.path.as_str()));
    let named = files.iter().filter(|file| UNSAFE.contains(&file.path.as_str()));
    let needless = named.filter(|file| shape::unsafe_lines(file).is_empty());
    let take_out =
        needless.map(|file| Finding::new(&file.path, 0, "unsafe", "has none: take it out of the list"));
    assert_clean(unnamed.flat_map(stray).chain(take_out));
}

#[test]
fn pure_modules_are_denied_clocks_sockets_and_randomness() {
    let files = tree::files();
    // A `mod.rs` contains no code, so it needs no lint attribute.
    let is_code = |file: &&File| file.is_rust() && file.name() != "mod.rs";
    let is_pure = |file: &&File| PURE.iter().any(|place| file.is_in(place));
    let pure_code = files.iter().filter(is_code).filter(is_pure);
    let needs = pure_code.filter(|file| !is_denied_with_its_parents(file, &files));
    let what = "add #![deny(clippy::disallowed_methods, clippy::disallowed_types)] below its opening";
    assert_clean(needs.map(|file| Finding::new(&file.path, 1, "pure module", what)));
}

#[test]
fn no_file_names_a_folder_of_somebodys_machine() {
    assert_clean(tree::files().iter().flat_map(words::private_paths));
}

#[test]
fn comments_stand_alone_and_can_be_read_once() {
    let files = tree::files();
    let sources = || files.iter().filter(|file| file.is_rust());
    assert_clean(
        sources()
            .flat_map(comments::first_words)
            .chain(sources().flat_map(comments::long_clauses))
            .chain(sources().flat_map(comments::wide_lines)),
    );
}

#[test]
fn test_names_are_short_claims() {
    let files = tree::files();
    let code = files
        .iter()
        .filter(|file| file.is_rust() || file.path.ends_with(".py"));
    assert_clean(code.flat_map(names::long_test_names));
}

#[test]
fn no_text_uses_a_retired_term() {
    assert_clean(tree::files().iter().flat_map(comments::retired_terms));
}

#[test]
fn every_fuzz_target_has_inputs() {
    assert_clean(corpora::unmatched(&tree::files()));
}

#[test]
fn no_file_marks_work_as_left_over() {
    assert_clean(tree::files().iter().flat_map(words::leftovers));
}

#[test]
fn protocol_rules_are_numbered_once_and_cited_truly() {
    let files = tree::files();
    let rules = protocol::defined(&files);
    let citations = protocol::cited(&files, &rules);
    assert_clean(
        protocol::repeated(&rules)
            .into_iter()
            .chain(protocol::unknown(&rules, &citations))
            .chain(protocol::uncited(&rules, &citations, &files)),
    );
}

#[test]
fn what_the_tables_list_exists() {
    let files = tree::files();
    let absent = |place: &&str| !files.iter().any(|file| file.is_in(place));
    let places = QUINN
        .iter()
        .chain(PYO3)
        .chain(PURE)
        .chain(UNSAFE)
        .copied()
        .chain(WALLS.iter().map(|wall| wall.around));
    let listed = PAGES.iter().copied().chain(places.filter(|_| ALL_LANDED));
    let missing: Vec<&str> = listed.filter(absent).collect();
    assert_clean(
        missing
            .into_iter()
            .map(|place| Finding::new(place, 0, "tables", "listed in tests/tidy.rs, but gone")),
    );
}

/// Returns whether the lint attribute is in this file or in the file of a parent module.
fn is_denied_with_its_parents(file: &File, files: &[File]) -> bool {
    let folders = file
        .path
        .match_indices('/')
        .map(|(at, _)| format!("{}/mod.rs", &file.path[..at]));
    let parents: Vec<String> = folders.collect();
    let is_above = |other: &&File| other.path == file.path || parents.contains(&other.path);
    files.iter().filter(is_above).any(shape::is_denied_the_world)
}

/// Checks that only files in these places name these crates.
fn assert_named_only_in(places: &[&str], crates: &[&str]) {
    let outside = |file: &&File| file.is_rust() && !places.iter().any(|place| file.is_in(place));
    let stray = |file: &File| {
        let lines = paths::crate_lines(file, crates);
        let what = || format!("names {}, which only {} may", crates[0], places.join(", "));
        lines
            .into_iter()
            .map(|line| Finding::new(&file.path, line, "crate name", what()))
            .collect::<Vec<_>>()
    };
    assert_clean(tree::files().iter().filter(outside).flat_map(stray));
}

fn assert_clean(findings: impl IntoIterator<Item = Finding>) {
    let broken: Vec<String> = findings.into_iter().map(|finding| finding.to_string()).collect();
    assert!(broken.is_empty(), "rules broken:\n{}", broken.join("\n"));
}
