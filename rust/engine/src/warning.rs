//! Warnings of the engine, which its binding shows to the user.

use std::sync::OnceLock;

use crate::error::Result;

static SHOW: OnceLock<fn(&str) -> Result<()>> = OnceLock::new();

/// Sets what shows warnings. The first call counts.
pub fn show_by(show: fn(&str) -> Result<()>) {
    let _ = SHOW.set(show);
}

/// Shows a warning; an error if the user wants warnings to be errors.
pub(crate) fn warn(message: &str) -> Result<()> {
    SHOW.get().map_or(Ok(()), |show| show(message))
}
