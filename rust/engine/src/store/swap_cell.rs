//! Something that may be replaced while others use it.

use std::sync::{Arc, Mutex, PoisonError};

use super::fork;

/// Holds one thing, or none. A forked child finds it as it was.
pub struct Slot<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        fork::register();
        Slot(Mutex::default())
    }
}

impl<T> Slot<T> {
    /// What it holds.
    pub fn get(&self) -> Option<Arc<T>> {
        let _gate = fork::gate();
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// Hold something else.
    pub fn set(&self, new: Option<Arc<T>>) {
        let before = {
            let _gate = fork::gate();
            let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *held, new)
        };
        drop(before); // which may do anything
    }
}
