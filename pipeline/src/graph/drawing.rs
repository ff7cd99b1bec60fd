//! Drawings of a dataset for people: its operations as text and as DOT, with columns of figures for each
//! operation. The caller chooses the columns.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::{self, Write};

use super::dataset::Dataset;
use super::error::GraphError;
use super::tree::Graph;
use super::tree::Role;

/// The operations of a dataset in the order in which they are drawn.
///
/// The output comes first, and each operation is above its input. The bodies of functions are indented to the
/// right. If an operation has several inputs, all but the last are indented too.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    columns: Vec<&'static str>,
    stages: Vec<Drawn>,
}

/// One operation of a [`Drawing`].
#[derive(Debug, Clone, PartialEq)]
struct Drawn {
    /// The path to the operation: the nodes of the operations whose bodies contain it, from the outermost in,
    /// and its own node.
    path: Vec<usize>,
    label: String,
    cells: Vec<String>,
    /// The indentation that is printed to the left of the operation.
    margin: String,
    /// The index of the operation that uses this operation, and the kind of use.
    user: Option<(usize, Edge)>,
}

/// The way in which one operation uses another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    /// The other operation reads the operation as an input.
    Input,
    /// The operation is the output of a function of the other operation.
    Body(&'static str),
}

impl Dataset {
    /// Returns the dataset as a drawing: see [`Graph::drawing`]. The drawing has no costs, because only the
    /// executor measures the cost of each operation.
    ///
    /// # Errors
    /// [`GraphError`] that describes the first mistake in the chain.
    pub fn explain(self) -> Result<Drawing, GraphError> {
        Ok(self.graph()?.drawing())
    }
}

impl Graph {
    /// Draws the graph, without columns.
    pub fn drawing(&self) -> Drawing {
        self.drawing_with(Vec::new(), &mut |_| Vec::new())
    }

    /// Draws the graph with `columns`. `cells` returns the texts of the columns for the operation at a path.
    /// The path lists the nodes of the operations whose bodies contain the operation, from the outermost in,
    /// and its own node.
    pub fn drawing_with(
        &self,
        columns: Vec<&'static str>,
        cells: &mut dyn FnMut(&[usize]) -> Vec<String>,
    ) -> Drawing {
        let mut drawing = Drawing {
            columns,
            stages: Vec::new(),
        };
        drawing.add(self, self.output(), &mut Vec::new(), "", None, cells);
        drawing
    }
}

impl Drawing {
    /// Returns the paths of the operations, in the order of the drawing. Each path lists the nodes of the
    /// operations whose bodies contain the operation, and its own node.
    pub fn paths(&self) -> impl Iterator<Item = &[usize]> {
        self.stages.iter().map(|stage| &stage.path[..])
    }

    /// Returns the operations with their parameters, in the order of the drawing.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().map(|stage| &stage.label[..])
    }

    /// Returns the drawing in the language of Graphviz. An arrow leads from each input to the operation that
    /// reads it; the arrows of function bodies are dashed.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph dataset {\n  rankdir=BT;\n  node [shape=box];\n");
        for (index, stage) in self.stages.iter().enumerate() {
            let mut label = stage.label.clone();
            for (column, cell) in self.columns.iter().zip(&stage.cells) {
                if !cell.is_empty() {
                    let _ = write!(label, "\n{column}: {cell}");
                }
            }
            // In a string of DOT only the quote, which ends the string, and the backslash need escapes.
            let label = label
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = writeln!(dot, "  n{index} [label=\"{label}\"];");
            match stage.user {
                Some((user, Edge::Input)) => _ = writeln!(dot, "  n{index} -> n{user};"),
                Some((user, Edge::Body(name))) => {
                    _ = writeln!(dot, "  n{index} -> n{user} [style=dashed, label=\"{name}\"];");
                }
                None => {}
            }
        }
        dot.push_str("}\n");
        dot
    }

    /// Draws `node` of `graph`, and its inputs below it. The recursion is as deep as the graph.
    fn add(
        &mut self,
        graph: &Graph,
        node: usize,
        within: &mut Vec<usize>,
        margin: &str,
        user: Option<(usize, Edge)>,
        cells: &mut dyn FnMut(&[usize]) -> Vec<String>,
    ) {
        let found = &graph.nodes()[node];
        within.push(node);
        let index = self.stages.len();
        self.stages.push(Drawn {
            path: within.clone(),
            label: found.op.label(),
            cells: cells(within),
            margin: margin.to_owned(),
            user,
        });
        for (body, role) in found.op.graphs() {
            let name = if role == Role::Value { "value" } else { "body" };
            let margin = format!("{margin}  ");
            self.add(
                body,
                body.output(),
                within,
                &margin,
                Some((index, Edge::Body(name))),
                cells,
            );
        }
        within.pop();
        // The last input continues below, at the same indentation; the other inputs are indented.
        if let Some((last, others)) = found.inputs.split_last() {
            for input in others {
                let margin = format!("{margin}  ");
                self.add(
                    graph,
                    *input as usize,
                    within,
                    &margin,
                    Some((index, Edge::Input)),
                    cells,
                );
            }
            self.add(
                graph,
                *last as usize,
                within,
                margin,
                Some((index, Edge::Input)),
                cells,
            );
        }
    }

    /// Returns the text of the first column: the indentation, the kind of use and the operation.
    fn first_cell(stage: &Drawn) -> String {
        let name = match stage.user {
            Some((_, Edge::Body(name))) => format!("{name}: "),
            Some((_, Edge::Input)) | None => String::new(),
        };
        format!("{}{name}{}", stage.margin, stage.label)
    }
}

impl fmt::Display for Drawing {
    /// Writes one line for each operation, with its columns. The first line has the names of the columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let firsts: Vec<String> = self.stages.iter().map(Drawing::first_cell).collect();
        let title = if self.columns.is_empty() { "" } else { "operation" };
        let first_width = firsts
            .iter()
            .map(|first| first.chars().count())
            .max()
            .unwrap_or(0);
        let first_width = first_width.max(title.len());
        let width = |column: usize| {
            let cells = self.stages.iter().filter_map(|stage| stage.cells.get(column));
            let cells = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            cells.max(self.columns[column].len())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut line = |first: &str, cells: &mut dyn Iterator<Item = &str>| {
            let mut text = format!("{first:first_width$}");
            for (cell, width) in cells.zip(&widths) {
                let _ = write!(text, "  {cell:>width$}");
            }
            writeln!(f, "{}", text.trim_end())
        };
        if !self.columns.is_empty() {
            line(title, &mut self.columns.iter().copied())?;
        }
        for (first, stage) in firsts.iter().zip(&self.stages) {
            line(first, &mut stage.cells.iter().map(String::as_str))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::label::LABEL_CHARS_MAX;
    use crate::graph::{Params, Window};

    #[test]
    fn operations_stand_above_their_inputs() {
        let zipped = Dataset::zip([
            Dataset::range(0, 9, 1).shuffle(4, Some(7)),
            Dataset::counter(5, -1).take(3),
        ]);
        let dataset = zipped
            .window(
                Window {
                    size: 2,
                    shift: 2,
                    stride: 1,
                    drop_remainder: true,
                },
                |window| window.batch(2, true),
            )
            .map("add", Params::none())
            .parallel(4);
        let expected = "\
map(add) ×4
window
  body: batch(size: 2, drop_remainder: true)
  argument
zip
  shuffle(buffer: 4, seed: 7, fixed: false, in_blocks: false)
  range(start: 0, stop: 9, step: 1)
take(count: 3)
counter(start: 5, step: -1)
";
        assert_eq!(dataset.explain().unwrap().to_string(), expected);
    }

    #[test]
    fn columns_align_and_dot_escapes_quotes() {
        let graph = Dataset::files("a\"b\\*.tar").take(2).graph().unwrap();
        let drawing = graph.drawing_with(vec!["n"], &mut |path| vec![path[0].to_string()]);
        let text = drawing.to_string();
        let ends = text.lines().map(|line| line.chars().count());
        assert_eq!(ends.collect::<std::collections::BTreeSet<_>>().len(), 1, "{text}");
        let dot = drawing.to_dot();
        assert!(
            dot.contains(r#"label="files(pattern: \"a\\\"b\\\\*.tar\""#),
            "{dot}"
        );
        assert!(dot.contains("n1 -> n0;") && dot.contains(r"\nn: 1"), "{dot}");
    }

    #[test]
    fn labels_are_short_whatever_the_parameters() {
        let graph = Dataset::files("x".repeat(4000)).graph().unwrap();
        assert!(graph.nodes()[0].op.label().chars().count() <= LABEL_CHARS_MAX + 1);
    }
}
