//! Links over real loopback sockets.
