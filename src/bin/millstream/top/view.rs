//! The choice of the user of `millstream top`: the table and its first row. Pure: keys change the choice.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The table on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Table {
    #[default]
    Trainers,
    Epochs,
    Workers,
    Tasks,
}

impl Table {
    /// All tables, in the order of their numbers.
    pub(super) const ALL: [Table; 4] = [Table::Trainers, Table::Epochs, Table::Workers, Table::Tasks];

    pub(super) fn title(self) -> &'static str {
        match self {
            Table::Trainers => "Trainers",
            Table::Epochs => "Epochs",
            Table::Workers => "Workers",
            Table::Tasks => "Tasks",
        }
    }

    fn after(self, steps: usize) -> Table {
        let at = Table::ALL
            .iter()
            .position(|table| *table == self)
            .unwrap_or_default();
        Table::ALL[(at + steps) % Table::ALL.len()]
    }
}

/// The choice of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) table: Table,
    /// The number of rows above the first visible one.
    pub(super) skipped: usize,
    pub(super) has_ended: bool,
}

impl View {
    /// Applies a key; other keys have no meaning. `rows` is the number of rows of the present table.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys have no meaning")]
    pub(super) fn press(&mut self, key: KeyEvent, rows: usize) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let last = rows.saturating_sub(1);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => self.has_ended = true,
            KeyCode::Char('q') | KeyCode::Esc => self.has_ended = true,
            KeyCode::Tab | KeyCode::Right => self.choose(self.table.after(1)),
            KeyCode::BackTab | KeyCode::Left => self.choose(self.table.after(Table::ALL.len() - 1)),
            KeyCode::Char(digit @ '1'..='4') => self.choose(Table::ALL[digit as usize - '1' as usize]),
            KeyCode::Down | KeyCode::Char('j') => self.skipped = (self.skipped + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.skipped = self.skipped.saturating_sub(1),
            KeyCode::PageDown => self.skipped = (self.skipped + 10).min(last),
            KeyCode::PageUp => self.skipped = self.skipped.saturating_sub(10),
            KeyCode::Home => self.skipped = 0,
            KeyCode::End => self.skipped = last,
            _ => {}
        }
    }

    fn choose(&mut self, table: Table) {
        (self.table, self.skipped) = (table, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view: &mut View, codes: &[KeyCode]) {
        for code in codes {
            view.press(KeyEvent::from(*code), 25);
        }
    }

    #[test]
    fn keys_choose_tables_and_rows() {
        let mut view = View::default();
        press(&mut view, &[KeyCode::Tab, KeyCode::Down, KeyCode::PageDown]);
        assert_eq!((view.table, view.skipped), (Table::Epochs, 11));
        press(&mut view, &[KeyCode::End, KeyCode::Down]);
        assert_eq!(view.skipped, 24);
        press(&mut view, &[KeyCode::Char('4')]);
        assert_eq!((view.table, view.skipped), (Table::Tasks, 0));
        press(&mut view, &[KeyCode::Right, KeyCode::BackTab, KeyCode::Up]);
        assert_eq!(
            (view.table, view.skipped, view.has_ended),
            (Table::Tasks, 0, false)
        );
    }

    #[test]
    fn three_keys_end_the_command() {
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for key in [
            KeyEvent::from(KeyCode::Char('q')),
            KeyEvent::from(KeyCode::Esc),
            interrupt,
        ] {
            let mut view = View::default();
            view.press(key, 0);
            assert!(view.has_ended, "{key:?}");
        }
        let mut view = View::default();
        view.press(KeyEvent::from(KeyCode::Char('c')), 0);
        assert!(!view.has_ended);
    }
}
