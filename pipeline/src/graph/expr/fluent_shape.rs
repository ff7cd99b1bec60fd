//! The fluent way to write what changes shapes.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use millstream_element::Dtype;

use super::dtype_field::DtypeField;
use super::expression::Expr;
use super::op::{DecodeRaw, ExprOp, OneHot, PadTo, Shaping, Span};

impl Expr {
    /// The leading dimension, an `i64`.
    #[must_use]
    pub fn len(self) -> Expr {
        self.shaped(Shaping::Len)
    }

    /// All dimensions, as `i64[rank]`.
    #[must_use]
    pub fn shape(self) -> Expr {
        self.shaped(Shaping::Shape)
    }

    /// Parts along the leading axes: a range of places, one [`Span::by`] steps, or a place, whose axis goes.
    /// Negative places count from the end; ranges are cut to what there is, a place outside is an error of
    /// the element.
    #[must_use]
    pub fn slice<S: Into<Span>>(self, spans: impl IntoIterator<Item = S>) -> Expr {
        let spans = spans.into_iter().map(Into::into).collect();
        self.shaped(Shaping::Slice(spans))
    }

    /// The slice at one place of the leading axis; negative places count from the end.
    #[must_use]
    pub fn at(self, place: i64) -> Expr {
        self.slice([Span::At(place)])
    }

    /// The slices along `axis` at the places that `indices` name, integers of any shape, which takes the
    /// place of the axis. Negative places count from the end; one outside is an error of the element.
    #[must_use]
    pub fn gather(self, indices: impl Into<Expr>, axis: i64) -> Expr {
        Expr::of(ExprOp::Shaping(Shaping::Gather(axis)), [self, indices.into()])
    }

    /// Arranges the same items in other dimensions, of which one may be -1: as much as fits.
    #[must_use]
    pub fn reshape(self, dims: impl IntoIterator<Item = i64>) -> Expr {
        let dims = dims.into_iter().collect();
        self.shaped(Shaping::Reshape(dims))
    }

    /// A new axis of one item at `axis`.
    #[must_use]
    pub fn expand_dims(self, axis: i64) -> Expr {
        self.shaped(Shaping::ExpandDims(axis))
    }

    /// Without `axes`, which have one item each; without all such axes if none is named.
    #[must_use]
    pub fn squeeze(self, axes: impl IntoIterator<Item = i64>) -> Expr {
        let axes = axes.into_iter().collect();
        self.shaped(Shaping::Squeeze(axes))
    }

    /// The axes in this order; in the reverse one if none is named.
    #[must_use]
    pub fn transpose(self, axes: impl IntoIterator<Item = u64>) -> Expr {
        let axes = axes.into_iter().collect();
        self.shaped(Shaping::Transpose(axes))
    }

    /// Broadcast to these dimensions, as NumPy's `broadcast_to`.
    #[must_use]
    pub fn broadcast_to(self, dims: impl IntoIterator<Item = u64>) -> Expr {
        let dims = dims.into_iter().collect();
        self.shaped(Shaping::BroadcastTo(dims))
    }

    /// Adds so many items of `value` before and after each axis, as `tf.pad` with a constant.
    #[must_use]
    pub fn pad(self, pads: impl IntoIterator<Item = (u64, u64)>, value: impl Into<Expr>) -> Expr {
        let pads = pads.into_iter().collect();
        Expr::of(ExprOp::Shaping(Shaping::Pad(pads)), [self, value.into()])
    }

    /// Along `axis` exactly `length` long, with `value` behind what is there. What is longer is an error of
    /// the element, unless it is to be cut (`truncate`).
    #[must_use]
    pub fn pad_to(self, axis: i64, length: u64, value: impl Into<Expr>, truncate: bool) -> Expr {
        let pad = PadTo {
            axis,
            length,
            truncate,
        };
        Expr::of(ExprOp::Shaping(Shaping::PadTo(pad)), [self, value.into()])
    }

    /// Integers as vectors of `depth` items along a new last axis, 1 at their index and else 0; of an index
    /// outside all 0, as `tf.one_hot` has it.
    #[must_use]
    pub fn one_hot(self, depth: u64, dtype: Dtype) -> Expr {
        let dtype = DtypeField(dtype);
        self.shaped(Shaping::OneHot(OneHot { depth, dtype }))
    }

    /// The bytes of strings as numbers along a new last axis, as `tf.io.decode_raw`. All strings of a tensor
    /// have to have one length, which is a multiple of the size of an item.
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
    /// All along an axis.
    pub const ALL: Span = Span::Range {
        start: None,
        stop: None,
        step: 1,
    };

    /// From the place `start` up to, without, `stop`.
    pub fn between(start: i64, stop: i64) -> Span {
        (start..stop).into()
    }

    /// Only each `step`-th place; a negative step goes backwards, from the last place if the span says no
    /// other.
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
