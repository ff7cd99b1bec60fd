//! Who does what: datasets, jobs, iterations, tasks, splits, leases, and the dispatcher.
