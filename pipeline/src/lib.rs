//! What is computed: the graph of a dataset and its executor.
