//! The distribution of threads over stages. Each stage gets one thread, and every further thread goes to the
//! stage that is slowest with its current threads. The slowest stage, which limits the pipeline, thus becomes
//! as fast as possible. `tf.data`'s autotuner reaches the same distribution by trial; it estimates a stage's
//! work by a model of the stage's whole input.
//!
//! A stage loses threads that it does not use: it gets at most twice the number of threads that it kept busy.
//! A pipeline with a slow consumer thus holds few elements, and the threads of a pipeline that speeds up
//! double with each evaluation.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The work of a stage since the last evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// The work of all threads of the stage, in nanoseconds.
    pub(crate) busy_ns: u64,
    /// The maximum number of threads of the stage.
    pub(crate) threads_max: u32,
}

/// Returns the number of threads of each stage, given the work of the stages in `interval_ns`. The total is
/// at most `budget`, except that each stage has at least one thread.
pub(crate) fn shares(loads: &[Load], interval_ns: u64, budget: u32) -> Vec<u32> {
    let mut shares = vec![1u32; loads.len()];
    let mut left = u64::from(budget).saturating_sub(loads.len() as u64);
    while left > 0 {
        let wanting = (0..loads.len()).filter(|stage| shares[*stage] < most(&loads[*stage], interval_ns));
        // The ratios of work to threads are compared by cross-multiplication. Of equal stages the first is
        // chosen, so that the result is stable.
        let slowest = wanting.reduce(|slowest, stage| {
            let ahead = u128::from(loads[stage].busy_ns) * u128::from(shares[slowest]);
            let behind = u128::from(loads[slowest].busy_ns) * u128::from(shares[stage]);
            if ahead > behind { stage } else { slowest }
        });
        let Some(slowest) = slowest else { break };
        shares[slowest] += 1;
        left -= 1;
    }
    shares
}

/// Returns the number of threads that a stage can use: twice the number that it kept busy.
fn most(load: &Load, interval_ns: u64) -> u32 {
    let twice = load.busy_ns.saturating_mul(2).div_ceil(interval_ns.max(1));
    u32::try_from(twice)
        .unwrap_or(u32::MAX)
        .clamp(1, load.threads_max.max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INTERVAL: u64 = 1000;

    fn load(busy_ns: u64) -> Load {
        Load {
            busy_ns,
            threads_max: 64,
        }
    }

    #[test]
    fn the_slowest_stage_gets_the_threads() {
        assert_eq!(
            shares(&[load(8000), load(2000), load(0)], INTERVAL, 10),
            [7, 2, 1]
        );
        assert_eq!(shares(&[load(6000), load(3000)], INTERVAL, 9), [6, 3]);
        assert_eq!(
            shares(&[load(5)], INTERVAL, 8),
            [1],
            "a stage loses threads that it does not use"
        );
        assert_eq!(
            shares(&[load(4000)], INTERVAL, 64),
            [8],
            "a stage regains threads by doubling"
        );
        assert_eq!(shares(&[load(1); 5], INTERVAL, 2), [1; 5]);
        assert_eq!(shares(&[], INTERVAL, 2), [0u32; 0]);
    }

    /// Returns every distribution that gives each stage 1 to `most` threads, with at most `budget` threads in
    /// total.
    fn every(loads: &[Load], budget: u32) -> Vec<Vec<u32>> {
        let mut all = vec![Vec::new()];
        for load in loads {
            let extended = |given: &Vec<u32>| {
                let given = given.clone();
                (1..=most(load, INTERVAL)).map(move |threads| [&given[..], &[threads]].concat())
            };
            all = all.iter().flat_map(extended).collect();
        }
        let within = |given: &Vec<u32>| given.iter().sum::<u32>() <= budget.max(loads.len() as u32);
        all.into_iter().filter(within).collect()
    }

    fn slowest(loads: &[Load], given: &[u32]) -> f64 {
        let times = loads.iter().zip(given);
        times
            .map(|(load, threads)| load.busy_ns as f64 / f64::from(*threads))
            .fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn no_other_distribution_makes_the_slowest_stage_faster(
            loads in prop::collection::vec((0u64..4000, 1u32..6), 1..4),
            budget in 1u32..12,
        ) {
            let loads: Vec<Load> = loads.into_iter().map(|(busy_ns, threads_max)| Load { busy_ns, threads_max }).collect();
            let given = shares(&loads, INTERVAL, budget);
            prop_assert!(given.iter().sum::<u32>() <= budget.max(loads.len() as u32));
            for (threads, load) in given.iter().zip(&loads) {
                prop_assert!((1..=most(load, INTERVAL)).contains(threads));
            }
            let found = slowest(&loads, &given);
            for other in every(&loads, budget) {
                prop_assert!(found <= slowest(&loads, &other) + 1e-9, "{given:?} is slower than {other:?}");
            }
        }

        #[test]
        fn extreme_figures_do_no_harm(busy_ns: u64, interval_ns: u64, threads_max: u32, budget in 0u32..10_000) {
            let given = shares(&[Load { busy_ns, threads_max }; 3], interval_ns, budget);
            prop_assert!(given.iter().all(|threads| *threads >= 1));
        }
    }
}
