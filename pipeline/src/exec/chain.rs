//! The calls of neighbouring maps as one step. If a crop follows the decoding of a picture, one call decodes
//! only the cropped part.

#[cfg(feature = "images")]
use crate::graph::Function;
#[cfg(feature = "images")]
use crate::ops::map::Map;

use super::call::{Call, Chain};
use super::context::Shared;
use super::error::ExecError;
use super::program::Program;
#[cfg(feature = "images")]
use super::program::unprepared;

impl Program {
    /// Returns the calls of the maps at `nodes`, in order. Each node is the input of its successor.
    pub(crate) fn calls(&self, nodes: &[usize], shared: &Shared) -> Result<Chain, ExecError> {
        let mut calls = Vec::with_capacity(nodes.len());
        let mut rest = nodes;
        while let [node, behind @ ..] = rest {
            rest = behind;
            if let [next, behind @ ..] = behind
                && let Some(call) = self.fused(*node, *next, shared)?
            {
                calls.push(call);
                rest = behind;
            } else {
                calls.push(self.call(*node, shared)?);
            }
        }
        Ok(calls.into())
    }

    #[cfg(feature = "images")]
    fn function(&self, node: usize) -> Result<&Function, ExecError> {
        let op = &self.graph.nodes()[node].op;
        let map = op.of::<Map>().ok_or_else(|| unprepared(op.name()))?;
        Ok(&map.function)
    }

    /// Returns the maps at `node` and `next` as one call, if one call does less work and yields the same
    /// elements.
    #[cfg(feature = "images")]
    fn fused(&self, node: usize, next: usize, shared: &Shared) -> Result<Option<Box<dyn Call>>, ExecError> {
        let (Function::Image(first), Function::Image(second)) = (self.function(node)?, self.function(next)?)
        else {
            return Ok(None);
        };
        let component = self.image_component(node, first)?;
        if component != self.image_component(next, second)? {
            return Ok(None);
        }
        Ok(super::image::fused(
            first,
            (self.drawn(next), second),
            component,
            shared,
        ))
    }

    #[cfg(not(feature = "images"))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "without the feature `images` no calls are fused"
    )]
    fn fused(&self, _: usize, _: usize, _: &Shared) -> Result<Option<Box<dyn Call>>, ExecError> {
        Ok(None)
    }

    /// Returns the component that holds the image of `function` at `node`.
    #[cfg(feature = "images")]
    fn image_component(
        &self,
        node: usize,
        function: &crate::graph::ImageFunction,
    ) -> Result<usize, ExecError> {
        let input = self.graph.nodes()[node].inputs.first();
        let input = input.map(|input| &self.specs[*input as usize]);
        let input = input.ok_or_else(|| unprepared(function.op_name()))?;
        crate::graph::component(function.op_name(), input, function.component()).map_err(|error| {
            ExecError::new(
                super::error::ErrorKind::Caller,
                function.op_name(),
                error.to_string(),
            )
        })
    }
}
