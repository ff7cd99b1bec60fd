//! Millstream: the composition of the planes into a service.
