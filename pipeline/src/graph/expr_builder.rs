//! The builder's methods that compute components by expressions, and shortcuts for common expressions.
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
    /// Replaces the component `name` by the result of `expr`, or adds the component to an element that is a
    /// dict.
    pub fn with_component(self, name: impl Into<String>, expr: impl Into<Expr>) -> Dataset {
        self.with_components([(name, expr)])
    }

    /// Replaces or adds several components, as [`Dataset::with_component`] does. All expressions see the
    /// element as it was before.
    pub fn with_components<N: Into<String>, E: Into<Expr>>(
        self,
        exprs: impl IntoIterator<Item = (N, E)>,
    ) -> Dataset {
        self.computed(Outputs::Components, exprs)
    }

    /// Replaces every element by the single tensor that `expr` computes.
    ///
    /// The expression corresponds to the body of a `tf.data.Dataset.map`. The analysis of the dataset refuses
    /// an expression that fails for every element of the input's spec. A failure that depends on the values
    /// of an element is an error of that element. All methods here follow these rules.
    pub fn map_expr(self, expr: impl Into<Expr>) -> Dataset {
        self.computed(Outputs::Single, [("", expr)])
    }

    /// Replaces every element by a dict of the results of expressions.
    pub fn map_exprs<N: Into<String>, E: Into<Expr>>(
        self,
        exprs: impl IntoIterator<Item = (N, E)>,
    ) -> Dataset {
        self.computed(Outputs::Dict, exprs)
    }

    /// Replaces every element by a tuple of the results of expressions, such as features and label.
    pub fn map_tuple<E: Into<Expr>>(self, exprs: impl IntoIterator<Item = E>) -> Dataset {
        self.computed(Outputs::Tuple, exprs.into_iter().map(|expr| ("", expr)))
    }

    /// Replaces every element by the results of expressions, nested as `structure`. The results become the
    /// leaves of `structure`, in flatten order.
    ///
    /// The dataset is refused if the number of leaves of `structure` differs from the number of expressions.
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

    /// Converts a component to `dtype`, as [`Expr::cast`] does.
    pub fn cast(self, component: impl Into<String>, dtype: Dtype) -> Dataset {
        self.changed(component, |of| of.cast(dtype))
    }

    /// Turns the integers of a component into vectors of `depth` items, with 1 at the index of the integer
    /// and 0 elsewhere. Works as [`Expr::one_hot`].
    pub fn one_hot(self, component: impl Into<String>, depth: u64, dtype: Dtype) -> Dataset {
        self.changed(component, |of| of.one_hot(depth, dtype))
    }

    /// Pads a component at the start and end of each axis, as [`Expr::pad`] does.
    pub fn pad(
        self,
        component: impl Into<String>,
        pads: impl IntoIterator<Item = (u64, u64)>,
        value: impl Into<Expr>,
    ) -> Dataset {
        self.changed(component, |of| of.pad(pads, value))
    }

    /// Pads or truncates a component to `length` along `axis`, as [`Expr::pad_to`] does.
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

    /// Slices a component along its leading axes, as [`Expr::slice`] does.
    pub fn slice<S: Into<Span>>(
        self,
        component: impl Into<String>,
        spans: impl IntoIterator<Item = S>,
    ) -> Dataset {
        self.changed(component, |of| of.slice(spans))
    }

    /// Concatenates components along `axis` into the component `name`.
    ///
    /// Works as `tf.concat`. Shapes that differ in another axis are an error.
    pub fn concat<'a>(
        self,
        name: impl Into<String>,
        components: impl IntoIterator<Item = &'a str>,
        axis: i64,
    ) -> Dataset {
        self.with_component(name, concat(components.into_iter().map(col), axis))
    }

    /// Parses decimal text in a component as floats, and ignores white space around the text.
    ///
    /// Works as `tf.strings.to_number`. Text that is not a number is an error of its element.
    pub fn parse_float(self, component: impl Into<String>, dtype: Dtype) -> Dataset {
        self.changed(component, |of| of.to_number(dtype))
    }

    /// Parses the serialised `tf.train.Example` in `component`, or a vector of examples, into features.
    ///
    /// In a dict, the features replace the component. An element that is a single tensor becomes a dict of
    /// the features.
    ///
    /// Works as `tf.io.parse_example` and `parse_single_example`. A feature of a wrong type or length is an
    /// error of its element. A missing feature without a default is an error too.
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
    /// its feature lists, as [`Dataset::parse_example`] does. Each list becomes a tensor with one row for
    /// each feature in the list.
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

    /// Parses the JSON text in `component` into the declared fields, as [`Dataset::parse_example`] does.
    ///
    /// Invalid JSON, and values that are missing or of a wrong type, are errors of their element.
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

    /// Parses lines of comma-separated values into columns, as `tf.io.decode_csv` does.
    ///
    /// A line with a wrong number of fields is an error of its element.
    pub fn decode_csv(self, decode: DecodeCsv) -> Dataset {
        self.native(decode)
    }

    /// Splits the strings in the vector `component` into a ragged tensor: at each `separator`, or into words
    /// at white space.
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

    /// Splits the text in a component into tokens, and replaces the text by the vector of token ids.
    ///
    /// The method is the counterpart of `tensorflow_text`'s tokenisers. Invalid UTF-8 is an error of its
    /// element. A tokeniser that cannot be read is refused when the dataset is opened.
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
