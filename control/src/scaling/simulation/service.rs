//! A simulated service: its readers, its workers, the store of its data, and an engine that follows the
//! policy.

use std::time::Duration;

use millstream_testkit::Chance;

use crate::scaling::config::ScalingConfig;
use crate::scaling::observation::Observation;
use crate::scaling::policy::ScalingPolicy;
use crate::scaling::wanted::Reason;

/// The seconds between the request for a worker and its registration.
const START_S: u64 = 3;
/// The seconds between the request for a worker and its first element.
const PRODUCE_S: u64 = 5;

/// A simulated service: readers with a demand, workers with a pace, and a store with a limit.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) readers: u64,
    /// The elements that each reader takes in a second without waiting.
    pub(super) demand: f64,
    /// True if the readers take no elements.
    pub(super) is_paused: bool,
    /// The elements that one worker produces in a second.
    pub(super) pace: f64,
    /// Maximum elements that the store of the data yields in a second.
    pub(super) store: f64,
    /// Maximum number of workers that the engine starts.
    pub(super) supply: u64,
    /// Maximum number of workers that have tasks.
    pub(super) tasks_max: u64,
    /// The number that stands for the dataset of the readers.
    pub(super) dataset: u64,
    /// The seconds of an epoch, and the seconds without a reader after it.
    pub(super) epochs: Option<(u64, u64)>,
    /// The seconds of a step of the readers, which take all elements of a step at its start; 0 if they take
    /// elements continuously.
    pub(super) step_s: f64,
    /// The seconds after which the elements of a new worker reach the readers.
    pub(super) lag_s: u64,
    /// The factor of the busy time that workers report. Workers with full buffers report too little.
    pub(super) reported_load: f64,
    /// The largest relative error of a report.
    pub(super) noise: f64,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            readers: 1,
            demand: 100.0,
            is_paused: false,
            pace: 50.0,
            store: f64::INFINITY,
            supply: u64::MAX,
            tasks_max: u64::MAX,
            dataset: 0,
            epochs: None,
            step_s: 0.0,
            lag_s: 0,
            reported_load: 1.0,
            noise: 0.0,
        }
    }
}

impl Model {
    /// Returns the number of workers that serve all readers.
    pub(super) fn needed(&self) -> u64 {
        (self.readers as f64 * self.demand / self.pace).ceil() as u64
    }

    /// Returns the share of time in which the readers wait with this number of workers.
    pub(super) fn waiting(&self, workers: u64) -> f64 {
        let made = workers as f64 * self.pace;
        1.0 - (made / (self.readers as f64 * self.demand)).min(1.0)
    }

    /// Returns the model in this second, in which it may be between two epochs.
    pub(super) fn at(&self, second: u64) -> Model {
        let is_between = self
            .epochs
            .is_some_and(|(epoch, pause)| second % (epoch + pause) >= epoch);
        Model {
            readers: if is_between { 0 } else { self.readers },
            ..self.clone()
        }
    }

    /// Returns whether the workers begin an epoch in this second, and have produced nothing yet.
    pub(super) fn begins_epoch(&self, second: u64) -> bool {
        self.epochs
            .is_some_and(|(epoch, pause)| second.is_multiple_of(epoch + pause))
    }

    /// Returns the share of a second in which the readers wait. Also returns the factor of the rate in this
    /// second, if they take `made` elements in a second on average.
    fn within_a_step(&self, second: u64, made: f64) -> (f64, f64) {
        let demand = self.readers as f64 * self.demand;
        if self.step_s == 0.0 || made == 0.0 {
            return (1.0 - made / demand, 1.0);
        }
        let period_s = self.step_s * demand / made;
        let until = second as f64;
        let waited = |until: f64| {
            let within = until % period_s;
            (until / period_s).floor() * (period_s - self.step_s) + (within - self.step_s).max(0.0)
        };
        let steps = (until / period_s).floor() - ((until - 1.0) / period_s).floor();
        (waited(until) - waited(until - 1.0), steps * period_s)
    }

    pub(super) fn observe(
        &self,
        (second, workers, producing): (u64, u64, u64),
        reaching: u64,
        chance: &mut Chance,
    ) -> Observation {
        let mut noisy =
            |value: f64| value * (1.0 + self.noise * (chance.within(0..2001) as f64 / 1000.0 - 1.0));
        let demand = self.readers as f64 * self.demand;
        let made = demand.min(reaching as f64 * self.pace).min(self.store);
        let made = if self.is_paused { 0.0 } else { made };
        let is_reported = producing > 0 && self.readers > 0;
        let pace = self.pace.min(self.store / producing.max(1) as f64);
        let (waiting, burst) = self.within_a_step(second, made);
        let used = if self.step_s > 0.0 {
            demand * (1.0 - waiting)
        } else {
            made
        };
        Observation {
            readers: self.readers,
            datasets: (self.readers > 0).then_some(self.dataset).into_iter().collect(),
            workers,
            producing: if self.readers > 0 { producing } else { 0 },
            is_starting: self.readers > 0 && producing == 0 && !self.is_paused,
            waiting: is_reported.then(|| {
                let waiting = noisy(waiting).clamp(0.0, 1.0);
                if self.is_paused { 0.0 } else { waiting }
            }),
            load: is_reported.then(|| noisy(used / pace * self.reported_load).min(producing as f64)),
            rate: noisy(made * burst),
            step: Duration::from_secs_f64(self.step_s),
            lag: Duration::from_secs(self.lag_s),
            demand: noisy(demand),
            estimate: is_reported.then(|| noisy(demand / pace).ceil() as u64),
        }
    }
}

/// A policy with a simulated service, and an engine that follows the policy.
pub(super) struct World {
    pub(super) model: Model,
    pub(super) policy: ScalingPolicy,
    pub(super) now_s: u64,
    pub(super) chance: Chance,
    /// The times at which the living workers were requested.
    pub(super) workers: Vec<u64>,
    /// The wanted numbers of all seconds.
    pub(super) history: Vec<u64>,
}

impl World {
    pub(super) fn new(model: Model, workers: usize) -> World {
        World::seeded(model, workers, 0)
    }

    pub(super) fn seeded(model: Model, workers: usize, seed: u64) -> World {
        let config = ScalingConfig {
            workers_max: 1000,
            ..ScalingConfig::default()
        };
        let mut world = World {
            model,
            policy: ScalingPolicy::new(config, Duration::ZERO),
            now_s: PRODUCE_S,
            chance: Chance::new(seed),
            workers: vec![0; workers],
            history: Vec::new(),
        };
        // The first number follows after the warm-up, however many workers there are.
        while world.policy.wanted().is_none() {
            world.observe();
        }
        world
    }

    pub(super) fn observe(&mut self) {
        self.now_s += 1;
        let since = |delay_s: u64| {
            let are_ready = self.workers.iter().filter(|at| **at + delay_s <= self.now_s);
            are_ready.count() as u64
        };
        let model = self.model.at(self.now_s);
        let producing = if model.begins_epoch(self.now_s) {
            0
        } else {
            since(PRODUCE_S).min(model.tasks_max)
        };
        let numbers = (self.now_s, since(START_S), producing);
        let reaching = producing.min(since(PRODUCE_S + model.lag_s));
        let seen = model.observe(numbers, reaching, &mut self.chance);
        let wanted = self.policy.step(Duration::from_secs(self.now_s), &seen);
        self.history.extend(wanted.map(|wanted| wanted.workers));
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.observe();
            let target = self.wanted().min(self.model.supply) as usize;
            self.workers.resize(target, self.now_s);
        }
    }

    /// Lets time pass with the workers as they are.
    pub(super) fn pass_unwanted(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.observe();
        }
    }

    pub(super) fn wanted(&self) -> u64 {
        self.policy.wanted().expect("the policy has warmed up").workers
    }

    pub(super) fn reason(&self) -> &Reason {
        &self.policy.wanted().expect("the policy has warmed up").reason
    }

    /// Returns the number of changes of direction since this index of the history.
    pub(super) fn reversals(&self, since: usize) -> usize {
        let steps: Vec<bool> = self.history[since..]
            .windows(2)
            .filter(|pair| pair[0] != pair[1])
            .map(|pair| pair[1] > pair[0])
            .collect();
        steps.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }
}
