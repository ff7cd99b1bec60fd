//! The identity that a process presents in TLS: its own role, and the trust anchors of all roles.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::cluster_key::ClusterKey;
use super::key_origin::KeyOrigin;
use super::public_keys::PublicKeys;
use super::revocations::Revocations;
use super::role::Role;
use super::role_key::RoleKey;
use crate::tls::{anchor_of_role, roles_of_certificate};

/// The right to act as one [`Role`], and the means to recognise every role. Clones are cheap. `Debug` hides
/// secrets.
#[derive(Clone)]
pub struct Credentials {
    role: Role,
    signer: Signer,
    trust: Trust,
    /// True if the key was given explicitly, which a server beyond loopback needs.
    explicitly_given: bool,
    /// The list of certificates and keys that are refused although they are otherwise valid.
    revocations: Option<Arc<Revocations>>,
    /// The place from which the key was read, for messages.
    origin: KeyOrigin,
}

/// The way in which this process gets its own certificate.
#[derive(Clone)]
pub(crate) enum Signer {
    /// Each endpoint makes a new key, and signs its certificate with the role's key (an Ed25519 seed).
    RoleKey([u8; 32]),
    /// The site issued a certificate and its key (PKCS #8, SEC 1 or PKCS #1).
    Site {
        chain: Vec<CertificateDer<'static>>,
        key: Arc<PrivateKeyDer<'static>>,
    },
}

/// The trust anchors of each role.
#[derive(Clone)]
enum Trust {
    /// One anchor for each role, in the order of [`Role::ALL`]. The anchor proves the role.
    PerRole([Arc<RootCertStore>; 4]),
    /// The authorities of the site, which vouch for the role that the certificate names.
    Site(Arc<RootCertStore>),
}

impl Credentials {
    fn of_role_key(key: &RoleKey) -> Credentials {
        let anchors = Role::ALL.map(|role| {
            let anchor = anchor_of_role(role, &key.anchors()[role.index()]);
            Arc::new(RootCertStore { roots: vec![anchor] })
        });
        Credentials {
            role: key.role(),
            signer: Signer::RoleKey(*key.subkey()),
            trust: Trust::PerRole(anchors),
            explicitly_given: true,
            revocations: None,
            origin: KeyOrigin::Unknown,
        }
    }

    /// Returns the credentials, extended to accept the holders of the given keys.
    pub(super) fn accepting(mut self, others: &[PublicKeys]) -> Credentials {
        if let Trust::PerRole(anchors) = &mut self.trust {
            for role in Role::ALL {
                let roots = &mut Arc::make_mut(&mut anchors[role.index()]).roots;
                roots.extend(
                    others
                        .iter()
                        .map(|keys| anchor_of_role(role, &keys.anchors()[role.index()])),
                );
            }
        }
        self
    }

    /// Makes the credentials of a site that runs its own certificate authority.
    ///
    /// `certificate` is the chain in PEM, leaf first. `key` is the leaf's private key in PEM, and
    /// `authorities` are the trusted roots in PEM. The leaf, and the leaf of every peer, must allow both
    /// client and server authentication. The leaf must carry exactly one DNS name of the form
    /// `<role>.millstream` among its subject alternative names. Other names are ignored.
    ///
    /// # Errors
    /// Returns an error if a text has no usable PEM of its kind, or if the leaf does not name exactly one
    /// role.
    pub fn from_pem(
        certificate: &str,
        key: &str,
        authorities: &str,
    ) -> Result<Credentials, CredentialsError> {
        let chain = certificates(certificate, "the certificate")?;
        let roles = roles_of_certificate(&chain[0]);
        let [role] = roles[..] else {
            return Err(CredentialsError::NotOneRole { found: roles.len() });
        };
        let key =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| CredentialsError::BadPem {
                what: "the private key",
                reason: error.to_string(),
            })?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(authorities, "the certificate authority")? {
            roots.add(authority).map_err(|error| CredentialsError::BadPem {
                what: "the certificate authority",
                reason: error.to_string(),
            })?;
        }
        let signer = Signer::Site {
            chain,
            key: Arc::new(key),
        };
        Ok(Credentials {
            role,
            signer,
            trust: Trust::Site(Arc::new(roots)),
            explicitly_given: true,
            revocations: None,
            origin: KeyOrigin::Unknown,
        })
    }

    /// Returns the credentials, extended to refuse the certificates and keys on the list.
    pub fn refusing(mut self, revocations: Arc<Revocations>) -> Credentials {
        self.revocations = Some(revocations);
        self
    }

    pub(crate) fn revocations(&self) -> Option<&Arc<Revocations>> {
        self.revocations.as_ref()
    }

    /// Returns the role of these credentials.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns whether the key was given explicitly. Returns false for a key that was made on this machine on
    /// first use.
    pub fn explicitly_given(&self) -> bool {
        self.explicitly_given
    }

    /// Returns the place from which the key was read.
    pub(crate) fn origin(&self) -> &KeyOrigin {
        &self.origin
    }

    pub(super) fn with_origin(mut self, origin: KeyOrigin) -> Credentials {
        self.origin = origin;
        self
    }

    pub(super) fn of_this_machine_only(mut self) -> Credentials {
        self.explicitly_given = false;
        self
    }

    pub(crate) fn signer(&self) -> &Signer {
        &self.signer
    }

    pub(crate) fn anchors(&self, role: Role) -> &Arc<RootCertStore> {
        match &self.trust {
            Trust::PerRole(anchors) => &anchors[role.index()],
            Trust::Site(roots) => roots,
        }
    }
}

impl RoleKey {
    /// Returns the credentials to act as this key's role.
    pub fn credentials(&self) -> Credentials {
        Credentials::of_role_key(self)
    }
}

impl ClusterKey {
    /// Returns the credentials to act as `role`.
    pub fn credentials(&self, role: Role) -> Credentials {
        self.role_key(role).credentials()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match self.trust {
            Trust::PerRole(_) => "cluster key",
            Trust::Site(_) => "site certificate",
        };
        write!(f, "Credentials({}, of a {origin})", self.role)
    }
}

fn certificates(pem: &str, what: &'static str) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let bad = |reason: String| CredentialsError::BadPem { what, reason };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificates = certificates.map_err(|error| bad(error.to_string()))?;
    if certificates.is_empty() {
        return Err(bad("expected a CERTIFICATE section, found none".to_owned()));
    }
    Ok(certificates)
}

/// The reason for which a key or certificate does not provide the requested credentials. The caller is at
/// fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The key belongs to another role.
    #[error("this key may only act as `{held}`, not as `{wanted}`: use the cluster key, or a `{wanted}` key")]
    OtherRole {
        /// The requested role.
        wanted: Role,
        /// The role that the key allows.
        held: Role,
    },
    /// A PEM text cannot be used.
    #[error("cannot use {what}: {reason}")]
    BadPem {
        /// The name of the text.
        what: &'static str,
        /// The fault of the text.
        reason: String,
    },
    /// The site's certificate does not name exactly one role.
    #[error(
        "the certificate names {found} roles: it must carry exactly one DNS name `<role>.millstream` \
         (read, submit, worker or dispatcher) as a subject alternative name"
    )]
    NotOneRole {
        /// The number of roles that the certificate names.
        found: usize,
    },
}
