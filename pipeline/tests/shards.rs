//! WebDataset shards and images.
