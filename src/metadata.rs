//! The facts of a registered dataset, decoded from the dispatcher's answer. Does not know connections.

use millstream_control::rpc::DatasetInfo;
use millstream_control::{Cardinality, DatasetId, Policy};
use millstream_dataplane::transport::Compression;
use millstream_element::ElementSpec;

/// The facts of a registered dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetMetadata {
    /// The id of the dataset.
    pub id: DatasetId,
    /// The specification of the dataset's elements.
    pub spec: ElementSpec,
    /// The number of elements if one task reads the whole dataset.
    pub cardinality: Cardinality,
    /// The compression of the dataset's elements on a network, from its
    /// [`Options`](millstream_pipeline::graph::Options). `None` leaves the choice to each worker's setting.
    pub compression: Option<Compression>,
}

impl DatasetMetadata {
    /// Returns the number of elements that a job of this dataset yields, as far as it is known: see
    /// [`Cardinality::distributed`].
    pub fn distributed_cardinality(&self, policy: Policy, num_consumers: Option<u32>) -> Cardinality {
        self.cardinality.distributed(policy, num_consumers)
    }

    /// # Errors
    /// A fact of the dataset is invalid; the error names the dataset and the fact.
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
