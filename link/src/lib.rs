//! How two processes meet: identity, TLS, sockets, lanes.
