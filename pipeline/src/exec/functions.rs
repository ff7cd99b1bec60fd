//! The registry of this process: map functions, predicates, flat_map functions and sources by name, and the
//! factory of the service reader. One closure returns both a function's signature and its call, so the two
//! cannot disagree.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::graph::{AnalysisError, FileFormat, Format, Params, Registry, SourceSignature};
use crate::storage::Storage;

use super::cancel::Cancel;
use super::error::{BoxError, ExecError};
use super::site::Site;
use super::source::Source;
use super::value::Value;

/// The call of a map function.
pub type MapCall = Arc<dyn Fn(Value) -> Result<Value, BoxError> + Send + Sync>;
/// The call of a map function that uses its call site.
pub type SitedMapCall = Arc<dyn Fn(Value, &Site<'_>) -> Result<Value, BoxError> + Send + Sync>;
/// The call of a predicate.
pub type FilterCall = Arc<dyn Fn(&Value) -> Result<bool, BoxError> + Send + Sync>;
/// The call of a flat_map function. When the flag is raised, the call and the opened source end soon, with an
/// error of kind `Cancelled`. All their waits must therefore observe the flag.
pub type FlatMapCall = Arc<dyn Fn(Value, &Cancel) -> Result<Box<dyn Source>, BoxError> + Send + Sync>;
/// The call of a flat_map function that uses its call site. When the site's flag is raised, the call and the
/// opened source end soon, with an error of kind `Cancelled`.
pub type SitedFlatMapCall = Arc<dyn Fn(Value, &Site<'_>) -> Result<Box<dyn Source>, BoxError> + Send + Sync>;

/// A map function prepared for its parameters and input.
#[derive(Clone)]
pub struct PreparedMap {
    /// The spec of the function's output.
    pub output: ElementSpec,
    /// The call of the function.
    pub call: MapCall,
}

/// A map function that uses its call site, prepared for its parameters and input.
#[derive(Clone)]
pub struct PreparedSitedMap {
    /// The spec of the function's output.
    pub output: ElementSpec,
    /// The call of the function.
    pub call: SitedMapCall,
}

/// A flat_map function prepared for its parameters and input.
#[derive(Clone)]
pub struct PreparedFlatMap {
    /// The spec of the elements of the datasets that the function opens.
    pub output: ElementSpec,
    /// The call of the function.
    pub call: FlatMapCall,
}

/// A flat_map function that uses its call site, prepared for its parameters and input.
#[derive(Clone)]
pub struct PreparedSitedFlatMap {
    /// The spec of the elements of the datasets that the function opens.
    pub output: ElementSpec,
    /// The call of the function.
    pub call: SitedFlatMapCall,
}

/// A closure that prepares a map function for parameters and an input. The closure returns the output and the
/// call, or the reason for a refusal.
pub type PrepareMap = dyn Fn(&Params, &ElementSpec) -> Result<PreparedMap, String> + Send + Sync;
/// A closure that prepares a map function that uses its call site.
pub type PrepareSitedMap = dyn Fn(&Params, &ElementSpec) -> Result<PreparedSitedMap, String> + Send + Sync;
/// A closure that prepares a predicate for parameters and an input.
pub type PrepareFilter = dyn Fn(&Params, &ElementSpec) -> Result<FilterCall, String> + Send + Sync;
/// A closure that prepares a flat_map function for parameters and an input.
pub type PrepareFlatMap = dyn Fn(&Params, &ElementSpec) -> Result<PreparedFlatMap, String> + Send + Sync;
/// A closure that prepares a flat_map function that uses its call site.
pub type PrepareSitedFlatMap =
    dyn Fn(&Params, &ElementSpec) -> Result<PreparedSitedFlatMap, String> + Send + Sync;
/// A closure that opens one pass over a service. The passes of an execution are opened one after the other;
/// the first pass has the number of the epoch.
pub type OpenPass = Box<dyn FnMut(u64) -> Result<Box<dyn Source>, ExecError> + Send>;
/// A closure that connects to a service, once for each execution that reads the service. When the flag is
/// raised, the connection and its passes end soon, with an error of kind `Cancelled`.
pub type OpenService = dyn Fn(&Params, &Cancel) -> Result<OpenPass, ExecError> + Send + Sync;

/// A source that can be registered.
pub trait SourceFactory: Send + Sync {
    /// Returns the signature of the source for these parameters.
    ///
    /// # Errors
    /// The reason why the source refuses the parameters.
    fn signature(&self, params: &Params) -> Result<SourceSignature, String>;

    /// Opens the source at `positions`. A source that is read whole gets `0..count`, or `0..u64::MAX` if the
    /// count is unknown or infinite. An indexable source gets the range of a split.
    ///
    /// # Errors
    /// [`ExecError`] if the source cannot be opened.
    fn open(&self, params: &Params, positions: Range<u64>) -> Result<Box<dyn Source>, ExecError>;

    /// Opens the source as [`SourceFactory::open`] does, for a source that depends on its site. The opened
    /// source ends soon, with an error of kind `Cancelled`, when the flag is raised.
    ///
    /// # Errors
    /// [`ExecError`] if the source cannot be opened.
    fn open_at(
        &self,
        params: &Params,
        positions: Range<u64>,
        site: &Site<'_>,
    ) -> Result<Box<dyn Source>, ExecError> {
        let _ = site;
        self.open(params, positions)
    }
}

/// The registered functions and sources of a process, by name.
#[derive(Clone, Default)]
pub struct Functions {
    maps: BTreeMap<String, Arc<PrepareSitedMap>>,
    filters: BTreeMap<String, Arc<PrepareFilter>>,
    flat_maps: BTreeMap<String, Arc<PrepareSitedFlatMap>>,
    sources: BTreeMap<String, Arc<dyn SourceFactory>>,
    service: Option<Arc<OpenService>>,
}

impl Functions {
    /// Returns a registry without functions.
    pub fn new() -> Functions {
        Functions::default()
    }

    /// Registers a map function, and replaces an earlier function of the same name.
    #[must_use]
    pub fn with_map(
        self,
        name: impl Into<String>,
        prepare: impl Fn(&Params, &ElementSpec) -> Result<PreparedMap, String> + Send + Sync + 'static,
    ) -> Functions {
        self.with_sited_map(name, move |params, input| {
            let PreparedMap { output, call } = prepare(params, input)?;
            let call: SitedMapCall = Arc::new(move |value, _| call(value));
            Ok(PreparedSitedMap { output, call })
        })
    }

    /// Registers a map function that uses its call site. The function replaces an earlier function of the
    /// same name.
    #[must_use]
    pub fn with_sited_map(
        mut self,
        name: impl Into<String>,
        prepare: impl Fn(&Params, &ElementSpec) -> Result<PreparedSitedMap, String> + Send + Sync + 'static,
    ) -> Functions {
        self.maps.insert(name.into(), Arc::new(prepare));
        self
    }

    /// Registers a predicate, and replaces an earlier predicate of the same name.
    #[must_use]
    pub fn with_filter(
        mut self,
        name: impl Into<String>,
        prepare: impl Fn(&Params, &ElementSpec) -> Result<FilterCall, String> + Send + Sync + 'static,
    ) -> Functions {
        self.filters.insert(name.into(), Arc::new(prepare));
        self
    }

    /// Registers a flat_map function, and replaces an earlier function of the same name.
    #[must_use]
    pub fn with_flat_map(
        self,
        name: impl Into<String>,
        prepare: impl Fn(&Params, &ElementSpec) -> Result<PreparedFlatMap, String> + Send + Sync + 'static,
    ) -> Functions {
        self.with_sited_flat_map(name, move |params, input| {
            let PreparedFlatMap { output, call } = prepare(params, input)?;
            let call: SitedFlatMapCall = Arc::new(move |value, site| call(value, site.cancel));
            Ok(PreparedSitedFlatMap { output, call })
        })
    }

    /// Registers a flat_map function that uses its call site, and replaces an earlier function of the same
    /// name.
    #[must_use]
    pub fn with_sited_flat_map(
        mut self,
        name: impl Into<String>,
        prepare: impl Fn(&Params, &ElementSpec) -> Result<PreparedSitedFlatMap, String> + Send + Sync + 'static,
    ) -> Functions {
        self.flat_maps.insert(name.into(), Arc::new(prepare));
        self
    }

    /// Registers a source, and replaces an earlier source of the same name.
    #[must_use]
    pub fn with_source(
        mut self,
        name: impl Into<String>,
        factory: impl SourceFactory + 'static,
    ) -> Functions {
        self.sources.insert(name.into(), Arc::new(factory));
        self
    }

    /// Provides the service reader.
    #[must_use]
    pub fn with_service(
        mut self,
        open: impl Fn(&Params, &Cancel) -> Result<OpenPass, ExecError> + Send + Sync + 'static,
    ) -> Functions {
        self.service = Some(Arc::new(open));
        self
    }

    pub(crate) fn prepare_map(
        &self,
        name: &str,
        params: &Params,
        input: &ElementSpec,
    ) -> Result<PreparedSitedMap, AnalysisError> {
        let prepare = find("function", &self.maps, name)?;
        prepare(params, input).map_err(|reason| refused(name, reason))
    }

    pub(crate) fn prepare_filter(
        &self,
        name: &str,
        params: &Params,
        input: &ElementSpec,
    ) -> Result<FilterCall, AnalysisError> {
        let prepare = find("predicate", &self.filters, name)?;
        prepare(params, input).map_err(|reason| refused(name, reason))
    }

    pub(crate) fn prepare_flat_map(
        &self,
        name: &str,
        params: &Params,
        input: &ElementSpec,
    ) -> Result<PreparedSitedFlatMap, AnalysisError> {
        let prepare = find("flat_map function", &self.flat_maps, name)?;
        prepare(params, input).map_err(|reason| refused(name, reason))
    }

    pub(crate) fn source_factory(&self, name: &str) -> Result<Arc<dyn SourceFactory>, AnalysisError> {
        find("source", &self.sources, name).map(Arc::clone)
    }

    pub(crate) fn service(&self) -> Option<Arc<OpenService>> {
        self.service.clone()
    }
}

impl Registry for Functions {
    fn map(&self, name: &str, params: &Params, input: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
        Ok(self.prepare_map(name, params, input)?.output)
    }

    fn filter(&self, name: &str, params: &Params, input: &ElementSpec) -> Result<(), AnalysisError> {
        self.prepare_filter(name, params, input).map(|_| ())
    }

    fn flat_map(
        &self,
        name: &str,
        params: &Params,
        input: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError> {
        Ok(self.prepare_flat_map(name, params, input)?.output)
    }

    fn source(&self, name: &str, params: &Params) -> Result<SourceSignature, AnalysisError> {
        self.source_factory(name)?
            .signature(params)
            .map_err(|reason| refused(name, reason))
    }

    fn files(&self, format: &dyn FileFormat) -> Result<ElementSpec, AnalysisError> {
        let known: &dyn Any = format;
        match known.downcast_ref::<Format>() {
            Some(known) => super::format::described(known, &Storage::default()),
            None => Err(refused(
                format.op_name(),
                "this process has no reader for the file format".to_owned(),
            )),
        }
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions")
            .field("maps", &self.maps.keys())
            .field("filters", &self.filters.keys())
            .field("flat_maps", &self.flat_maps.keys())
            .field("sources", &self.sources.keys())
            .field("service", &self.service.is_some())
            .finish()
    }
}

impl fmt::Debug for PreparedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedMap")
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PreparedSitedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedSitedMap")
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PreparedFlatMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedFlatMap")
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PreparedSitedFlatMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedSitedFlatMap")
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

fn find<'f, T: ?Sized>(
    kind: &'static str,
    among: &'f BTreeMap<String, Arc<T>>,
    name: &str,
) -> Result<&'f Arc<T>, AnalysisError> {
    let unknown = || AnalysisError::Unknown {
        kind,
        name: name.to_owned(),
        known: among.keys().cloned().collect(),
    };
    among.get(name).ok_or_else(unknown)
}

fn refused(name: &str, reason: String) -> AnalysisError {
    AnalysisError::Mismatch {
        op: name.to_owned(),
        reason,
    }
}
