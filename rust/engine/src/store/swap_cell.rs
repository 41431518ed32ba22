//! A shared value that can be replaced while others use it.

use std::sync::{Arc, Mutex, PoisonError};

use super::fork;

/// Holds one shared value, or none. A forked child inherits the value.
pub struct SwapCell<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for SwapCell<T> {
    fn default() -> Self {
        fork::register();
        SwapCell(Mutex::default())
    }
}

impl<T> SwapCell<T> {
    /// Return the current value.
    pub fn get(&self) -> Option<Arc<T>> {
        let _gate = fork::gate();
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        guard.clone()
    }

    /// Replace the value.
    pub fn set(&self, new: Option<Arc<T>>) {
        let old = {
            let _gate = fork::gate();
            let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *guard, new)
        };
        drop(old); // dropping it may run any code
    }
}
