//! The functions of pictures as calls: what each makes of a component, and when. What happens to pixels is
//! the business of [`crate::image`].
//!
//! Most results are deferred: they are computed straight into where they stay.

mod area;
mod calls;
mod decode;
mod deferred;
mod open;
mod part;
mod picture;

pub(crate) use open::{call, fused};
