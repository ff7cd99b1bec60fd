//! The terminal of `millstream top`: asks the dispatcher once a second, and draws. The requests have a thread
//! of their own, so that keys work while the dispatcher does not answer.

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use millstream::Service;
use millstream::control::Status;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::{DefaultTerminal, Terminal};

use super::args::TopArgs;
use super::screen::{draw, rows};
use super::view::View;
use crate::asking;
use crate::console::say;

/// The time between two requests for the status.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The time between two looks at keys and answers.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The number of lines around the rows of a table.
const LINES_AROUND: u16 = 8;
/// Maximum number of rows of a status that is drawn once.
const ROWS_ONCE: usize = 100;

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<(), String> {
    let service = asking::connect(&args.identity, &args.dispatcher)?;
    if let Some(columns) = args.once {
        let status = service.status().map_err(|error| error.to_string())?;
        say(&drawn_once(&args.dispatcher, &status, columns)?);
        return Ok(());
    }
    if !std::io::stdout().is_terminal() {
        return Err("top draws on a terminal: use `millstream status`, or top --once 100".to_owned());
    }
    let answers = Answers::ask(service)?;
    let mut terminal =
        ratatui::try_init().map_err(|error| format!("the terminal cannot be used: {error}"))?;
    let shown = show(&mut terminal, &args.dispatcher, &answers);
    ratatui::restore();
    shown.map_err(|error| format!("the terminal cannot be used: {error}"))
}

/// The answers of the dispatcher. Dropping the value ends the thread that asks.
struct Answers {
    answers: Receiver<Answer>,
    _asking: Sender<()>,
}

/// A status, or the reason why it is unknown.
type Answer = Result<Status, String>;

impl Answers {
    /// Starts the thread that asks for the status.
    fn ask(service: Service) -> Result<Answers, String> {
        let (tell, answers) = channel();
        let (asking, asked) = channel::<()>();
        let work = move || {
            loop {
                let answer = service.status().map_err(|error| error.to_string());
                // The send fails when the command ends.
                if tell.send(answer).is_err() {
                    return;
                }
                match asked.recv_timeout(ASK_EVERY) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = thread::Builder::new().name("top".to_owned());
        let started = thread.spawn(work);
        started.map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(Answers {
            answers,
            _asking: asking,
        })
    }

    /// Returns the latest answer that has arrived since the last call.
    fn latest(&self) -> Option<Answer> {
        self.answers.try_iter().last()
    }
}

/// Draws the latest answer until the user ends the command.
fn show(terminal: &mut DefaultTerminal, dispatcher: &str, answers: &Answers) -> std::io::Result<()> {
    let (mut view, mut latest) = (View::default(), Err("no answer yet".to_owned()));
    while !view.has_ended {
        if let Some(answer) = answers.latest() {
            latest = answer;
        }
        terminal.draw(|frame| draw(frame, dispatcher, latest.as_ref().map_err(String::as_str), view))?;
        if event::poll(LOOK_EVERY)?
            && let Event::Key(key) = event::read()?
        {
            let rows = latest.as_ref().map_or(0, |status| rows(status, view.table));
            view.press(key, rows);
        }
    }
    Ok(())
}

/// Draws a status as text.
fn drawn_once(dispatcher: &str, status: &Status, columns: u16) -> Result<String, String> {
    let failed = |error: std::convert::Infallible| error.to_string();
    let view = View::default();
    let rows = rows(status, view.table).clamp(1, ROWS_ONCE) as u16;
    let mut terminal = Terminal::new(TestBackend::new(columns, rows + LINES_AROUND)).map_err(failed)?;
    terminal
        .draw(|frame| draw(frame, dispatcher, Ok(status), view))
        .map_err(failed)?;
    let text = terminal.backend().to_string();
    let lines = text.lines().map(|line| line.trim_matches('"').trim_end());
    Ok(lines.collect::<Vec<_>>().join("\n").trim_end().to_owned())
}
