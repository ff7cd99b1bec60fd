//! Fuzz targets of what the link reads: tickets and texts of keys. CONTRIBUTING.md says how to search for new
//! inputs.

use crate::identity::KeyRing;
use crate::ticket::{Claims, Ticket, TicketKey};

/// Random inputs beside the corpus, for each target of a test run.
const RANDOM_INPUTS: usize = 200;

#[test]
fn tickets() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let key = TicketKey::from_bytes([7; 32]);
            let claims = Claims {
                client: 1,
                task: 2,
                consumer: Some(3),
            };
            if let Ok(ticket) = Ticket::from_bytes(bytes) {
                let is_genuine = ticket == key.mint(&claims);
                assert_eq!(
                    key.verify(&ticket).is_ok(),
                    is_genuine,
                    "nobody else can make a ticket"
                );
            }
        });
}

#[test]
fn key_texts() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            if let Err(error) = KeyRing::from_text(&text) {
                assert!(error.to_string().len() < 500, "errors do not repeat the text");
            }
        });
}
