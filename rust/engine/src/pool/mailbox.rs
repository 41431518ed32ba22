//! What is collected until somebody takes all of it.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::{forget_pools_in_children, GENERATION};
use crate::store::fork;

/// Items that wait for somebody. A child made by `fork` finds none of those of its parent.
pub struct Pile<T>(Mutex<(u32, Vec<T>)>);

impl<T> Default for Pile<T> {
    fn default() -> Self {
        fork::register();
        forget_pools_in_children();
        Pile(Mutex::new((GENERATION.load(Ordering::Relaxed), Vec::new())))
    }
}

impl<T> Pile<T> {
    /// Add an item, and say whether it is the first one.
    pub fn add(&self, item: T) -> bool {
        self.with(|items| {
            items.push(item);
            items.len() == 1
        })
    }

    /// Take all items.
    pub fn take(&self) -> Vec<T> {
        self.with(std::mem::take)
    }

    fn with<R>(&self, work: impl FnOnce(&mut Vec<T>) -> R) -> R {
        let _gate = fork::gate();
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = GENERATION.load(Ordering::Relaxed);
        if guard.0 != now {
            // They are the parent's, and so is what they would do when they are dropped.
            std::mem::forget(std::mem::take(&mut guard.1));
            guard.0 = now;
        }
        work(&mut guard.1)
    }
}
