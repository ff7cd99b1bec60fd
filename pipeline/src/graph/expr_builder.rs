//! The fluent way to write what is computed by expressions, and the simple cases of it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};

use super::dataset::Dataset;
use super::error::GraphError;
use super::expr::{Expr, Span, Split, col, concat};
use super::native::{
    Compute, DecodeCsv, Feature, JsonField, Named, Outputs, ParseExample, ParseJson, ParseSequenceExample,
    SplitRagged, Tokenise,
};
use super::params::SpecField;

impl Dataset {
    /// Puts what `expr` computes in the place of the component `name`, or adds it to the dict that an element
    /// is.
    pub fn with_component(self, name: impl Into<String>, expr: impl Into<Expr>) -> Dataset {
        self.with_components([(name, expr)])
    }

    /// Adds several components, as [`Dataset::with_component`]: all are computed of the element as it was.
    pub fn with_components<N: Into<String>, E: Into<Expr>>(
        self,
        exprs: impl IntoIterator<Item = (N, E)>,
    ) -> Dataset {
        self.computed(Outputs::Components, exprs)
    }

    /// Makes every element the one tensor that `expr` computes.
    ///
    /// What the body of a `tf.data.Dataset.map` is. What an expression cannot compute of any such element is
    /// refused when the dataset is analysed; what only one element shows is an error of that element. So it
    /// is for all methods here.
    pub fn map_expr(self, expr: impl Into<Expr>) -> Dataset {
        self.computed(Outputs::Single, [("", expr)])
    }

    /// Makes every element a dict of what expressions compute.
    pub fn map_exprs<N: Into<String>, E: Into<Expr>>(
        self,
        exprs: impl IntoIterator<Item = (N, E)>,
    ) -> Dataset {
        self.computed(Outputs::Dict, exprs)
    }

    /// Makes every element a tuple of what expressions compute, such as features and label.
    pub fn map_tuple<E: Into<Expr>>(self, exprs: impl IntoIterator<Item = E>) -> Dataset {
        self.computed(Outputs::Tuple, exprs.into_iter().map(|expr| ("", expr)))
    }

    /// Makes every element what expressions compute, nested as `structure` is: a leaf each, in flatten order.
    ///
    /// The leaves of `structure` and the expressions are as many, or the dataset is refused.
    pub fn map_nested<E: Into<Expr>>(
        mut self,
        structure: Structure,
        exprs: impl IntoIterator<Item = E>,
    ) -> Dataset {
        let exprs = exprs.into_iter().map(|expr| Named {
            name: String::new(),
            expr: expr.into(),
        });
        let exprs: Vec<Named> = exprs.collect();
        let leaves = vec![TensorSpec::scalar(Dtype::Bool); exprs.len()];
        match ElementSpec::new(structure, leaves) {
            Ok(nested) => self.native(Compute {
                outputs: Outputs::Nested,
                exprs,
                nested: Some(SpecField(nested)),
            }),
            Err(error) => {
                self.error.get_or_insert(GraphError::Invalid {
                    node: self.nodes.len(),
                    op: "compute",
                    reason: error.to_string(),
                });
                self
            }
        }
    }

    /// Converts a component, as [`Expr::cast`].
    pub fn cast(self, component: impl Into<String>, dtype: Dtype) -> Dataset {
        self.changed(component, |of| of.cast(dtype))
    }

    /// Makes the integers of a component vectors of `depth` items, 1 at their index and else 0, as
    /// [`Expr::one_hot`].
    pub fn one_hot(self, component: impl Into<String>, depth: u64, dtype: Dtype) -> Dataset {
        self.changed(component, |of| of.one_hot(depth, dtype))
    }

    /// Pads a component before and behind each axis, as [`Expr::pad`].
    pub fn pad(
        self,
        component: impl Into<String>,
        pads: impl IntoIterator<Item = (u64, u64)>,
        value: impl Into<Expr>,
    ) -> Dataset {
        self.changed(component, |of| of.pad(pads, value))
    }

    /// Pads a component to `length` along `axis`, or cuts it, as [`Expr::pad_to`].
    pub fn pad_to(
        self,
        component: impl Into<String>,
        axis: i64,
        length: u64,
        value: impl Into<Expr>,
        truncate: bool,
    ) -> Dataset {
        self.changed(component, |of| of.pad_to(axis, length, value, truncate))
    }

    /// Takes parts of a component along its leading axes, as [`Expr::slice`].
    pub fn slice<S: Into<Span>>(
        self,
        component: impl Into<String>,
        spans: impl IntoIterator<Item = S>,
    ) -> Dataset {
        self.changed(component, |of| of.slice(spans))
    }

    /// Puts components one behind the other along `axis`, as the component `name`.
    ///
    /// Works as `tf.concat`: shapes that differ in another axis are an error.
    pub fn concat<'a>(
        self,
        name: impl Into<String>,
        components: impl IntoIterator<Item = &'a str>,
        axis: i64,
    ) -> Dataset {
        self.with_component(name, concat(components.into_iter().map(col), axis))
    }

    /// Reads decimal text in a component as floats, white space around it aside.
    ///
    /// Works as `tf.strings.to_number`. Text that is no number is an error of its element.
    pub fn parse_float(self, component: impl Into<String>, dtype: Dtype) -> Dataset {
        self.changed(component, |of| of.to_number(dtype))
    }

    /// Parses the serialised `tf.train.Example` in `component`, or the vector of them, into its features. An
    /// element that is nothing else becomes a dict of them; in a dict they take the place of the component.
    ///
    /// Works as `tf.io.parse_example` and `parse_single_example`. A feature that is missing and has no
    /// default, of another type, or of another length than declared, is an error of its element.
    pub fn parse_example(
        self,
        component: impl Into<String>,
        features: impl IntoIterator<Item = Feature>,
    ) -> Dataset {
        self.native(ParseExample {
            component: component.into(),
            features: features.into_iter().collect(),
        })
    }

    /// Parses the serialised `tf.train.SequenceExample` in `component` into the features of its context and
    /// its feature lists, as [`Dataset::parse_example`] does. Each list has a row for every one of its
    /// features.
    ///
    /// Works as `tf.io.parse_single_sequence_example`.
    pub fn parse_sequence_example(
        self,
        component: impl Into<String>,
        context: impl IntoIterator<Item = Feature>,
        sequences: impl IntoIterator<Item = Feature>,
    ) -> Dataset {
        self.native(ParseSequenceExample {
            component: component.into(),
            context: context.into_iter().collect(),
            sequences: sequences.into_iter().collect(),
        })
    }

    /// Parses the text of JSON in `component` into the fields that are declared, as
    /// [`Dataset::parse_example`] does.
    ///
    /// Text that is no JSON, and values that are missing or of another type, are errors of their element.
    pub fn parse_json(
        self,
        component: impl Into<String>,
        fields: impl IntoIterator<Item = JsonField>,
    ) -> Dataset {
        self.native(ParseJson {
            component: component.into(),
            fields: fields.into_iter().collect(),
        })
    }

    /// Parses lines of comma-separated values into their columns, as `tf.io.decode_csv`.
    ///
    /// Lines of another number of fields are an error of their element.
    pub fn decode_csv(self, decode: DecodeCsv) -> Dataset {
        self.native(decode)
    }

    /// Cuts the strings in `component`, a vector, into ragged parts: between `separator`s, or words between
    /// white space.
    ///
    /// Works as `tf.strings.split`.
    pub fn split_ragged(self, component: impl Into<String>, separator: Option<&str>) -> Dataset {
        self.native(SplitRagged {
            component: component.into(),
            split: Split {
                separator: separator.map(str::to_owned),
                cuts_max: None,
            },
        })
    }

    /// Cuts the text in a component into tokens, of which the ids become a vector.
    ///
    /// The counterpart of `tensorflow_text`'s tokenisers. Bytes that are no UTF-8 are an error of their
    /// element; a tokeniser that cannot be read is refused when the dataset is opened.
    pub fn tokenise(self, tokenise: Tokenise) -> Dataset {
        self.native(tokenise)
    }

    fn changed(self, component: impl Into<String>, change: impl FnOnce(Expr) -> Expr) -> Dataset {
        let component = component.into();
        let expr = change(col(component.clone()));
        self.with_component(component, expr)
    }

    fn computed<N: Into<String>, E: Into<Expr>>(
        self,
        outputs: Outputs,
        exprs: impl IntoIterator<Item = (N, E)>,
    ) -> Dataset {
        let exprs = exprs.into_iter().map(|(name, expr)| Named {
            name: name.into(),
            expr: expr.into(),
        });
        let exprs = exprs.collect();
        self.native(Compute {
            outputs,
            exprs,
            nested: None,
        })
    }
}
