//! A dispatcher as the subject of an admin port.

use std::time::{Instant, SystemTime};

use millstream_admin::{Exposition, Page, Query, Subject};
use millstream_control::JobId;
use millstream_control::rpc::{Observed, ServerObserver};
use parking_lot::Mutex;
use serde_json::Value;

use super::events::events_json;
use super::hidden::hidden;
use super::history::History;
use super::json::{stages_json, status_json};
use super::metrics::{process_metrics, service_metrics};
use super::pages::page;
use super::refused::Refused;
use super::settings::{Setting, settings_json};
use super::verdict::Verdict;

/// A dispatcher of this process that an admin port shows.
#[derive(Debug)]
pub struct DispatcherSubject {
    observer: ServerObserver,
    refused: Mutex<Refused>,
    history: Mutex<History>,
    settings: Vec<Setting>,
}

/// The state of a dispatcher at one moment.
#[derive(Clone, Debug)]
pub struct DispatcherFacts {
    /// The state of the service; `None` while another dispatcher leads.
    observed: Option<Observed>,
    refused_lately: u64,
}

impl DispatcherSubject {
    /// Returns the subject for a dispatcher's observer.
    pub fn new(observer: ServerObserver) -> DispatcherSubject {
        DispatcherSubject {
            observer,
            refused: Mutex::default(),
            history: Mutex::default(),
            settings: Vec::new(),
        }
    }

    /// Shows these settings of the process.
    pub fn with_settings(self, settings: Vec<Setting>) -> DispatcherSubject {
        DispatcherSubject { settings, ..self }
    }
}

impl DispatcherFacts {
    fn verdict(&self) -> Option<Verdict> {
        let observed = self.observed.as_ref()?;
        let store_full = observed.store_full.as_deref();
        Some(Verdict::of(&observed.status, store_full, self.refused_lately))
    }
}

impl Subject for DispatcherSubject {
    type Facts = DispatcherFacts;

    async fn observe(&self) -> Result<DispatcherFacts, String> {
        let observed = self.observer.observe().await;
        let failed = observed
            .as_ref()
            .map(|observed| observed.status.refusals.handshakes_failed);
        let refused_lately = failed.map_or(0, |failed| self.refused.lock().note(Instant::now(), failed));
        Ok(DispatcherFacts {
            observed,
            refused_lately,
        })
    }

    fn ready(&self, facts: &DispatcherFacts) -> Result<(), String> {
        match &facts.observed {
            Some(Observed {
                store_full: Some(reason),
                ..
            }) => Err(reason.clone()),
            Some(_) => Ok(()),
            None => Err("this dispatcher does not lead: another one does, or it has ended".to_owned()),
        }
    }

    fn metrics(&self, facts: &DispatcherFacts) -> Exposition {
        let mut found = process_metrics();
        let is_leading = f64::from(u8::from(facts.observed.is_some()));
        found.gauge(
            "dispatcher_leading",
            "Whether this dispatcher leads.",
            &[],
            is_leading,
        );
        if let Some(observed) = &facts.observed {
            let is_full = f64::from(u8::from(observed.store_full.is_some()));
            found.gauge(
                "dispatcher_store_full",
                "Whether the store has no space.",
                &[],
                is_full,
            );
            service_metrics(&observed.status, &mut found);
        }
        found
    }

    fn status(&self, facts: &DispatcherFacts) -> Value {
        let Some(observed) = &facts.observed else {
            return serde_json::json!({ "leading": false });
        };
        let mut status = status_json(&observed.status);
        let ids = observed.status.iterations.iter().map(|row| row.id);
        if let Value::Array(rows) = &mut status["iterations"] {
            for (row, id) in rows.iter_mut().zip(ids) {
                let stages = observed.stages.get(&id).map(Vec::as_slice);
                row["stages"] = stages_json(stages.unwrap_or_default());
            }
        }
        status["leading"] = true.into();
        status["store_full"] = observed.store_full.clone().into();
        if let Some(verdict) = facts.verdict() {
            status["verdict"] = serde_json::json!({
                "level": verdict.level.name(),
                "sentence": verdict.sentence,
                "advice": verdict.advice,
            });
        }
        hidden(status)
    }

    fn document(&self, facts: &DispatcherFacts, path: &str, query: Query<'_>) -> Option<Value> {
        let document = match path {
            "/api/v1/history" => self.history.lock().json(query.number("job").map(JobId)),
            "/api/v1/events" => match &facts.observed {
                Some(observed) => events_json(observed, SystemTime::now()),
                None => serde_json::json!({ "events": [] }),
            },
            "/api/v1/settings" => settings_json(&self.settings),
            _ => return None,
        };
        Some(hidden(document))
    }

    fn remember(&self, facts: &DispatcherFacts) {
        if let Some(observed) = &facts.observed {
            self.history.lock().add(SystemTime::now(), &observed.status);
        }
    }

    fn page(&self, path: &str) -> Option<Page> {
        page(path)
    }
}
