//! The identity of a process, and its proof.
//!
//! ```text
//! ClusterKey (32 secret bytes)
//!    └─ HKDF ─► one subkey per Role = the signing key of that role's certificates
//!                  └─ RoleKey: one subkey + the public halves of all four
//!                        └─ Credentials: what TLS needs to act as one role and to judge the others
//! ```
//!
//! Neither the cluster key nor another role's key can be computed from a role key.

mod bind_policy;
mod cluster_key;
mod credentials;
mod hex;
mod key_file;
mod key_material;
mod key_origin;
mod key_ring;
mod key_text_error;
mod public_keys;
mod revocations;
mod revoked_list;
mod role;
mod role_key;

pub use bind_policy::{BindRefused, bind_policy};
pub use cluster_key::ClusterKey;
pub(crate) use credentials::Signer;
pub use credentials::{Credentials, CredentialsError};
pub use key_file::{KeyError, KeySource, KeyText, LoadedKey};
pub use key_material::KeyMaterial;
pub use key_origin::KeyOrigin;
pub use key_ring::KeyRing;
pub use key_text_error::KeyTextError;
pub use public_keys::PublicKeys;
pub(crate) use revocations::LOOK_EVERY;
pub use revocations::{Revocations, RevocationsError};
pub use revoked_list::{RevokedList, RevokedListError};
pub use role::{Role, UnknownRole};
pub use role_key::RoleKey;
