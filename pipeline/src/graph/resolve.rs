//! Writes the signatures of registered functions into a graph, so that a process without those functions, such as a
//! dispatcher, can analyse it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use super::definition::{Graph, Node};
use super::error::AnalysisError;
use super::facts::Cardinality;
use super::function::Function;
use super::group::WindowSize;
use super::op::{FlatMap, Op, SourceDeclaration};
use super::params::SpecField;
use super::registry::Registry;
use super::spec::{node_specs, source_signature};

impl Graph {
    /// The graph with everything declared that `registry` knows of its functions and sources.
    ///
    /// # Errors
    /// As [`Graph::facts`].
    pub fn resolved(&self, registry: &dyn Registry) -> Result<Graph, AnalysisError> {
        self.resolved_within(registry, None)
    }

    /// The graph with the columns declared of all files that say themselves what they hold. Blocks on storage where `registry` looks
    /// at files, and does nothing where none are to be looked at.
    ///
    /// # Errors
    /// As [`Graph::facts`].
    pub fn described(&self, registry: &dyn Registry) -> Result<Graph, AnalysisError> {
        if self.lacks_columns() {
            self.resolved(registry)
        } else {
            Ok(self.clone())
        }
    }

    /// Whether it, or a function of it, reads files of which nothing declares what they hold.
    fn lacks_columns(&self) -> bool {
        self.nodes().iter().any(|node| {
            let columns = if let Op::Read(format) = &node.op {
                format.columns()
            } else {
                None
            };
            let is_undeclared = columns.is_some_and(|columns| columns.declared.is_none());
            is_undeclared || node.op.graphs().iter().any(|(graph, _)| graph.lacks_columns())
        })
    }

    fn resolved_within(
        &self,
        registry: &dyn Registry,
        argument: Option<&ElementSpec>,
    ) -> Result<Graph, AnalysisError> {
        let specs = node_specs(self, registry, argument)?;
        let mut nodes = Vec::with_capacity(specs.len());
        for (node, output) in self.nodes().iter().zip(&specs) {
            let input = node.inputs.first().map(|input| &specs[*input as usize]);
            let op = resolved_op(&node.op, registry, input, output)?;
            nodes.push(Node {
                op,
                inputs: node.inputs.clone(),
            });
        }
        Ok(self.with_ops(nodes))
    }
}

fn resolved_op(
    op: &Op,
    registry: &dyn Registry,
    input: Option<&ElementSpec>,
    output: &ElementSpec,
) -> Result<Op, AnalysisError> {
    let mut op = op.clone();
    if let Op::Map(Function::Registered(registered), _) = &mut op {
        registered.output = Some(SpecField(output.clone()));
    } else if let Op::FlatMap(FlatMap::Registered(registered))
    | Op::Interleave(FlatMap::Registered(registered), _) = &mut op
    {
        registered.output = Some(SpecField(output.clone()));
    } else if let Op::FlatMap(FlatMap::Graph(body)) | Op::Interleave(FlatMap::Graph(body), _) = &mut op {
        **body = body.resolved_within(registry, input)?;
    } else if let Op::Window(graph, _) | Op::Bucket(graph, _) = &mut op {
        **graph = graph.resolved_within(registry, input)?;
    } else if let Op::Kept(kept) = &mut op {
        kept.resolve(input, |function, argument| {
            function.resolved_within(registry, argument)
        })?;
    } else if let Op::Fold(fold) = &mut op {
        let argument = input.map(|input| fold.argument(registry, input)).transpose()?;
        let function = fold.function().resolved_within(registry, argument.as_ref())?;
        *fold.function_mut() = function;
    } else if let Op::GroupByWindow(grouping) = &mut op {
        grouping.key = grouping.key.resolved_within(registry, input)?;
        grouping.reduce = grouping.reduce.resolved_within(registry, input)?;
        if let WindowSize::ByKey(size) = &mut grouping.size {
            let key = node_specs(&grouping.key, registry, input)?.pop();
            *size = size.resolved_within(registry, key.as_ref())?;
        }
    } else if let Op::Choose(choices, _) = &mut op {
        **choices = choices.resolved_within(registry, None)?;
    } else if let Op::Read(format) = &mut op {
        if let Some(columns) = format.columns_mut() {
            columns.declared = Some(SpecField(output.clone()));
        }
    } else if let Op::Source(source) = &mut op {
        let signature = source_signature(source, registry)?;
        let (count, infinite) = match signature.cardinality {
            Cardinality::Finite(count) => (Some(count), false),
            Cardinality::Infinite => (None, true),
            Cardinality::Unknown => (None, false),
        };
        let spec = SpecField(signature.spec);
        source.declared = Some(SourceDeclaration {
            spec,
            count,
            infinite,
            indexable: signature.indexable,
        });
    }
    Ok(op)
}
