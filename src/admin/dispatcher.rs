//! A dispatcher as the subject of an admin port.

use std::time::{Instant, SystemTime};

use millstream_admin::{Exposition, Page, Query, QueryError, Subject};
use millstream_control::JobId;
use millstream_control::rpc::{Observed, ServerObserver};
use parking_lot::Mutex;
use serde::Serialize;

use super::events::EventsDocument;
use super::hidden::hidden;
use super::history::History;
use super::json::ServiceDocument;
use super::metrics::{process_metrics, service_metrics};
use super::pages::page;
use super::refused::Refused;
use super::rows::json_text;
use super::settings::{Setting, SettingsDocument};
use super::stage_metrics::stage_metrics;
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

/// The status of a dispatcher. Only `leading` has a value while another dispatcher leads.
#[derive(Serialize)]
pub(super) struct StatusDocument<'s> {
    leading: bool,
    #[serde(flatten)]
    led: Option<LedDocument<'s>>,
}

/// The service of a leading dispatcher.
#[derive(Serialize)]
struct LedDocument<'s> {
    store_full: Option<&'s str>,
    verdict: VerdictRow,
    #[serde(flatten)]
    service: ServiceDocument<'s>,
}

#[derive(Serialize)]
struct VerdictRow {
    level: &'static str,
    sentence: String,
    advice: String,
}

impl<'s> StatusDocument<'s> {
    pub(super) fn new(facts: &'s DispatcherFacts) -> StatusDocument<'s> {
        let led = facts.observed.as_ref().map(|observed| {
            let verdict = facts.verdict_on(observed);
            LedDocument {
                store_full: observed.store_full.as_deref(),
                verdict: VerdictRow {
                    level: verdict.level.name(),
                    sentence: verdict.sentence,
                    advice: verdict.advice,
                },
                service: ServiceDocument::new(&observed.status, Some(&observed.stages)),
            }
        });
        StatusDocument {
            leading: led.is_some(),
            led,
        }
    }
}

impl DispatcherFacts {
    pub(super) fn new(observed: Option<Observed>, refused_lately: u64) -> DispatcherFacts {
        DispatcherFacts {
            observed,
            refused_lately,
        }
    }

    fn verdict_on(&self, observed: &Observed) -> Verdict {
        let store_full = observed.store_full.as_deref();
        Verdict::of(&observed.status, store_full, self.refused_lately)
    }
}

impl Subject for DispatcherSubject {
    type Facts = DispatcherFacts;

    const HAS_HISTORY: bool = true;

    async fn observe(&self) -> Result<DispatcherFacts, String> {
        let observed = self.observer.observe().await;
        let failed = observed
            .as_ref()
            .map(|observed| observed.status.refusals.handshakes_failed);
        let refused_lately = failed.map_or(0, |failed| self.refused.lock().note(Instant::now(), failed));
        Ok(DispatcherFacts::new(observed, refused_lately))
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
            stage_metrics(&observed.status, &observed.stages, &mut found);
        }
        found
    }

    fn status(&self, facts: &DispatcherFacts) -> String {
        json_text(&StatusDocument::new(facts))
    }

    fn document(
        &self,
        facts: &DispatcherFacts,
        path: &str,
        query: Query<'_>,
    ) -> Result<Option<String>, QueryError> {
        Ok(Some(match path {
            "/api/v1/history" => {
                let job = query.number("job")?.map(JobId);
                let document = self.history.lock().document(job);
                json_text(&document)
            }
            "/api/v1/events" => json_text(&EventsDocument::new(facts.observed.as_ref(), SystemTime::now())),
            "/api/v1/settings" => json_text(&SettingsDocument::new(&self.settings)),
            _ => return Ok(None),
        }))
    }

    fn without_secrets(&self, text: String) -> String {
        hidden(text)
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
