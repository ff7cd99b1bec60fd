//! Image operations: each operation changes one component. Sizes are in pixels, rows before columns.

use millstream::pipeline::graph::{
    ColorJitter, DecodeImage, OnError, RandomResizedCrop, Resize, ResizeMethod,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Graph;

#[pymethods]
impl Graph {
    fn decode_image(&self, component: String, channels: Option<u8>, skips_errors: bool) -> PyResult<Graph> {
        let on_error = if skips_errors {
            OnError::Skip
        } else {
            OnError::Raise
        };
        let decode = DecodeImage {
            channels,
            on_error,
            ..DecodeImage::new(component)
        };
        self.step(|dataset| dataset.decode_image_with(decode))
    }

    fn resize(
        &self,
        component: String,
        height: u32,
        width: u32,
        method: &str,
        antialias: bool,
    ) -> PyResult<Graph> {
        let resize = Resize {
            method: Some(resize_method(method)?),
            antialias: Some(antialias),
            ..Resize::new(component, height, width)
        };
        self.step(|dataset| dataset.resize_with(resize))
    }

    fn crop(&self, component: String, top: u32, left: u32, height: u32, width: u32) -> PyResult<Graph> {
        self.step(|dataset| dataset.crop(component, top, left, height, width))
    }

    fn central_crop(&self, component: String, fraction: f64) -> PyResult<Graph> {
        self.step(|dataset| dataset.central_crop(component, fraction))
    }

    fn center_crop(&self, component: String, height: u32, width: u32) -> PyResult<Graph> {
        self.step(|dataset| dataset.center_crop(component, height, width))
    }

    fn random_crop(&self, component: String, height: u32, width: u32, seed: Option<u64>) -> PyResult<Graph> {
        self.step(|dataset| dataset.random_crop(component, height, width, seed))
    }

    fn random_resized_crop(
        &self,
        component: String,
        size: (u32, u32),
        scale: (f64, f64),
        ratio: (f64, f64),
        seed: Option<u64>,
    ) -> PyResult<Graph> {
        let crop = RandomResizedCrop {
            scale_min: scale.0,
            scale_max: scale.1,
            ratio_min: ratio.0,
            ratio_max: ratio.1,
            seed,
            ..RandomResizedCrop::new(component, size.0, size.1)
        };
        self.step(|dataset| dataset.random_resized_crop_with(crop))
    }

    /// Flips images along the axis `left_right` or `up_down`. With `by_chance`, flips a random half of the
    /// images.
    fn flip(&self, component: String, axis: &str, by_chance: bool, seed: Option<u64>) -> PyResult<Graph> {
        self.step(|dataset| match (axis == "up_down", by_chance) {
            (false, false) => dataset.flip_left_right(component),
            (true, false) => dataset.flip_up_down(component),
            (false, true) => dataset.random_flip_left_right(component, seed),
            (true, true) => dataset.random_flip_up_down(component, seed),
        })
    }

    fn color_jitter(
        &self,
        component: String,
        brightness: Option<(f64, f64)>,
        contrast: Option<(f64, f64)>,
        saturation: Option<(f64, f64)>,
        hue: Option<(f64, f64)>,
        seed: Option<u64>,
    ) -> PyResult<Graph> {
        let jitter = ColorJitter {
            component,
            brightness,
            contrast,
            saturation,
            hue,
            seed,
        };
        self.step(|dataset| dataset.color_jitter(jitter))
    }

    fn normalize(&self, component: String, mean: Vec<f32>, std: Vec<f32>) -> PyResult<Graph> {
        self.step(|dataset| dataset.normalize(component, mean, std))
    }

    fn rgb_to_grayscale(&self, component: String, channels: u8) -> PyResult<Graph> {
        self.step(|dataset| dataset.rgb_to_grayscale(component, channels))
    }

    fn hwc_to_chw(&self, component: String) -> PyResult<Graph> {
        self.step(|dataset| dataset.hwc_to_chw(component))
    }
}

fn resize_method(name: &str) -> PyResult<ResizeMethod> {
    Ok(match name {
        "nearest" => ResizeMethod::Nearest,
        "bilinear" => ResizeMethod::Bilinear,
        "bicubic" => ResizeMethod::Bicubic,
        "area" => ResizeMethod::Area,
        "lanczos3" => ResizeMethod::Lanczos3,
        other => {
            return Err(PyValueError::new_err(format!(
                "invalid resize method {other:?}: expected nearest, bilinear, bicubic, area or lanczos3"
            )));
        }
    })
}
