//! The four roles of processes, and their names in certificates.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::str::FromStr;

/// The role of a process in a cluster, which determines its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Reads elements of existing jobs.
    Read,
    /// Registers datasets, and thereby runs code of its choice on the workers.
    Submit,
    /// Produces and serves elements.
    Worker,
    /// Decides which worker produces which elements.
    Dispatcher,
}

impl Role {
    /// All roles, in the order in which a role key lists their public keys.
    pub const ALL: [Role; 4] = [Role::Read, Role::Submit, Role::Worker, Role::Dispatcher];

    /// Returns the role's name in key files, certificates and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Submit => "submit",
            Role::Worker => "worker",
            Role::Dispatcher => "dispatcher",
        }
    }

    /// Returns the DNS name that a certificate of this role carries as its subject alternative name.
    pub const fn dns_name(self) -> &'static str {
        match self {
            Role::Read => "read.millstream",
            Role::Submit => "submit.millstream",
            Role::Worker => "worker.millstream",
            Role::Dispatcher => "dispatcher.millstream",
        }
    }

    /// Returns the role whose certificates carry `dns_name`.
    pub fn from_dns_name(dns_name: &str) -> Option<Role> {
        Role::ALL
            .into_iter()
            .find(|role| role.dns_name().eq_ignore_ascii_case(dns_name))
    }

    /// Returns the role's index in [`Role::ALL`].
    pub(crate) const fn index(self) -> usize {
        match self {
            Role::Read => 0,
            Role::Submit => 1,
            Role::Worker => 2,
            Role::Dispatcher => 3,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a text that is not the name of a role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a role: use read, submit, worker or dispatcher")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Role, UnknownRole> {
        Role::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_found_by_name_and_place() {
        for (place, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(role.index(), place);
            assert_eq!(role.name().parse::<Role>(), Ok(role));
            assert_eq!(Role::from_dns_name(role.dns_name()), Some(role));
        }
        assert!("admin".parse::<Role>().is_err());
        assert_eq!(Role::from_dns_name("worker.example.org"), None);
    }
}
