//! The latest events of a service as one JSON object.

use std::sync::Arc;
use std::time::SystemTime;

use millstream_control::ServiceEvent;
use millstream_control::rpc::Observed;
use serde_json::{Value, json};

/// Returns the events of an observation at `now`, with the oldest first.
pub(super) fn events_json(observed: &Observed, now: SystemTime) -> Value {
    let event = |event: &Arc<ServiceEvent>| {
        let age = observed.at.saturating_sub(event.at);
        let time = now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
        json!({
            "number": event.number,
            "time": humantime::format_rfc3339_seconds(time).to_string(),
            "kind": event.kind.name(),
            "fault": event.kind.is_fault(),
            "text": event.text,
            "job": event.job.map(|job| job.0),
        })
    };
    json!({ "events": observed.events.iter().map(event).collect::<Vec<_>>() })
}
