//! A shared value that can be replaced while others use it.

use std::sync::{Arc, Mutex, PoisonError};

use super::fork;

/// Holds one shared value, or none. A forked child inherits the value.
pub struct Slot<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        fork::register();
        Slot(Mutex::default())
    }
}

impl<T> Slot<T> {
    /// The current value.
    pub fn get(&self) -> Option<Arc<T>> {
        let _gate = fork::gate();
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// Replace the value.
    pub fn set(&self, new: Option<Arc<T>>) {
        let before = {
            let _gate = fork::gate();
            let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *held, new)
        };
        drop(before); // dropping it may run any code
    }
}
