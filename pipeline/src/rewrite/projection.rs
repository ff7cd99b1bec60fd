//! Skips the columns of Parquet files that the map directly above the reader does not use.
//!
//! Elements keep these components, but without items, because no operation reads them. If nulls are errors, a
//! column that may contain nulls is read nevertheless.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::edit::Edit;
use crate::graph::expr::ExprOp;
use crate::graph::format::{Format, Table};
use crate::graph::function::Function;
use crate::graph::native::{Compute, Native, Outputs};
use crate::graph::tree::Op;
use crate::ops::map::Map;
use crate::ops::read::Read;

pub(crate) fn rule(op: &Op, below: &Op) -> Option<Edit> {
    let (
        Some(Map {
            function: Function::Native(native),
            ..
        }),
        Some(Read(Format::Parquet(table))),
    ) = (op.of(), below.of())
    else {
        return None;
    };
    if table.looked_at.is_some() {
        return None;
    }
    let looked_at = looked_at(native)?;
    let narrowed = Table {
        looked_at: Some(looked_at),
        ..table.clone()
    };
    Some(Edit::Below(Op::new(Read(Format::Parquet(narrowed)))))
}

/// Returns the components that `native` reads; `None` if it may read any component.
fn looked_at(native: &Native) -> Option<Vec<String>> {
    let names: Vec<String> = if let Native::Select(select) = native {
        let selected = select.components.iter();
        selected.map(|selected| selected.from.clone()).collect()
    } else if let Native::Compute(Compute {
        outputs: Outputs::Dict | Outputs::Tuple | Outputs::Single | Outputs::Nested,
        exprs,
        ..
    }) = native
    {
        let nodes = exprs.iter().flat_map(|named| named.expr.nodes());
        let columns = nodes.filter_map(|node| {
            let ExprOp::Column(name) = &node.op else {
                return None;
            };
            Some(name.clone())
        });
        columns.collect()
    } else {
        return None;
    };
    let is_one = |name: &String| !name.is_empty();
    (!names.is_empty() && names.iter().all(is_one)).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Columns, Dataset, Rewrites, col};

    /// Returns the components among `a`, `b` and `c` that are still read.
    fn left(then: impl Fn(Dataset) -> Dataset) -> Vec<&'static str> {
        let table = Table::rows(Columns::named(["a", "b", "c"]).like("none"));
        let graph = then(Dataset::files("none").parquet(table)).graph().unwrap();
        let graph = graph.rewritten(Rewrites::default());
        let Some(Read(Format::Parquet(table))) = graph.nodes()[1].op.of() else {
            panic!("the operation is not a reader of tables");
        };
        let names = ["a", "b", "c"].into_iter();
        names.filter(|name| table.is_looked_at(name)).collect()
    }

    #[test]
    fn only_what_is_looked_at_is_read() {
        assert_eq!(left(|rows| rows.select([("c", "d")])), ["c"]);
        let sum = || [("sum", col("a") + col("b.field"))];
        assert_eq!(left(|rows| rows.map_exprs(sum())), ["a", "b"]);
        assert_eq!(left(|rows| rows.with_component("d", col("a"))), ["a", "b", "c"]);
        assert_eq!(left(|rows| rows.take(3)), ["a", "b", "c"]);
        assert_eq!(left(|rows| rows.take(3).select([("c", "c")])), ["a", "b", "c"]);
    }
}
