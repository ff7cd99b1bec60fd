//! A role's trust anchor, built from its public key alone.
//!
//! Holders of a role key know the other roles only by their public keys, so there is no authority certificate
//! to pass around: the anchor's name is a function of the role, and its key is the public key.

use rustls_pki_types::{Der, TrustAnchor};

use crate::identity::Role;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;
/// 2.5.4.3, commonName, with tag and length.
const OID_COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
/// 1.3.101.112, Ed25519, with tag and length.
const OID_ED25519: [u8; 5] = [0x06, 0x03, 0x2b, 0x65, 0x70];

/// The common name under which a role's key signs.
pub(crate) fn anchor_subject_common_name(role: Role) -> String {
    format!("millstream role {role}")
}

/// The anchor that vouches for `role`: whatever this Ed25519 key signed.
pub(crate) fn anchor_of_role(role: Role, public_key: &[u8; 32]) -> TrustAnchor<'static> {
    TrustAnchor {
        subject: Der::from(subject(role)),
        subject_public_key_info: Der::from(public_key_info(public_key)),
        name_constraints: None,
    }
}

/// The distinguished name CN=…, without the outermost tag, as an anchor holds it.
fn subject(role: Role) -> Vec<u8> {
    let name = tlv(UTF8_STRING, anchor_subject_common_name(role).as_bytes());
    tlv(SET, &tlv(SEQUENCE, &[&OID_COMMON_NAME, name.as_slice()].concat()))
}

/// The SubjectPublicKeyInfo, without the outermost tag.
fn public_key_info(public_key: &[u8; 32]) -> Vec<u8> {
    let no_unused_bits = [&[0], public_key.as_slice()].concat();
    [tlv(SEQUENCE, &OID_ED25519), tlv(BIT_STRING, &no_unused_bits)].concat()
}

/// DER with a length below 128, which all of these are.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    debug_assert!(content.len() < 128);
    let length = content.len() as u8;
    [&[tag, length], content].concat()
}
