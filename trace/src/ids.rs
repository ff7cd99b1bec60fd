//! The ids of traces and spans, in the sizes of the W3C trace context. Both are derived from the task and the
//! lease of a split, which all its processes know.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// The id of a trace: 128 bits, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId(u128);

/// The id of a span: 64 bits, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId(u64);

impl TraceId {
    /// Returns the id of the trace of a split. A lease is unique in its task. Task ids of a dispatcher
    /// without its earlier records begin at another random number. A split that is leased again has another
    /// trace.
    pub fn of_split(task: u64, lease: u64) -> TraceId {
        let mut hasher = SipHasher13::new();
        hasher.write(b"millstream split");
        hasher.write_u64(task.to_le());
        hasher.write_u64(lease.to_le());
        // W3C forbids the id 0.
        TraceId(hasher.finish128().as_u128().max(1))
    }

    /// Returns the id as a number. Its big-endian bytes are those of the W3C trace context.
    pub fn get(self) -> u128 {
        self.0
    }

    /// Returns the bits from which all processes decide whether the trace is sampled: the 56 rightmost bits,
    /// which the W3C trace context requires to be random.
    pub(crate) fn randomness(self) -> u64 {
        // The mask leaves 56 bits, so nothing is cut off.
        u64::try_from(self.0 & ((1 << 56) - 1)).unwrap_or(u64::MAX)
    }
}

impl SpanId {
    /// Returns the id of the one span with this name in a trace, which other processes name as the parent of
    /// theirs.
    pub(crate) fn of(trace: TraceId, name: &str) -> SpanId {
        let mut hasher = SipHasher13::new();
        hasher.write(&trace.0.to_le_bytes());
        hasher.write(name.as_bytes());
        SpanId(hasher.finish128().h1.max(1))
    }

    /// Returns a random id, for one of several spans with the same name.
    pub(crate) fn random() -> SpanId {
        SpanId(rand::random::<u64>().max(1))
    }

    /// Returns the id as a number. Its big-endian bytes are those of the W3C trace context.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// The form of the W3C trace context: 32 hexadecimal digits.
impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The form of the W3C trace context: 16 hexadecimal digits.
impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests fixed ids, because processes of different versions must derive the same ones.
    #[test]
    fn ids_never_change() {
        let trace = TraceId::of_split(7, 9);
        let ids = [trace.to_string(), SpanId::of(trace, "lease").to_string()];
        assert_eq!(ids, ["ce566ead3dd83b6a5860997ed06648d4", "f1aed5f0be390042"]);
    }

    #[test]
    fn leases_and_tasks_have_their_own_traces() {
        let ids = [(1, 2), (2, 1), (1, 1), (2, 2)].map(|(task, lease)| TraceId::of_split(task, lease));
        let distinct: std::collections::BTreeSet<TraceId> = ids.into_iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }
}
