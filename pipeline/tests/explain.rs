//! Tests of stage statistics: the counts are exact, and the report names the slowest stage.

use std::time::{Duration, Instant};

use millstream_pipeline::exec::{
    Bottleneck, ExecContext, Executor, Functions, PreparedMap, StageStats, Stats, Value,
};
use millstream_pipeline::graph::{Dataset, Params};
use std::sync::Arc;

use crate::support::{Allowed, chain, context, drain, functions, open, pool};
use millstream_testkit::rounds;
use proptest::prelude::*;

fn measured(dataset: &Dataset, functions: Functions) -> Executor {
    let context = ExecContext {
        measured: true,
        ..ExecContext::new(1, Arc::new(functions), pool())
    };
    Executor::open(&dataset.clone().graph().unwrap(), context).unwrap()
}

/// Returns the map function `works`, which takes two milliseconds per element.
fn working() -> Functions {
    functions().with_map("works", |_, input| {
        // The function sleeps instead of computing. On a busy machine, a computing function would take
        // the processor from the consumer, and the consumer would become the bottleneck.
        let call = |value: Value| {
            std::thread::sleep(Duration::from_millis(2));
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    })
}

fn stage<'s>(stats: &'s Stats, label: &str) -> &'s StageStats {
    let found = stats.stages.iter().find(|stage| stage.label.starts_with(label));
    found.unwrap_or_else(|| panic!("expected a stage {label}, found {stats:?}"))
}

fn amount(amount: i64) -> Params {
    Params::encode(&amount).unwrap()
}

#[test]
fn fused_maps_count_as_one_stage() {
    let dataset = Dataset::range(0, 100, 1)
        .map("add", amount(1))
        .map("add", amount(2))
        .take(90)
        .prefetch(4)
        .batch(20, false);
    let mut executor = measured(&dataset, functions());
    drain(&mut executor);
    let stats = executor.stats().unwrap();
    let counts: Vec<(&str, u64)> = stats
        .stages
        .iter()
        .map(|stage| (stage.label.split('(').next().unwrap(), stage.elements))
        .collect();
    assert_eq!(
        counts,
        [
            ("batch", 5),
            ("prefetch", 90),
            ("take", 90),
            ("map", 90),
            ("range", 90)
        ]
    );
    assert!(stats.pulled <= stats.elapsed);
    let drawn = executor.explain().to_string();
    assert!(drawn.contains("in the step above"), "{drawn}");
    assert!(drawn.lines().next().unwrap().contains("per second"), "{drawn}");
}

#[test]
fn a_bodys_stage_counts_over_all_bodies() {
    let body = |argument: Dataset| argument.repeat(Some(3)).map("add", amount(0));
    for threads in [1, 4] {
        let dataset = Dataset::range(0, 10, 1).interleave(2, 1, body).parallel(threads);
        let mut executor = measured(&dataset, functions());
        drain(&mut executor);
        let stats = executor.stats().unwrap();
        assert_eq!(stage(&stats, "interleave").elements, 30);
        assert_eq!(stage(&stats, "map").elements, 30);
        assert_eq!(stage(&stats, "argument").elements, 30);
        assert_eq!(stage(&stats, "map").path.len(), 2);
    }
}

#[test]
fn the_busiest_stage_is_the_bottleneck() {
    for (threads, ahead) in [(1, 0), (1, 2), (2, 2)] {
        let mut dataset = Dataset::range(0, 40, 1)
            .map("works", Params::none())
            .parallel(threads)
            .enumerate(0)
            .map("total", Params::none());
        if ahead > 0 {
            dataset = dataset.prefetch(ahead);
        }
        let mut executor = measured(&dataset, working());
        drain(&mut executor);
        let stats = executor.stats().unwrap();
        assert_eq!(
            stats.bottleneck_name().split(' ').next(),
            Some("map(works)"),
            "{stats:#?}"
        );
        assert!(
            stage(&stats, "map(works)").busy >= Duration::from_millis(35),
            "{stats:#?}"
        );
    }
}

#[test]
fn a_slow_consumer_is_the_bottleneck() {
    let dataset = Dataset::range(0, 20, 1).map("add", amount(1));
    let mut executor = measured(&dataset, functions());
    while executor.next().unwrap().is_some() {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
    }
    assert_eq!(executor.stats().unwrap().bottleneck, Bottleneck::Consumer);
}

#[test]
fn an_unmeasured_pipeline_is_still_drawn() {
    let dataset = Dataset::range(0, 3, 1).batch(2, true);
    let mut executor = open(&dataset.clone().graph().unwrap());
    drain(&mut executor);
    assert_eq!(executor.stats(), None);
    assert_eq!(executor.explain(), dataset.explain().unwrap());
}

proptest! {
    #![proptest_config(rounds(60))]

    #[test]
    fn measuring_changes_no_element_and_no_state(
        chain in chain(Allowed { shuffle: true, counting: true, repeat: true }, 0..30),
        cut in 0usize..20,
    ) {
        let graph = chain.graph();
        let open_measured = || Executor::open(&graph, ExecContext { measured: true, ..context() }).unwrap();
        let mut executor = open_measured();
        let mut found = Vec::new();
        for _ in 0..cut {
            found.extend(executor.next().unwrap().map(|item| crate::support::model_of(&item.value)));
        }
        let state = executor.save().unwrap();
        let mut plain = open(&graph);
        plain.restore(&state).unwrap();
        found.extend(drain(&mut plain));
        prop_assert_eq!(found, drain(&mut open(&graph)));
        prop_assert_eq!(executor.stats().unwrap().stages.first().map_or(0, |root| root.elements), executor.handed());
    }
}
