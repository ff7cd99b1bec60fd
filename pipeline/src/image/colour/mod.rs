//! Operations on the values of pixels: conversion to grey, normalisation and colour jitter.

mod grey;
mod jitter;
mod normalise;

pub(crate) use grey::{grey, to_grey};
pub(crate) use jitter::Adjustment;
pub(crate) use normalise::Normaliser;
