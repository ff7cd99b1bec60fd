//! The drawing of a status: the verdict, the figures, and one table. Refuses to know the terminal and the
//! dispatcher.

use millstream::admin::{Level, Verdict};
use millstream::control::{ClientStatus, IterationStatus, Phase, Status, TaskStatus, WorkerStatus};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table as Grid, Wrap};

use super::view::{Table, View};
use crate::console::time_text;

/// The share of waiting from which on a trainer is marked.
const WAITS: f64 = 0.05;

/// The rows of a table with its columns.
struct Content {
    columns: &'static [&'static str],
    widths: &'static [u16],
    rows: Vec<(Vec<String>, Style)>,
}

/// Draws a status, or the reason why it is unknown.
pub(super) fn draw(frame: &mut Frame<'_>, dispatcher: &str, status: Result<&Status, &str>, view: View) {
    let [head, tabs, table, keys] = Layout::vertical([
        Constraint::Length(5),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let status = match status {
        Ok(status) => status,
        Err(reason) => {
            let text = vec![
                Line::from(format!("millstream at {dispatcher}")),
                Line::styled(
                    format!("The state is unknown: {reason}"),
                    Style::new().fg(Color::Red),
                ),
            ];
            frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), head);
            return;
        }
    };
    frame.render_widget(summary(dispatcher, status), head);
    frame.render_widget(titles(view.table), tabs);
    grid(frame, table, content(status, view.table), view.skipped);
    let help = "Tab or 1-4: table   up, down: scroll   q: quit";
    frame.render_widget(Line::styled(help, Style::new().add_modifier(Modifier::DIM)), keys);
}

/// Returns the number of rows of a table.
pub(super) fn rows(status: &Status, table: Table) -> usize {
    content(status, table).rows.len()
}

fn summary<'s>(dispatcher: &str, status: &'s Status) -> Paragraph<'s> {
    let verdict = Verdict::of(status, None, 0);
    let color = match verdict.level {
        Level::Good => Color::Green,
        Level::Warning => Color::Yellow,
        Level::Fault => Color::Red,
    };
    let rates = |of: fn(&IterationStatus) -> f64| running(status).map(of).fold(0.0, |sum, rate| sum + rate);
    let produced = rates(|row| row.tasks.iter().map(|task| task.elements_per_s).sum());
    let read = rates(|row| row.clients.iter().map(|client| client.elements_per_s).sum());
    let counts = status.counts;
    let wanted = status
        .workers_wanted
        .map_or_else(String::new, |wanted| format!(" (wanted: {wanted})"));
    Paragraph::new(vec![
        Line::styled(
            format!("millstream at {dispatcher}"),
            Style::new().add_modifier(Modifier::DIM),
        ),
        Line::styled(
            verdict.sentence,
            Style::new().fg(color).add_modifier(Modifier::BOLD),
        ),
        Line::from(verdict.advice),
        Line::from(format!(
            "workers: {}{wanted}, jobs: {}, trainers: {}, elements/s: {produced:.1} produced, {read:.1} read",
            counts.workers, counts.jobs, counts.clients
        )),
    ])
    .wrap(Wrap { trim: true })
}

fn titles(chosen: Table) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, table) in Table::ALL.into_iter().enumerate() {
        let style = match table == chosen {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        spans.push(Span::styled(format!(" {} {} ", at + 1, table.title()), style));
    }
    Line::from(spans)
}

fn grid(frame: &mut Frame<'_>, area: Rect, content: Content, skipped: usize) {
    let header = Row::new(content.columns.to_vec()).style(Style::new().add_modifier(Modifier::BOLD));
    let is_empty = content.rows.is_empty();
    let rows = content
        .rows
        .into_iter()
        .skip(skipped)
        .map(|(cells, style)| Row::new(cells).style(style));
    let widths = content.widths.iter().map(|width| Constraint::Min(*width));
    frame.render_widget(Grid::new(rows, widths).header(header), area);
    if is_empty {
        let below = Rect {
            y: area.y.saturating_add(1),
            height: area.height.saturating_sub(1),
            ..area
        };
        frame.render_widget(Line::from("nothing"), below);
    }
}

fn content(status: &Status, table: Table) -> Content {
    match table {
        Table::Trainers => Content {
            columns: &["TRAINER", "JOB", "WAITS", "A SECOND", "OWN TIME", "ELEMENTS"],
            widths: &[12, 8, 7, 10, 10, 10],
            rows: running(status)
                .flat_map(|row| row.clients.iter().map(|client| trainer(row, client)))
                .collect(),
        },
        Table::Epochs => Content {
            columns: &["JOB", "EPOCH", "STATE", "DONE", "LEASED", "REMAINING", "LOST"],
            widths: &[8, 6, 10, 10, 8, 10, 6],
            rows: status.iterations.iter().map(epoch).collect(),
        },
        Table::Workers => Content {
            columns: &["WORKER", "STATE", "TASKS", "VERSION"],
            widths: &[24, 26, 6, 10],
            rows: status.workers.iter().map(worker).collect(),
        },
        Table::Tasks => Content {
            columns: &["WORKER", "JOB", "A SECOND", "ELEMENT", "BOTTLENECK"],
            widths: &[24, 8, 10, 10, 20],
            rows: running(status)
                .flat_map(|row| row.tasks.iter().map(|one| task(row, one)))
                .collect(),
        },
    }
}

fn running(status: &Status) -> impl Iterator<Item = &IterationStatus> {
    status.iterations.iter().filter(|row| row.phase == Phase::Running)
}

fn trainer(row: &IterationStatus, client: &ClientStatus) -> (Vec<String>, Style) {
    let waits = client.waiting.is_some_and(|waiting| waiting >= WAITS);
    let cells = vec![
        client.id.to_string(),
        row.job.to_string(),
        client
            .waiting
            .map_or_else(|| "-".to_owned(), |waiting| format!("{:.0} %", waiting * 100.0)),
        format!("{:.1}", client.elements_per_s),
        time_text(client.element_ns),
        client.elements.to_string(),
    ];
    (cells, marked(waits, Color::Yellow))
}

fn epoch(row: &IterationStatus) -> (Vec<String>, Style) {
    let state = match (row.phase, row.waiting_for_workers) {
        (Phase::Running, true) => "waits for workers",
        (phase, _) => phase.name(),
    };
    let remaining: u64 = row.sources.iter().map(|source| source.remaining).sum();
    let counts = [row.splits_done, row.splits_leased, remaining, row.splits_lost];
    let mut cells = vec![row.job.to_string(), row.repetition.to_string(), state.to_owned()];
    cells.extend(counts.iter().map(u64::to_string));
    (
        cells,
        marked(row.splits_lost > 0 || row.waiting_for_workers, Color::Red),
    )
}

fn worker(worker: &WorkerStatus) -> (Vec<String>, Style) {
    let state = match (&worker.dead, worker.draining) {
        (Some(reason), _) => format!("dead: {reason}"),
        (None, true) => "draining".to_owned(),
        (None, false) => "alive".to_owned(),
    };
    let cells = vec![
        worker.address.clone(),
        state,
        worker.tasks.to_string(),
        worker.version.clone(),
    ];
    (cells, marked(worker.dead.is_some(), Color::Red))
}

fn task(row: &IterationStatus, task: &TaskStatus) -> (Vec<String>, Style) {
    let has_failed = task.has_failed();
    let bottleneck = match (&task.bottleneck, has_failed) {
        (_, true) => task.phase.clone(),
        (Some(name), false) if name == "consumer" => "the readers".to_owned(),
        (Some(name), false) => name.clone(),
        (None, false) => "-".to_owned(),
    };
    let cells = vec![
        task.worker_address.clone(),
        row.job.to_string(),
        format!("{:.1}", task.elements_per_s),
        time_text(task.element_ns),
        bottleneck,
    ];
    (cells, marked(has_failed, Color::Red))
}

fn marked(is_marked: bool, color: Color) -> Style {
    match is_marked {
        true => Style::new().fg(color),
        false => Style::new(),
    }
}
