//! An expression as data: a list of operations in the order of their evaluation. An operation that is used
//! several times is listed once.

use minicbor::{Decode, Encode};

use super::op::ExprOp;
use crate::graph::limits::NAME_BYTES_MAX;

/// The maximum number of operations in one expression. Shared operations count once.
pub const EXPR_NODES_MAX: usize = 4096;

/// A computation over the components of one element that yields one tensor.
///
/// Expressions are written like formulas: `col("x") * 2.0 + col("y").mean([], false)`. Shapes broadcast by
/// NumPy's rules. Dtypes are never converted implicitly: the analysis of the dataset refuses operands of
/// different dtypes. [`Expr::cast`] converts a dtype. Plain numbers take the dtype of the other operands.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Expr {
    /// The operations; the last operation computes the result.
    #[n(0)]
    nodes: Vec<ExprNode>,
}

/// One operation of an expression.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct ExprNode {
    /// The operation.
    #[n(0)]
    pub op: ExprOp,
    /// The operands, as indices of earlier operations.
    #[n(1)]
    pub args: Vec<u32>,
}

impl Expr {
    /// Returns the operations in the order of their evaluation.
    pub fn nodes(&self) -> &[ExprNode] {
        &self.nodes
    }

    /// Applies `op` to `operands`. Operations that the operands share are computed once.
    pub(crate) fn of(op: ExprOp, operands: impl IntoIterator<Item = Expr>) -> Expr {
        let mut nodes: Vec<ExprNode> = Vec::new();
        let mut args = Vec::new();
        for operand in operands {
            if nodes.is_empty() {
                nodes = operand.nodes;
                args.push(nodes.len().saturating_sub(1) as u32);
                continue;
            }
            let mut places: Vec<u32> = Vec::with_capacity(operand.nodes.len());
            for node in operand.nodes {
                let args = node.args.iter();
                let args = args.map(|arg| places.get(*arg as usize).copied().unwrap_or(u32::MAX));
                let node = ExprNode {
                    args: args.collect(),
                    op: node.op,
                };
                places.push(place_of(&mut nodes, node));
            }
            args.push(places.last().copied().unwrap_or(u32::MAX));
        }
        nodes.push(ExprNode { op, args });
        Expr { nodes }
    }

    /// Returns this expression with other names of components: `rename` maps each name.
    #[must_use]
    pub fn renamed(&self, rename: impl Fn(&str) -> String) -> Expr {
        let mut renamed = self.clone();
        for node in &mut renamed.nodes {
            if let ExprOp::Column(name) = &mut node.op {
                *name = rename(name);
            }
        }
        renamed
    }

    /// Returns the number, if the expression consists of a single number.
    pub(crate) fn literal_mut(&mut self) -> Option<&mut super::literal::Literal> {
        match self.nodes.as_mut_slice() {
            [
                ExprNode {
                    op: ExprOp::Literal(literal),
                    ..
                },
            ] => Some(literal),
            _ => None,
        }
    }

    /// Checks the expression, without knowledge of the input.
    ///
    /// # Errors
    /// The broken rule, as text.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.nodes.is_empty() {
            return Err("has an empty expression".to_owned());
        }
        if self.nodes.len() > EXPR_NODES_MAX {
            return Err(format!(
                "has an expression of {} operations, the limit is {EXPR_NODES_MAX}",
                self.nodes.len()
            ));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some(arg) = node.args.iter().find(|arg| **arg as usize >= index) {
                return Err(format!(
                    "has an expression whose operation {index} reads operation {arg}, which is not before it"
                ));
            }
            let (least, most) = node.op.arity();
            if node.args.len() < least || node.args.len() > most {
                return Err(format!(
                    "has `{}` with {} operands in an expression",
                    node.op.name(),
                    node.args.len()
                ));
            }
            if let ExprOp::Column(name) = &node.op
                && name.len() > NAME_BYTES_MAX
            {
                return Err(format!(
                    "has a component name of {} bytes, the limit is {NAME_BYTES_MAX}",
                    name.len()
                ));
            }
            node.op
                .check()
                .map_err(|reason| format!("has `{}` in an expression, which {reason}", node.op.name()))?;
        }
        Ok(())
    }
}

/// Returns the index of `node` in `nodes`, and appends the node if it is missing.
fn place_of(nodes: &mut Vec<ExprNode>, node: ExprNode) -> u32 {
    let place = nodes.iter().position(|known| *known == node).unwrap_or_else(|| {
        nodes.push(node);
        nodes.len() - 1
    });
    place as u32
}

#[cfg(test)]
mod tests {
    use super::super::fluent::col;
    use super::*;

    #[test]
    fn shared_nodes_are_stored_once() {
        let mut expr = col("x");
        for _ in 0..60 {
            expr = expr.clone() + expr;
        }
        assert_eq!(expr.nodes().len(), 61);
        assert_eq!(expr.check(), Ok(()));
    }

    #[test]
    fn forward_references_are_refused() {
        let itself = Expr {
            nodes: vec![ExprNode {
                op: ExprOp::Where,
                args: vec![0, 0, 0],
            }],
        };
        assert!(itself.check().unwrap_err().contains("not before it"));
        assert!(Expr { nodes: vec![] }.check().unwrap_err().contains("empty"));
        let bare = Expr {
            nodes: vec![ExprNode {
                op: ExprOp::Where,
                args: vec![],
            }],
        };
        assert!(bare.check().unwrap_err().contains("0 operands"));
    }
}
