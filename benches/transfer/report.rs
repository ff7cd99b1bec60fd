//! The record of one measurement, printed as a table for people or as a line of JSON.

use std::io::Write;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The record of one measurement.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Record {
    pub(crate) transport: String,
    /// The division of elements among workers; `None` for endless sequences.
    pub(crate) visitation: Option<&'static str>,
    pub(crate) element_bytes: u64,
    pub(crate) elements: u64,
    pub(crate) seconds: f64,
    pub(crate) elements_per_s: f64,
    pub(crate) bytes_per_s: f64,
    pub(crate) latency_us: Option<Latency>,
    pub(crate) cpu_s_per_gb: Cpu,
    pub(crate) bytes_copied_per_element: f64,
    /// The maximum number of outstanding elements. `None` if the reader chooses the number.
    pub(crate) max_outstanding: Option<u64>,
    pub(crate) peak_outstanding: Option<u64>,
    /// The number of outstanding elements at the end of the reader's pause.
    pub(crate) paused_outstanding: Option<u64>,
    pub(crate) mtu: Option<u16>,
    pub(crate) peer_mtu: Option<u16>,
    pub(crate) gso: Option<bool>,
    pub(crate) gro: Option<bool>,
    pub(crate) rcvbuf: Option<usize>,
    pub(crate) cipher: Option<String>,
    pub(crate) lost_packets: Option<u64>,
}

/// The time from an element's production until the reader returns it, in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Latency {
    /// Summarises a histogram of nanoseconds. Returns `None` for an empty histogram.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let us = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            p50: us(0.5),
            p90: us(0.9),
            p99: us(0.99),
            p999: us(0.999),
            max: histogram.max() as f64 / 1e3,
        })
    }
}

/// The processor seconds, user and system, per 10^9 payload bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Cpu {
    /// The processor seconds of the workers. `None` if the workers run in the reader's process or on another
    /// host.
    pub(crate) worker: Option<f64>,
    pub(crate) client: f64,
}

impl Record {
    /// Adds the counts and the resulting rates.
    pub(crate) fn with_rate(mut self, elements: u64, seconds: f64) -> Self {
        self.elements = elements;
        self.seconds = seconds;
        self.elements_per_s = elements as f64 / seconds;
        self.bytes_per_s = self.elements_per_s * self.element_bytes as f64;
        self
    }

    /// Returns the transport together with the visitation.
    fn label(&self) -> String {
        let visitation = self.visitation.map(|name| format!(" {name}"));
        format!("{}{}", self.transport, visitation.unwrap_or_default())
    }

    /// Returns the payload in units of 10^9 bytes, as a divisor that is never 0.
    pub(crate) fn gigabytes(&self) -> f64 {
        (self.elements as f64 * self.element_bytes as f64 / 1e9).max(1e-9)
    }
}

/// A printer of records, which prints each record at once.
#[derive(Debug)]
pub(crate) struct Printer {
    is_json: bool,
    is_header_due: bool,
}

impl Printer {
    pub(crate) fn new(is_json: bool) -> Self {
        Self {
            is_json,
            is_header_due: true,
        }
    }

    /// Prints one measurement.
    pub(crate) fn print(&mut self, record: &Record) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.is_json {
            serde_json::to_writer(&mut out, record)?;
            return writeln!(out);
        }
        if std::mem::take(&mut self.is_header_due) {
            writeln!(
                out,
                "{:<20} {:>10} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6}",
                "transport",
                "bytes",
                "elements/s",
                "GB/s",
                "p50 us",
                "p99 us",
                "cpu wrk",
                "cpu cli",
                "mtu",
                "peak"
            )?;
        }
        let latency = |pick: fn(&Latency) -> f64| {
            record
                .latency_us
                .as_ref()
                .map_or("-".to_owned(), |latency| format!("{:.1}", pick(latency)))
        };
        let dash = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
        writeln!(
            out,
            "{:<20} {:>10} {:>12.0} {:>9.3} {:>9} {:>9} {:>9} {:>9.3} {:>6} {:>6}",
            record.label(),
            record.element_bytes,
            record.elements_per_s,
            record.bytes_per_s / 1e9,
            latency(|latency| latency.p50),
            latency(|latency| latency.p99),
            record
                .cpu_s_per_gb
                .worker
                .map_or("-".to_owned(), |seconds| format!("{seconds:.3}")),
            record.cpu_s_per_gb.client,
            dash(record.mtu.map(u64::from)),
            dash(record.peak_outstanding),
        )?;
        if let Some(outstanding) = record.paused_outstanding {
            writeln!(
                out,
                "{:<20} {outstanding} outstanding while the reader paused",
                ""
            )?;
        }
        Ok(())
    }

    /// Prints each group's median rate, and its ratio to the first group of the same size.
    pub(crate) fn print_medians(&mut self, records: &[Record]) -> std::io::Result<()> {
        let mut groups: Vec<(String, u64, Vec<f64>)> = Vec::new();
        for record in records {
            let key = (record.label(), record.element_bytes);
            let is_same = |group: &&mut (String, u64, Vec<f64>)| group.0 == key.0 && group.1 == key.1;
            match groups.iter_mut().find(is_same) {
                Some(group) => group.2.push(record.bytes_per_s),
                None => groups.push((key.0, key.1, vec![record.bytes_per_s])),
            }
        }
        let mut out = std::io::stdout().lock();
        let rounds = groups.first().map_or(0, |group| group.2.len());
        writeln!(out, "medians of {rounds} rounds")?;
        for (transport, element_bytes, rates) in &groups {
            let bytes_per_s = median(rates);
            let first = groups.iter().find(|group| group.1 == *element_bytes);
            let ratio = bytes_per_s / first.map_or(bytes_per_s, |group| median(&group.2));
            writeln!(
                out,
                "{transport:<20} {element_bytes:>10} {:>12.0} {:>9.3}   ratio {ratio:.2}   spread {:.3} to {:.3}",
                bytes_per_s / *element_bytes as f64,
                bytes_per_s / 1e9,
                rates.iter().copied().fold(f64::INFINITY, f64::min) / 1e9,
                rates.iter().copied().fold(0.0, f64::max) / 1e9
            )?;
        }
        Ok(())
    }
}

/// Returns the median: the middle value, or the mean of the two middle values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    low.midpoint(high)
}

/// Returns the processor seconds that a process has used so far: all threads, user and system. Returns 0 for
/// a process that is gone.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    // Fields 14 and 15 of /proc/PID/stat count ticks of 10 ms, on every Linux. The name before these fields
    // may contain spaces.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat
        .rsplit_once(')')
        .map_or("", |split| split.1)
        .split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }
}
