//! Operations with plain parameters.

use millstream::pipeline::graph::{
    Autotune, ErrorPolicy, ExternalState, Options, Packing, PaddedBatch, Threading, Travel,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Graph;
use crate::spec::dtype;

#[pymethods]
impl Graph {
    fn batch(&self, size: u64, drop_remainder: bool) -> PyResult<Graph> {
        self.then(|dataset| dataset.batch(size, drop_remainder))
    }

    fn unbatch(&self) -> PyResult<Graph> {
        self.then(|dataset| dataset.unbatch())
    }

    fn rebatch(&self, sizes: Vec<u64>, drop_remainder: bool) -> PyResult<Graph> {
        self.then(|dataset| dataset.rebatch_sizes(sizes, drop_remainder))
    }

    fn ragged_batch(&self, size: u64, drop_remainder: bool) -> PyResult<Graph> {
        self.then(|dataset| dataset.ragged_batch(size, drop_remainder))
    }

    /// `shapes` and `values`: one a component, or none at all.
    fn padded_batch(
        &self,
        size: u64,
        shapes: Vec<Vec<Option<u64>>>,
        values: Vec<Vec<u8>>,
        drop_remainder: bool,
    ) -> PyResult<Graph> {
        let values = values.into_iter().map(Into::into).collect();
        self.then(|dataset| {
            dataset.padded_batch_with(PaddedBatch {
                size,
                drop_remainder,
                shapes,
                values,
            })
        })
    }

    fn shuffle(&self, buffer: u64, seed: Option<u64>) -> PyResult<Graph> {
        self.then(|dataset| dataset.shuffle(buffer, seed))
    }

    fn drawn_alike(&self) -> PyResult<Graph> {
        self.then(|dataset| dataset.drawn_alike())
    }

    fn shuffle_and_repeat(&self, buffer: u64, count: Option<u64>, seed: Option<u64>) -> PyResult<Graph> {
        self.then(|dataset| dataset.shuffle_and_repeat(buffer, count, seed))
    }

    fn repeat(&self, count: Option<u64>) -> PyResult<Graph> {
        self.then(|dataset| dataset.repeat(count))
    }

    fn take(&self, count: u64) -> PyResult<Graph> {
        self.then(|dataset| dataset.take(count))
    }

    fn skip(&self, count: u64) -> PyResult<Graph> {
        self.then(|dataset| dataset.skip(count))
    }

    fn shard(&self, count: u64, index: u64) -> PyResult<Graph> {
        self.then(|dataset| dataset.shard(count, index))
    }

    fn shard_hint(&self) -> PyResult<Graph> {
        self.then(|dataset| dataset.shard_hint())
    }

    fn enumerate(&self, start: i64) -> PyResult<Graph> {
        self.then(|dataset| dataset.enumerate(start))
    }

    /// 0: as many as seem right.
    fn prefetch(&self, buffer: u64) -> PyResult<Graph> {
        self.then(|dataset| dataset.prefetch(buffer))
    }

    fn unique(&self) -> PyResult<Graph> {
        self.then(|dataset| dataset.unique())
    }

    /// `None`: without end.
    fn assert_cardinality(&self, count: Option<u64>) -> PyResult<Graph> {
        self.then(|dataset| match count {
            Some(count) => dataset.assert_cardinality(count),
            None => dataset.assert_infinite(),
        })
    }

    fn ignore_errors(&self, log_warning: bool) -> PyResult<Graph> {
        self.then(|dataset| dataset.ignore_errors(log_warning))
    }

    /// `None`: in memory.
    fn cache(&self, path: Option<String>) -> PyResult<Graph> {
        self.then(|dataset| match path {
            Some(path) => dataset.cache_in(path),
            None => dataset.cache(),
        })
    }

    fn snapshot(&self, path: String, packing: &str) -> PyResult<Graph> {
        let packing = match packing {
            "none" => Packing::None,
            "lz4" => Packing::Lz4,
            "gzip" => Packing::Gzip,
            other => return Err(PyValueError::new_err(format!("{other:?} is no compression"))),
        };
        self.then(|dataset| dataset.snapshot(path, packing))
    }

    fn split_size(&self, positions: u64) -> PyResult<Graph> {
        self.then(|dataset| dataset.split_size(positions))
    }

    fn parse_int(&self, component: String) -> PyResult<Graph> {
        self.then(|dataset| dataset.parse_int(component))
    }

    fn parse_float(&self, component: String, dtype_name: &str) -> PyResult<Graph> {
        let dtype = dtype(dtype_name)?;
        self.then(|dataset| dataset.parse_float(component, dtype))
    }

    /// Threads of what was just added, 0: as many as seem right.
    fn parallel(&self, threads: u32) -> PyResult<Graph> {
        self.then(|dataset| dataset.parallel(threads))
    }

    /// Whether what was just added keeps the order of its elements.
    fn in_order(&self, ordered: bool) -> PyResult<Graph> {
        self.then(|dataset| {
            if ordered {
                dataset.ordered()
            } else {
                dataset.unordered()
            }
        })
    }

    fn on_error(&self, retries: u32, skips: bool) -> PyResult<Graph> {
        self.then(|dataset| dataset.on_error(ErrorPolicy { retries, skips }))
    }

    /// How elements travel over a network: `none`, `lz4` or `auto`.
    fn travel(&self, compression: &str) -> PyResult<Graph> {
        let compression = match compression {
            "none" => Travel::Plain,
            "lz4" => Travel::Lz4,
            "auto" => Travel::Auto,
            other => return Err(PyValueError::new_err(format!("{other:?} is no compression"))),
        };
        self.options(Options {
            compression: Some(compression),
            ..Options::default()
        })
    }

    /// How it is executed; what is `None` stays as it was.
    #[pyo3(signature = (*, deterministic=None, private_threads=None, max_intra_op=None, autotune=None, cpu_budget=None,
        ram_budget=None, external_state=None))]
    #[expect(clippy::too_many_arguments, reason = "each is an option with a name")]
    fn with_options(
        &self,
        deterministic: Option<bool>,
        private_threads: Option<u32>,
        max_intra_op: Option<u32>,
        autotune: Option<bool>,
        cpu_budget: Option<u32>,
        ram_budget: Option<u64>,
        external_state: Option<&str>,
    ) -> PyResult<Graph> {
        let threading = (private_threads.is_some() || max_intra_op.is_some()).then_some(Threading {
            private_threads,
            max_intra_op,
        });
        let tuned = autotune.is_some() || cpu_budget.is_some() || ram_budget.is_some();
        let autotune = tuned.then_some(Autotune {
            enabled: autotune,
            threads: cpu_budget,
            ram_bytes: ram_budget,
        });
        let external_state = match external_state {
            None => None,
            Some("fail") => Some(ExternalState::Fail),
            Some("warn") => Some(ExternalState::Warn),
            Some("ignore") => Some(ExternalState::Ignore),
            Some(other) => return Err(PyValueError::new_err(format!("{other:?} is no policy"))),
        };
        self.options(Options {
            deterministic,
            threading,
            autotune,
            external_state,
            ..Options::default()
        })
    }
}

impl Graph {
    fn options(&self, options: Options) -> PyResult<Graph> {
        self.then(|dataset| dataset.with_options(options))
    }
}
