//! The facts of several dispatchers of one service: which of them leads, and which of them answer.

use std::thread;
use std::time::Duration;

use millstream::Service;
use millstream::control::rpc::NOT_LEADING;
use millstream::link::{HostPorts, LoadedKey};

use super::service::config;

/// The time for a connection to one dispatcher.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// One of several dispatchers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct MemberFacts {
    /// The address of the dispatcher.
    pub(in super::super) address: String,
    /// The state of the dispatcher.
    pub(in super::super) state: MemberState,
}

/// The state of one of several dispatchers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum MemberState {
    /// The dispatcher leads.
    Leads,
    /// The dispatcher answers, and waits for the end of the leader.
    StandsBy,
    /// The connection failed, for this reason.
    Failed(String),
}

/// Connects to each dispatcher alone, all at the same time. Returns nothing for a single address.
pub(in super::super) fn members(key: Option<&LoadedKey>, dispatchers: Option<&str>) -> Vec<MemberFacts> {
    let parsed = dispatchers.and_then(|text| text.parse::<HostPorts>().ok());
    let (Some(key), Some(addresses)) = (key, parsed.filter(HostPorts::are_several)) else {
        return Vec::new();
    };
    thread::scope(|scope| {
        let start = |address: String| (address.clone(), scope.spawn(move || state(key, &address)));
        let asked: Vec<_> = addresses
            .iter()
            .map(|address| start(address.to_string()))
            .collect();
        let answers = asked.into_iter().map(|(address, asked)| {
            let state = asked.join();
            let state = state.unwrap_or_else(|_| MemberState::Failed("the check panicked".to_owned()));
            MemberFacts { address, state }
        });
        answers.collect()
    })
}

fn state(key: &LoadedKey, address: &str) -> MemberState {
    match Service::connect(key, address, config(Some(CONNECT_MAX))) {
        Ok(service) => {
            service.close();
            MemberState::Leads
        }
        Err(error) => {
            let reason = error.to_string();
            if reason.contains(NOT_LEADING) {
                MemberState::StandsBy
            } else {
                MemberState::Failed(reason)
            }
        }
    }
}
