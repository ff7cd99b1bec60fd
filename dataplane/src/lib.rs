//! How elements move: credits, sessions, packs, transports, worker server.
