//! Methods that build expressions which change shapes.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use millstream_element::Dtype;

use super::dtype_field::DtypeField;
use super::expression::Expr;
use super::op::{DecodeRaw, ExprOp, OneHot, PadTo, Shaping, Span};

impl Expr {
    /// Returns the leading dimension as an `i64`.
    #[must_use]
    pub fn len(self) -> Expr {
        self.shaped(Shaping::Len)
    }

    /// Returns all dimensions as `i64[rank]`.
    #[must_use]
    pub fn shape(self) -> Expr {
        self.shaped(Shaping::Shape)
    }

    /// Slices the leading axes, one span for each axis.
    ///
    /// A span is a range, perhaps with a step ([`Span::by`]), or a single index, which removes its axis.
    /// Negative indices count from the end. Ranges are limited to the length of the axis. A single index
    /// outside of the axis is an error of the element.
    #[must_use]
    pub fn slice<S: Into<Span>>(self, spans: impl IntoIterator<Item = S>) -> Expr {
        let spans = spans.into_iter().map(Into::into).collect();
        self.shaped(Shaping::Slice(spans))
    }

    /// Returns the slice at index `place` of the leading axis. A negative index counts from the end.
    #[must_use]
    pub fn at(self, place: i64) -> Expr {
        self.slice([Span::At(place)])
    }

    /// Gathers the slices along `axis` at `indices`, which are integers of any shape. The dimensions of
    /// `indices` replace the axis. Negative indices count from the end. An index outside of the axis is an
    /// error of the element.
    #[must_use]
    pub fn gather(self, indices: impl Into<Expr>, axis: i64) -> Expr {
        Expr::of(ExprOp::Shaping(Shaping::Gather(axis)), [self, indices.into()])
    }

    /// Arranges the items in other dimensions. One dimension may be -1, and is then computed from the number
    /// of items.
    #[must_use]
    pub fn reshape(self, dims: impl IntoIterator<Item = i64>) -> Expr {
        let dims = dims.into_iter().collect();
        self.shaped(Shaping::Reshape(dims))
    }

    /// Inserts a new axis of one item at `axis`.
    #[must_use]
    pub fn expand_dims(self, axis: i64) -> Expr {
        self.shaped(Shaping::ExpandDims(axis))
    }

    /// Removes `axes`, which must have one item each. An empty list removes all axes of one item.
    #[must_use]
    pub fn squeeze(self, axes: impl IntoIterator<Item = i64>) -> Expr {
        let axes = axes.into_iter().collect();
        self.shaped(Shaping::Squeeze(axes))
    }

    /// Reorders the axes. An empty list reverses the order.
    #[must_use]
    pub fn transpose(self, axes: impl IntoIterator<Item = u64>) -> Expr {
        let axes = axes.into_iter().collect();
        self.shaped(Shaping::Transpose(axes))
    }

    /// Broadcasts to these dimensions, as NumPy's `broadcast_to`.
    #[must_use]
    pub fn broadcast_to(self, dims: impl IntoIterator<Item = u64>) -> Expr {
        let dims = dims.into_iter().collect();
        self.shaped(Shaping::BroadcastTo(dims))
    }

    /// Pads each axis with the given numbers of items of `value` at its start and end, as `tf.pad` with a
    /// constant.
    #[must_use]
    pub fn pad(self, pads: impl IntoIterator<Item = (u64, u64)>, value: impl Into<Expr>) -> Expr {
        let pads = pads.into_iter().collect();
        Expr::of(ExprOp::Shaping(Shaping::Pad(pads)), [self, value.into()])
    }

    /// Pads `axis` at its end with `value` to exactly `length` items. A longer axis is truncated if
    /// `truncate` is set; otherwise it is an error of the element.
    #[must_use]
    pub fn pad_to(self, axis: i64, length: u64, value: impl Into<Expr>, truncate: bool) -> Expr {
        let pad = PadTo {
            axis,
            length,
            truncate,
        };
        Expr::of(ExprOp::Shaping(Shaping::PadTo(pad)), [self, value.into()])
    }

    /// Turns integers into vectors of `depth` items along a new last axis, with 1 at the integer's index and
    /// 0 elsewhere. An integer outside of `0..depth` becomes a vector of zeros, as in `tf.one_hot`.
    #[must_use]
    pub fn one_hot(self, depth: u64, dtype: Dtype) -> Expr {
        let dtype = DtypeField(dtype);
        self.shaped(Shaping::OneHot(OneHot { depth, dtype }))
    }

    /// Reads the bytes of strings as numbers along a new last axis, as `tf.io.decode_raw`. All strings of a
    /// tensor must have the same length, which is a multiple of the item size.
    #[must_use]
    pub fn decode_raw(self, dtype: Dtype, big_endian: bool) -> Expr {
        let dtype = DtypeField(dtype);
        self.shaped(Shaping::DecodeRaw(DecodeRaw { dtype, big_endian }))
    }

    fn shaped(self, shaping: Shaping) -> Expr {
        Expr::of(ExprOp::Shaping(shaping), [self])
    }
}

impl Span {
    /// A span of all items along an axis.
    pub const ALL: Span = Span::Range {
        start: None,
        stop: None,
        step: 1,
    };

    /// Returns the span from index `start` to index `stop`, which is excluded.
    pub fn between(start: i64, stop: i64) -> Span {
        (start..stop).into()
    }

    /// Sets the step between indices. A negative step goes backwards, and starts at the last item by default.
    #[must_use]
    pub fn by(self, step: i64) -> Span {
        match self {
            Span::Range { start, stop, .. } => Span::Range { start, stop, step },
            Span::At(_) => self,
        }
    }
}

impl From<i64> for Span {
    fn from(place: i64) -> Span {
        Span::At(place)
    }
}

impl From<Range<i64>> for Span {
    fn from(range: Range<i64>) -> Span {
        Span::Range {
            start: Some(range.start),
            stop: Some(range.end),
            step: 1,
        }
    }
}

impl From<RangeFrom<i64>> for Span {
    fn from(range: RangeFrom<i64>) -> Span {
        Span::Range {
            start: Some(range.start),
            stop: None,
            step: 1,
        }
    }
}

impl From<RangeTo<i64>> for Span {
    fn from(range: RangeTo<i64>) -> Span {
        Span::Range {
            start: None,
            stop: Some(range.end),
            step: 1,
        }
    }
}

impl From<RangeFull> for Span {
    fn from(_: RangeFull) -> Span {
        Span::ALL
    }
}
