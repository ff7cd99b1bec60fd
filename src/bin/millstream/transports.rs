//! The text about the transports of a reader's links to workers. Does not know the data that was read.

use std::collections::BTreeMap;

use millstream::dataplane::transport::LinkReport;

/// Returns one line for each transport: the number of workers read by it, and the reason if a better
/// transport was not possible.
pub(crate) fn transports<'a>(links: impl Iterator<Item = &'a LinkReport>) -> Vec<String> {
    let mut counts: BTreeMap<(&str, Option<&str>), u64> = BTreeMap::new();
    for link in links {
        *counts
            .entry((link.transport, link.not_better.as_deref()))
            .or_default() += 1;
    }
    let line = |((transport, not_better), workers): ((&str, Option<&str>), u64)| {
        let why = not_better.map_or_else(String::new, |why| format!(" ({why})"));
        let noun = if workers == 1 { "worker" } else { "workers" };
        format!("{workers} {noun} by {transport}{why}")
    };
    counts.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_reported_once_per_transport() {
        let link = |transport, not_better: Option<&str>| LinkReport {
            transport,
            not_better: not_better.map(Into::into),
            ..LinkReport::default()
        };
        let links = [
            link("quic", Some("other host")),
            link("memory", None),
            link("quic", Some("other user")),
            link("quic", Some("other host")),
        ];
        let lines = [
            "1 worker by memory",
            "2 workers by quic (other host)",
            "1 worker by quic (other user)",
        ];
        assert_eq!(transports(links.iter()), lines);
        assert!(transports([].iter()).is_empty());
    }
}
