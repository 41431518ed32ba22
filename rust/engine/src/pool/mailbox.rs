//! A mailbox: threads add items, and one takes all of them.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::{clear_pools_in_children, GENERATION};
use crate::store::fork;

/// Items in a mailbox. In a forked child the mailbox is empty.
pub struct Mailbox<T>(Mutex<(u32, Vec<T>)>);

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        fork::register();
        clear_pools_in_children();
        Mailbox(Mutex::new((GENERATION.load(Ordering::Relaxed), Vec::new())))
    }
}

impl<T> Mailbox<T> {
    /// Add an item; true if it is the first one.
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
            // They are the parent's items; dropping them would run their destructors in the child.
            std::mem::forget(std::mem::take(&mut guard.1));
            guard.0 = now;
        }
        work(&mut guard.1)
    }
}
