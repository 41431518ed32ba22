//! Warnings of the engine, which the binding shows to the user.

use std::sync::OnceLock;

use crate::error::Result;

static SHOW: OnceLock<fn(&str) -> Result<()>> = OnceLock::new();

/// Set the function that shows warnings. Only the first call has an effect.
pub fn show_by(show: fn(&str) -> Result<()>) {
    let _ = SHOW.set(show);
}

/// Show a warning; an error if the user turns warnings into errors.
pub(crate) fn warn(message: &str) -> Result<()> {
    SHOW.get().map_or(Ok(()), |show| show(message))
}
