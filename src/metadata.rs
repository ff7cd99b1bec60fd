//! The facts of a registered dataset, decoded from the dispatcher's answer. Knows no connection.

use millstream_control::rpc::DatasetInfo;
use millstream_control::{Cardinality, DatasetId, Policy};
use millstream_dataplane::transport::Compression;
use millstream_element::ElementSpec;

/// A registered dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetMetadata {
    /// The id.
    pub id: DatasetId,
    /// The specification of its elements.
    pub spec: ElementSpec,
    /// The number of its elements when one task reads all of it.
    pub cardinality: Cardinality,
    /// The compression of its elements on a network, as its [`Options`](millstream_pipeline::graph::Options)
    /// say; `None` for each worker's own setting.
    pub compression: Option<Compression>,
}

impl DatasetMetadata {
    /// Returns how many elements a job yields of it, as far as that can be told: see
    /// [`Cardinality::distributed`].
    pub fn distributed_cardinality(&self, policy: Policy, num_consumers: Option<u32>) -> Cardinality {
        self.cardinality.distributed(policy, num_consumers)
    }

    /// # Errors
    /// The dataset, and which of its facts cannot be read.
    pub(crate) fn new(info: DatasetInfo) -> Result<Self, String> {
        let spec = ElementSpec::from_bytes(&info.facts.spec)
            .map_err(|error| format!("dataset {}: {error}", info.id))?;
        let compression = info.facts.compression.as_deref().map(str::parse);
        let compression = compression
            .transpose()
            .map_err(|error| format!("dataset {}: {error}", info.id))?;
        Ok(Self {
            id: info.id,
            spec,
            cardinality: info.facts.cardinality,
            compression,
        })
    }
}
