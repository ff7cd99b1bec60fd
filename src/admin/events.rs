//! The latest events of a service as one JSON object.

use std::sync::Arc;
use std::time::SystemTime;

use humantime::Rfc3339Timestamp;
use millstream_control::ServiceEvent;
use millstream_control::rpc::Observed;
use serde::Serialize;

use super::rows::Shown;

/// The events of an observation, with the oldest first.
#[derive(Serialize)]
pub(super) struct EventsDocument<'e> {
    events: Vec<EventRow<'e>>,
}

#[derive(Serialize)]
struct EventRow<'e> {
    number: u64,
    time: Shown<Rfc3339Timestamp>,
    kind: &'static str,
    fault: bool,
    text: &'e str,
    job: Option<u64>,
}

impl<'e> EventsDocument<'e> {
    /// Returns the events of an observation at `now`. There are none while another dispatcher leads.
    pub(super) fn new(observed: Option<&'e Observed>, now: SystemTime) -> EventsDocument<'e> {
        let events = observed.map(|observed| {
            let event = |event: &'e Arc<ServiceEvent>| {
                let age = observed.at.saturating_sub(event.at);
                // A clock that was set back far would lead before the first time that the format knows.
                let epoch = SystemTime::UNIX_EPOCH;
                let time = now.checked_sub(age).map_or(epoch, |time| time.max(epoch));
                EventRow {
                    number: event.number,
                    time: Shown(humantime::format_rfc3339_seconds(time)),
                    kind: event.kind.name(),
                    fault: event.kind.is_fault(),
                    text: &event.text,
                    job: event.job.map(|job| job.0),
                }
            };
            observed.events.iter().map(event).collect()
        });
        EventsDocument {
            events: events.unwrap_or_default(),
        }
    }
}
