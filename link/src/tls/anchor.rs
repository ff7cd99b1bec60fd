//! A role's trust anchor, built from the role's public key alone.
//!
//! The holder of a role key knows the other roles only by their public keys. Therefore no authority
//! certificates are distributed: an anchor's name follows from the role, and its key is the public key.

use rustls_pki_types::{Der, TrustAnchor};

use crate::identity::Role;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;
/// The object identifier 2.5.4.3, commonName, with tag and length.
const OID_COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
/// The object identifier 1.3.101.112, Ed25519, with tag and length.
const OID_ED25519: [u8; 5] = [0x06, 0x03, 0x2b, 0x65, 0x70];

/// Returns the common name of the issuer of a role's certificates.
pub(crate) fn anchor_subject_common_name(role: Role) -> String {
    format!("millstream role {role}")
}

/// Returns the anchor of `role`, which vouches for every certificate that this Ed25519 key signed.
pub(crate) fn anchor_of_role(role: Role, public_key: &[u8; 32]) -> TrustAnchor<'static> {
    TrustAnchor {
        subject: Der::from(subject(role)),
        subject_public_key_info: Der::from(public_key_info(public_key)),
        name_constraints: None,
    }
}

/// Returns the distinguished name CN=…, without the outermost tag, as an anchor stores it.
fn subject(role: Role) -> Vec<u8> {
    let name = tlv(UTF8_STRING, anchor_subject_common_name(role).as_bytes());
    tlv(SET, &tlv(SEQUENCE, &[&OID_COMMON_NAME, name.as_slice()].concat()))
}

/// Returns the SubjectPublicKeyInfo, without the outermost tag.
fn public_key_info(public_key: &[u8; 32]) -> Vec<u8> {
    let no_unused_bits = [&[0], public_key.as_slice()].concat();
    [tlv(SEQUENCE, &OID_ED25519), tlv(BIT_STRING, &no_unused_bits)].concat()
}

/// Returns the DER encoding of a value, whose length must be below 128.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    debug_assert!(content.len() < 128);
    let length = content.len() as u8;
    [&[tag, length], content].concat()
}
