//! Readers of exactly-once jobs.

use millstream::client::{MaxOutstanding, ReaderConfig};
use millstream::control::Policy;
use millstream::element::Element;
use millstream::exactly_once::{ExactReader, ExactTerms};
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service};

const SEED: u64 = 7;

/// Opens the first pass of an exactly-once job as its only trainer, with at most `outstanding` elements.
pub(crate) fn read_exactly_once(service: &Service, dataset: Dataset, outstanding: u64) -> ExactReader {
    let config = ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(outstanding),
        ..ReaderConfig::default()
    };
    open(service, dataset, &Functions::new(), &config)
}

/// Opens the first pass of an exactly-once job as its only trainer.
pub(crate) fn open(
    service: &Service,
    dataset: Dataset,
    functions: &Functions,
    config: &ReaderConfig,
) -> ExactReader {
    let graph = dataset.graph().expect("valid");
    let graph = graph.for_exactly_once(SEED, functions).expect("valid");
    let dataset = service.register(graph.into(), None).expect("registered");
    let request = ReadRequest::new(dataset, Policy::Dynamic).exactly_once(ExactTerms::new(SEED));
    ExactReader::open(service, &request, 0, config).expect("it serves")
}

/// Returns the numbers of the next element.
pub(crate) fn next_numbers(reader: &mut ExactReader) -> Vec<i64> {
    let element = reader.next_element().expect("the reader proceeds");
    numbers(&element.expect("there is more"))
}

fn numbers(element: &Element) -> Vec<i64> {
    let component = element.component(ExactReader::FIRST_COMPONENT);
    let component = component.expect("a component");
    component.as_slice::<i64>().expect("numbers").to_vec()
}
