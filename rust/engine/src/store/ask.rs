//! Asking for values without waiting for them.

use super::{Object, Want};
use crate::error::Result;

/// What [`super::Store::open`] gives.
pub type Opened = Result<Option<Box<dyn Object>>>;

/// Is told, once, what was asked for: in any thread, also in one on which every other answer waits.
pub type Told = Box<dyn FnOnce(Opened) + Send>;

/// A store that is asked for many values by one thread, which waits for none of them.
pub trait Ask: Send + Sync {
    /// Asks for what [`super::Store::open`] gives. `told` may be called before this returns, and by
    /// whoever is told of another answer, so that it neither waits nor works for long.
    fn ask(&self, key: &str, want: Want, told: Told);
}
