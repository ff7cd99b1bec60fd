//! Moves casts past operations that only choose elements or crop pictures. Fewer items are then converted,
//! and buffers do not grow.
//!
//! A cast never fails, draws no random numbers and leaves every other component alone, so the order of the
//! two operations does not matter. A cast stays below a `prefetch`, which moves its work to another thread. A
//! cast also stays below a `batch`, which writes the rows of its input.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::edit::Edit;
use crate::graph::expr::{Expr, ExprOp};
use crate::graph::function::Function;
use crate::graph::image::ImageFunction;
use crate::graph::native::{Compute, Native, Outputs};
use crate::graph::predicate::Predicate;
use crate::graph::schedule::Schedule;
use crate::graph::tree::Op;
use crate::ops::filter::Filter;
use crate::ops::map::Map;
use crate::ops::shard::Shard;
use crate::ops::shuffle::Shuffle;
use crate::ops::skip::Skip;
use crate::ops::take::Take;
use crate::ops::take_while::TakeWhile;

/// The largest size of an item that can be cast, except for complex numbers. A complex number is never wider
/// than the type to which it is cast.
const WIDEST_BYTES: usize = 8;

pub(crate) fn rule(op: &Op, below: &Op) -> Option<Edit> {
    let Some(Map {
        function: Function::Native(Native::Compute(compute)),
        schedule,
    }) = below.of()
    else {
        return None;
    };
    if !are_casts(compute) || !keeps_order(*schedule) {
        return None;
    }
    let casts = &compute.exprs;
    let is_behind = if op.is::<Take>() || op.is::<Skip>() || op.is::<Shard>() {
        true
    } else if op.is::<Shuffle>() {
        casts.iter().all(|named| is_widest(&named.expr))
    } else if let Some(Predicate::Expr(asked)) = predicate(op) {
        casts.iter().all(|named| !looks_at(asked, &named.name))
    } else if let Some(Map {
        function: Function::Image(cut),
        schedule: own,
    }) = op.of()
    {
        own == schedule && is_cut(cut)
    } else {
        false
    };
    is_behind.then_some(Edit::Swap)
}

/// Returns the predicate of an operation that chooses elements; `None` for other operations.
fn predicate(op: &Op) -> Option<&Predicate> {
    let filter = op.of::<Filter>().map(|filter| &filter.0);
    filter.or_else(|| op.of::<TakeWhile>().map(|take| &take.0))
}

/// Returns whether all expressions are casts that replace their own component.
fn are_casts(compute: &Compute) -> bool {
    let is_cast = |name: &str, expr: &Expr| match expr.nodes() {
        [column, cast] => {
            matches!(&column.op, ExprOp::Column(of) if of == name) && matches!(cast.op, ExprOp::Cast(_))
        }
        _ => false,
    };
    compute.outputs == Outputs::Components
        && compute
            .exprs
            .iter()
            .all(|named| is_cast(&named.name, &named.expr))
}

/// Returns whether elements keep their order under every option of the dataset.
fn keeps_order(schedule: Schedule) -> bool {
    schedule.is_ordered(false)
}

/// Returns whether no dtype has larger items than the dtype to which `cast` casts.
fn is_widest(cast: &Expr) -> bool {
    let mut casts = cast.nodes().iter();
    casts.any(|node| {
        let ExprOp::Cast(cast) = &node.op else {
            return false;
        };
        cast.dtype.0.item_bytes() >= Some(WIDEST_BYTES)
    })
}

/// Returns whether the expression `asked` reads the component `name`, a component inside it, or a component
/// that contains it.
fn looks_at(asked: &Expr, name: &str) -> bool {
    let is_within = |inner: &str, outer: &str| {
        outer.is_empty()
            || inner == outer
            || inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.starts_with('.'))
    };
    asked.nodes().iter().any(|node| {
        let ExprOp::Column(column) = &node.op else {
            return false;
        };
        is_within(column, name) || is_within(name, column)
    })
}

/// Returns whether the function crops pictures of any dtype without changing pixels.
fn is_cut(function: &ImageFunction) -> bool {
    matches!(
        function,
        ImageFunction::Crop(_)
            | ImageFunction::CentralCrop(_)
            | ImageFunction::CenterCrop(_)
            | ImageFunction::RandomCrop(_)
    )
}

#[cfg(test)]
mod tests {
    use millstream_element::Dtype;

    use crate::graph::{Dataset, Rewrites, col};

    /// Returns the names of the operations after the source, in the order of execution.
    fn order(then: impl FnOnce(Dataset) -> Dataset) -> Vec<String> {
        let rows = Dataset::range(0, 9, 1).map_exprs([("a", col("")), ("b", col("") + 1)]);
        let graph = then(rows).graph().unwrap().rewritten(Rewrites::default());
        let names = graph.nodes().iter().skip(2);
        names.map(|node| node.op.name().to_owned()).collect()
    }

    #[test]
    fn a_cast_moves_after_choosing_operations_only() {
        let cast = |dataset: Dataset| dataset.cast("a", Dtype::F64);
        let chosen = order(|rows| cast(rows).take(5).skip(1).shard(2, 0).shuffle(3, Some(1)));
        assert_eq!(chosen, ["take", "skip", "shard", "shuffle", "compute"]);
        let two = order(|rows| cast(cast(rows)).take(5));
        assert_eq!(two, ["take", "compute", "compute"]);
        let other = order(|rows| cast(rows).filter_expr(col("b").gt(3)));
        assert_eq!(other, ["filter_expr", "compute"]);
        let own = order(|rows| cast(rows).filter_expr(col("a").gt(3.0)));
        assert_eq!(own, ["compute", "filter_expr"]);
        let ahead = order(|rows| cast(rows).prefetch(2).batch(2, false).take(1));
        assert_eq!(ahead, ["compute", "prefetch", "batch", "take"]);
        let narrow = order(|rows| rows.cast("a", Dtype::F32).shuffle(3, Some(1)));
        assert_eq!(narrow, ["compute", "shuffle"]);
        let more = order(|rows| rows.with_component("a", col("a").cast(Dtype::F64) * 2.0).take(1));
        assert_eq!(more, ["compute", "take"]);
        let unordered = order(|rows| cast(rows).parallel(4).unordered().take(1));
        assert_eq!(unordered, ["compute", "take"]);
    }
}
