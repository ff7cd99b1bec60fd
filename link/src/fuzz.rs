//! Fuzz targets of the data that the crate parses: tickets and texts of keys. CONTRIBUTING.md explains how to
//! search for new inputs.

use crate::identity::KeyRing;
use crate::ticket::{Claims, Ticket, TicketKey};

/// The number of random inputs of each target in a test run, in addition to the corpus.
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
                    "a ticket that the key did not mint was accepted"
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
                assert!(
                    error.to_string().len() < 500,
                    "the error repeats the text of the key"
                );
            }
        });
}
