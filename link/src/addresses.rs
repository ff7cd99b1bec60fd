//! Parses the addresses of several dispatchers: `millstream://a:5050,b:5050`.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::address::{AddressError, HostPort};

/// Maximum number of addresses in one text.
const ADDRESSES_MAX: usize = 16;

/// The addresses of the dispatchers of one service, at least one, each once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPorts(Vec<HostPort>);

impl HostPorts {
    /// Returns the first address.
    pub fn first(&self) -> &HostPort {
        &self.0[0]
    }

    /// Returns the addresses in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &HostPort> {
        self.0.iter()
    }

    /// Returns whether there is more than one address.
    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }
}

impl From<HostPort> for HostPorts {
    fn from(address: HostPort) -> HostPorts {
        HostPorts(vec![address])
    }
}

impl From<SocketAddr> for HostPorts {
    fn from(address: SocketAddr) -> HostPorts {
        HostPort::from(address).into()
    }
}

impl fmt::Display for HostPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(HostPort::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

impl FromStr for HostPorts {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<HostPorts, AddressError> {
        let mut addresses = Vec::new();
        for part in text.split(',') {
            let address: HostPort = part.trim().parse()?;
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.len() > ADDRESSES_MAX {
            return Err(AddressError::TooMany { limit: ADDRESSES_MAX });
        }
        Ok(HostPorts(addresses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_addresses_are_parsed_in_order() {
        let addresses: HostPorts = "millstream://a:5050,b:5051, millstream://[::1]:7,a:5050"
            .parse()
            .unwrap();
        assert_eq!(addresses.to_string(), "a:5050,b:5051,[::1]:7");
        assert!(addresses.are_several());
        assert_eq!(addresses.first(), &"a:5050".parse::<HostPort>().unwrap());
        let one: HostPorts = "a:5050".parse().unwrap();
        assert!(!one.are_several());
    }

    #[test]
    fn mistakes_in_a_list_are_named() {
        let refused = |text: &str| text.parse::<HostPorts>().unwrap_err();
        assert!(matches!(refused("a:5050,"), AddressError::NoPort { .. }));
        assert!(matches!(refused("a:5050,b"), AddressError::NoPort { .. }));
        let many: Vec<String> = (0..17).map(|port| format!("a:{port}")).collect();
        assert!(matches!(refused(&many.join(",")), AddressError::TooMany { .. }));
    }
}
