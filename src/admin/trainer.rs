//! A trainer as the subject of an admin port: the loaders of its process.
//!
//! The numbers live in the trainer's own code, which may need a lock that another thread holds for long. An
//! observation therefore runs on a thread of its own, and at most one runs at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_admin::{Exposition, Page, Subject};
use serde::Serialize;
use tokio::sync::Mutex;

use super::hidden::hidden;
use super::metrics::process_metrics;
use super::rows::{Rows, json_text};

/// Maximum number of loaders with metrics of their own.
const LOADERS_MAX: usize = 64;
/// Maximum number of characters of a loader's name.
const NAME_CHARS_MAX: usize = 64;

/// A function that observes the loaders of this process. The function may block.
pub type ObserveLoaders = Box<dyn Fn() -> Result<ObservedLoaders, String> + Send + Sync>;

/// The loaders of this process at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedLoaders {
    /// The newest loaders, with the newest one last. The port shows the last 64 of them.
    pub loaders: Vec<LoaderFacts>,
    /// The number of older loaders.
    pub left_out: usize,
}

/// A loader of a trainer at one moment. The port does not show a number that is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoaderFacts {
    /// The name, which no other loader of the process has.
    pub name: String,
    /// The number of elements that the training loop received.
    pub elements: u64,
    /// The bytes of these elements.
    pub bytes: Option<u64>,
    /// The time for which the training loop waited for elements, in seconds.
    pub waited_s: f64,
    /// The share of the recent time for which the training loop waited, from 0 to 1.
    pub waiting: Option<f64>,
    /// The number of the present epoch.
    pub epoch: Option<u64>,
    /// The number of elements of the epoch that were delivered.
    pub step: Option<u64>,
    /// The number of elements in an epoch.
    pub steps: Option<u64>,
    /// The number of elements that arrived and wait for the training loop.
    pub ready: Option<u64>,
    /// The number of links to workers that replaced an earlier link.
    pub reconnects: u64,
    /// The number of splits that were lost with a worker.
    pub lost_splits: u64,
    /// The number of splits that were skipped, because several workers died while they read them.
    pub skipped_splits: u64,
    /// The number of elements that were left out, because an operation failed at them.
    pub quarantined_elements: u64,
    /// The state of the loader in one sentence; empty if it is unknown.
    pub sentence: String,
    /// The remedy; empty if nothing has to be done.
    pub advice: String,
}

/// A trainer of this process that an admin port shows.
pub struct TrainerSubject {
    observe: Arc<ObserveLoaders>,
    /// The turn, which an observation holds until its thread ends, also after a panic.
    turn: Arc<Mutex<()>>,
}

/// The state of a trainer at one moment.
#[derive(Clone, Debug)]
pub struct TrainerFacts {
    loaders: Vec<LoaderFacts>,
    /// The number of loaders beyond the limit.
    left_out: usize,
}

impl TrainerSubject {
    /// Returns the subject for the loaders that `observe` finds.
    pub fn new(observe: ObserveLoaders) -> TrainerSubject {
        TrainerSubject {
            observe: Arc::new(observe),
            turn: Arc::default(),
        }
    }
}

impl std::fmt::Debug for TrainerSubject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TrainerSubject").finish_non_exhaustive()
    }
}

impl TrainerFacts {
    /// Bounds the number of loaders and their names, and makes equal names different. Names lose their
    /// secrets before, because a part of a URL may not be recognised, and hidden names may be equal.
    pub(super) fn new(mut loaders: Vec<LoaderFacts>) -> TrainerFacts {
        let left_out = loaders.len().saturating_sub(LOADERS_MAX);
        // The newest loaders are the last ones.
        loaders.drain(..left_out);
        let mut names = BTreeSet::new();
        for (place, loader) in loaders.iter_mut().enumerate() {
            let name = hidden(std::mem::take(&mut loader.name));
            let mut name: String = name.chars().take(NAME_CHARS_MAX).collect();
            while names.contains(&name) {
                name = format!("{name} ({place})");
            }
            names.insert(name.clone());
            loader.name = name;
        }
        TrainerFacts { loaders, left_out }
    }
}

impl Subject for TrainerSubject {
    type Facts = TrainerFacts;

    async fn observe(&self) -> Result<TrainerFacts, String> {
        let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() else {
            return Err(
                "the trainer has not answered the previous observation yet: its interpreter is busy"
                    .to_owned(),
            );
        };
        let observe = Arc::clone(&self.observe);
        let observed = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            observe()
        });
        let observed = observed.await.map_err(|error| error.to_string());
        let ObservedLoaders { loaders, left_out } = observed??;
        let mut facts = TrainerFacts::new(loaders);
        facts.left_out += left_out;
        Ok(facts)
    }

    fn ready(&self, _: &TrainerFacts) -> Result<(), String> {
        Ok(())
    }

    fn metrics(&self, facts: &TrainerFacts) -> Exposition {
        let mut found = process_metrics();
        let loaders = facts.loaders.len() + facts.left_out;
        let help = "Loaders and readers of the process, including those without metrics.";
        found.gauge("loaders", help, &[], loaders as f64);
        for (name, help, read) in FAMILIES {
            for loader in &facts.loaders {
                let Some(value) = read(loader) else { continue };
                let labels = [("loader", loader.name.as_str())];
                match name.ends_with("_total") {
                    true => found.counter(name, help, &labels, value),
                    false => found.gauge(name, help, &labels, value),
                }
            }
        }
        found
    }

    fn status(&self, facts: &TrainerFacts) -> String {
        json_text(&StatusDocument::new(facts))
    }

    fn without_secrets(&self, text: String) -> String {
        hidden(text)
    }

    fn page(&self, _: &str) -> Option<Page> {
        None
    }
}

/// A metric: its name, its help text, and its value for a loader. The names of counters end with `_total`.
type Family = (&'static str, &'static str, fn(&LoaderFacts) -> Option<f64>);

const FAMILIES: [Family; 12] = [
    (
        "loader_elements_total",
        "Elements that the training loop received.",
        |loader| Some(loader.elements as f64),
    ),
    (
        "loader_bytes_total",
        "Bytes of the elements that the training loop received.",
        |loader| loader.bytes.map(|bytes| bytes as f64),
    ),
    (
        "loader_waiting_seconds_total",
        "Time for which the training loop waited for elements.",
        |loader| Some(loader.waited_s),
    ),
    (
        "loader_waiting_ratio",
        "Share of the recent time for which the training loop waited, from 0 to 1.",
        |loader| loader.waiting,
    ),
    ("loader_epoch", "Number of the present epoch, from 0.", |loader| {
        loader.epoch.map(|epoch| epoch as f64)
    }),
    (
        "loader_step",
        "Elements of the present epoch that were delivered.",
        |loader| loader.step.map(|step| step as f64),
    ),
    (
        "loader_epoch_steps",
        "Elements in an epoch, if their number is known.",
        |loader| loader.steps.map(|steps| steps as f64),
    ),
    (
        "loader_prefetched_elements",
        "Elements that arrived and wait for the training loop.",
        |loader| loader.ready.map(|ready| ready as f64),
    ),
    (
        "loader_reconnects_total",
        "Links to workers that replaced an earlier link, in the present epoch and before.",
        |loader| Some(loader.reconnects as f64),
    ),
    (
        "loader_lost_splits_total",
        "Splits that were lost with a worker.",
        |loader| Some(loader.lost_splits as f64),
    ),
    (
        "loader_skipped_splits_total",
        "Splits that were skipped, because several workers died while they read them.",
        |loader| Some(loader.skipped_splits as f64),
    ),
    (
        "loader_quarantined_elements_total",
        "Elements that the trainer left out, because an operation failed at them several times.",
        |loader| Some(loader.quarantined_elements as f64),
    ),
];

/// The status of a trainer.
#[derive(Serialize)]
pub(super) struct StatusDocument<'s> {
    loaders: Rows<'s, LoaderFacts, LoaderRow<'s>>,
    loaders_left_out: usize,
}

impl<'s> StatusDocument<'s> {
    pub(super) fn new(facts: &'s TrainerFacts) -> StatusDocument<'s> {
        StatusDocument {
            loaders: Rows(&facts.loaders, loader_row),
            loaders_left_out: facts.left_out,
        }
    }
}

#[derive(Serialize)]
struct LoaderRow<'s> {
    name: &'s str,
    elements: u64,
    bytes: Option<u64>,
    waited_s: f64,
    waiting: Option<f64>,
    epoch: Option<u64>,
    step: Option<u64>,
    steps: Option<u64>,
    prefetched: Option<u64>,
    reconnects: u64,
    lost_splits: u64,
    skipped_splits: u64,
    quarantined_elements: u64,
    verdict: LoaderVerdict<'s>,
}

#[derive(Serialize)]
struct LoaderVerdict<'s> {
    sentence: &'s str,
    advice: &'s str,
}

fn loader_row(loader: &LoaderFacts) -> LoaderRow<'_> {
    LoaderRow {
        name: &loader.name,
        elements: loader.elements,
        bytes: loader.bytes,
        waited_s: loader.waited_s,
        waiting: loader.waiting,
        epoch: loader.epoch,
        step: loader.step,
        steps: loader.steps,
        prefetched: loader.ready,
        reconnects: loader.reconnects,
        lost_splits: loader.lost_splits,
        skipped_splits: loader.skipped_splits,
        quarantined_elements: loader.quarantined_elements,
        verdict: LoaderVerdict {
            sentence: &loader.sentence,
            advice: &loader.advice,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> LoaderFacts {
        LoaderFacts {
            name: name.to_owned(),
            elements: 3,
            waited_s: 0.5,
            ..LoaderFacts::default()
        }
    }

    fn text(loaders: Vec<LoaderFacts>) -> String {
        let subject = TrainerSubject::new(Box::new(|| Ok(ObservedLoaders::default())));
        subject.metrics(&TrainerFacts::new(loaders)).to_text()
    }

    #[tokio::test]
    async fn a_failed_observation_frees_the_turn() {
        let (began, begun) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let subject = Arc::new(TrainerSubject::new(Box::new(move || {
            began.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
            panic!("the observation fails");
        })));
        let observed = Arc::clone(&subject);
        let observing = tokio::spawn(async move { observed.observe().await.map(|_| ()) });
        let begun = tokio::task::spawn_blocking(move || begun.recv().map(|()| begun).unwrap());
        let begun = begun.await.unwrap();
        let busy = subject.observe().await.unwrap_err();
        assert!(busy.contains("its interpreter is busy"), "{busy}");
        // The port gives an observation up after its deadline, and the thread fails later.
        observing.abort();
        observing.await.unwrap_err();
        release.send(()).unwrap();
        let turn = Arc::clone(&subject.turn).lock_owned().await;
        drop(turn);
        release.send(()).unwrap();
        let failed = subject.observe().await.unwrap_err();
        assert!(failed.contains("panic"), "{failed}");
        assert_eq!(begun.try_iter().count(), 1);
    }

    #[test]
    fn equal_names_become_different_labels() {
        let text = text(vec![named("train"), named("train"), named("train (1)")]);
        let samples: BTreeSet<&str> = text
            .lines()
            .filter(|line| line.starts_with("millstream_loader_elements_total{"))
            .collect();
        assert_eq!(samples.len(), 3, "{text}");
    }

    #[test]
    fn names_that_differ_in_secrets_stay_different() {
        let long = format!("https://user:{}@host/a", "secret".repeat(20));
        let names = ["https://h/a?sig=secret1", "https://h/a?sig=secret2", &long];
        let facts = TrainerFacts::new(names.map(named).into());
        let names: BTreeSet<&str> = facts.loaders.iter().map(|loader| &*loader.name).collect();
        let expected = ["https://...@host/a", "https://h/a?...", "https://h/a?... (1)"];
        assert_eq!(names, BTreeSet::from(expected));
    }

    #[test]
    fn loaders_and_names_are_bounded() {
        let facts = TrainerFacts::new((0..100).map(|_| named(&"x".repeat(1000))).collect());
        assert_eq!(
            (facts.loaders.len(), facts.left_out),
            (LOADERS_MAX, 100 - LOADERS_MAX)
        );
        assert!(facts.loaders.iter().all(|loader| loader.name.len() < 1000));
    }

    #[test]
    fn the_newest_loaders_are_shown() {
        let facts = TrainerFacts::new((0..100).map(|number| named(&number.to_string())).collect());
        let names: Vec<&str> = facts.loaders.iter().map(|loader| &loader.name[..]).collect();
        assert_eq!((names[0], names[LOADERS_MAX - 1]), ("36", "99"));
    }

    #[test]
    fn unknown_numbers_are_left_out() {
        let text = text(vec![named("train")]);
        assert!(
            text.contains("millstream_loader_waiting_seconds_total{loader=\"train\"} 0.5"),
            "{text}"
        );
        assert!(
            !text.contains("loader_bytes_total") && !text.contains("loader_epoch_steps"),
            "{text}"
        );
    }
}
