//! Text tables with columns as wide as their widest cell.

/// Returns the lines of a table. The first line is the header.
pub(crate) fn lines<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let mut widths = header.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String; N]| {
        let padded = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(line(&header.map(str::to_owned)))
        .chain(rows.iter().map(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            ["a".to_owned(), "1".to_owned()],
            ["longer".to_owned(), String::new()],
        ];
        assert_eq!(lines(["name", "n"], &rows), ["name    n", "a       1", "longer"]);
    }
}
