//! What moves: dtypes, specs, structures, slots, packs and archived headers.
