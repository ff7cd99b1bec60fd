//! Metrics of one moment in the text format of Prometheus. Refuses to know what is measured.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};

/// The prefix of all names.
const PREFIX: &str = "millstream_";

/// The labels of a sample: names and values. Values must come from a bounded set.
pub type Labels<'l> = &'l [(&'static str, &'l str)];

/// The metrics of a process at one moment.
///
/// Names follow the conventions of Prometheus: base units such as `_seconds` and `_bytes`, and `_total` for
/// counters. The prefix `millstream_` is added to every name.
#[derive(Debug, Default)]
pub struct Exposition {
    families: Vec<MetricFamily>,
}

impl Exposition {
    /// Returns metrics without samples.
    pub fn new() -> Exposition {
        Exposition::default()
    }

    /// Adds a sample of a value that may rise and fall. Samples of one name are added one after the other.
    pub fn gauge(&mut self, name: &str, help: &str, labels: Labels<'_>, value: f64) {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = labelled(labels);
        metric.set_gauge(gauge);
        self.add(name, help, MetricType::GAUGE, metric);
    }

    /// Adds a sample of a value that only rises. Samples of one name are added one after the other.
    pub fn counter(&mut self, name: &str, help: &str, labels: Labels<'_>, value: f64) {
        debug_assert!(
            name.ends_with("_total"),
            "{name}: the name of a counter ends with _total"
        );
        let mut counter = Counter::default();
        counter.set_value(value);
        let mut metric = labelled(labels);
        metric.set_counter(counter);
        self.add(name, help, MetricType::COUNTER, metric);
    }

    /// Returns the text, in the order in which samples were added. Families without samples are left out.
    pub fn to_text(&self) -> String {
        let mut text = Vec::new();
        // A vector takes all bytes, and every family has samples.
        if let Err(error) = TextEncoder::new().encode(&self.families, &mut text) {
            tracing::error!(%error, "metrics could not be written");
        }
        String::from_utf8(text).unwrap_or_default()
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, metric: Metric) {
        let name = format!("{PREFIX}{name}");
        let latest = self.families.last_mut();
        if let Some(family) = latest.filter(|family| family.name() == name) {
            return family.mut_metric().push(metric);
        }
        debug_assert!(
            self.families.iter().all(|family| family.name() != name),
            "{name}: the samples of one name must follow one another"
        );
        let mut family = MetricFamily::default();
        family.set_name(name);
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.mut_metric().push(metric);
        self.families.push(family);
    }
}

fn labelled(labels: Labels<'_>) -> Metric {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    let mut metric = Metric::default();
    metric.set_label(pairs.collect());
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_name_share_their_help() {
        let mut found = Exposition::new();
        found.gauge("workers", "The workers.", &[("state", "alive")], 3.0);
        found.gauge("workers", "The workers.", &[("state", "a\"b\\c\nd")], 0.5);
        found.counter("refusals_total", "The refusals.", &[], 7.0);
        assert_eq!(
            found.to_text(),
            "# HELP millstream_workers The workers.\n# TYPE millstream_workers gauge\n\
             millstream_workers{state=\"alive\"} 3\nmillstream_workers{state=\"a\\\"b\\\\c\\nd\"} 0.5\n\
             # HELP millstream_refusals_total The refusals.\n# TYPE millstream_refusals_total counter\n\
             millstream_refusals_total 7\n"
        );
    }

    #[test]
    fn nothing_is_an_empty_text() {
        assert_eq!(Exposition::new().to_text(), "");
    }
}
