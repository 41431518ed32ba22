//! What one worker thread keeps between chunks.

/// Codec contexts and scratch of one thread; created empty, filled on first use.
#[derive(Default)]
pub struct Context {}
