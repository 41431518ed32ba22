//! Locks by key within a process, for stores without locks of their own.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use super::async_ops::on_thread;
use super::{fork, interruptible_wait};
use crate::error::{Error, Result};

/// A set of locked keys.
///
/// A key stays locked while its new value is computed, which may take long and may call Python or
/// use other keys of the store. Hence a set of keys instead of one mutex per key or stripe.
pub(super) struct KeyLocks(fork::Own<Arc<Table>>);

#[derive(Default)]
struct Table {
    keys: Mutex<Keys>,
    released: Condvar,
}

#[derive(Default)]
struct Keys {
    held: HashSet<Arc<str>>,
    /// The number of waiting threads: waking is a system call even if no thread waits.
    waiting: usize,
}

impl KeyLocks {
    pub(super) fn new() -> Self {
        KeyLocks(fork::Own::new())
    }

    /// The locks for `identity`, shared by all current users: two adapters of one object must
    /// exclude each other.
    pub(super) fn shared(identity: usize) -> Arc<Self> {
        static SHARED: Mutex<BTreeMap<usize, Weak<KeyLocks>>> = Mutex::new(BTreeMap::new());
        fork::register();
        let _gate = fork::gate();
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(locks) = shared.get(&identity).and_then(Weak::upgrade) {
            return locks;
        }
        shared.retain(|_, locks| locks.strong_count() > 0);
        let locks = Arc::new(KeyLocks::new());
        shared.insert(identity, Arc::downgrade(&locks));
        locks
    }

    /// Lock `key` while the guard lives; None: it is locked.
    pub(super) fn try_hold(&self, key: &str) -> Option<Held> {
        let table = self.0.get();
        let key: Arc<str> = key.into();
        let mut keys = table.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.held.insert(key.clone()).then(|| Held::new(table, key))
    }

    /// Call `on_locked` with the guard: here, or in a thread that waits for the lock while
    /// `is_active` returns true.
    pub(super) fn enter(
        self: &Arc<Self>,
        key: &str,
        wanted: impl Fn() -> bool + Send + 'static,
        enter: impl FnOnce(Result<Held>) + Send + 'static,
    ) {
        if let Some(held) = self.try_hold(key) {
            return enter(Ok(held));
        }
        let (locks, key) = (self.clone(), key.to_owned());
        on_thread(move || {
            if let Some(held) = locks.hold_while(&key, wanted).transpose() {
                enter(held);
            }
        });
    }

    /// Wait for the lock of `key`, and hold it while the guard lives.
    pub(super) fn hold(&self, key: &str) -> Result<Held> {
        let held = self.hold_while(key, || true)?;
        held.ok_or_else(|| Error::internal("a key was not held"))
    }

    /// Like `lock`, while `is_active` returns true; None: it returned false.
    fn hold_while(&self, key: &str, wanted: impl Fn() -> bool) -> Result<Option<Held>> {
        let table = self.0.get();
        let name: Arc<str> = key.into();
        loop {
            let mut keys = table.keys.lock().unwrap_or_else(PoisonError::into_inner);
            if keys.held.insert(name.clone()) {
                return Ok(Some(Held::new(table, name)).filter(|_| wanted()));
            }
            keys.waiting += 1;
            let held = |keys: &mut Keys| keys.held.contains(key);
            let waited = table.released.wait_timeout_while(keys, interruptible_wait::ASK_EVERY, held);
            let (mut keys, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            keys.waiting -= 1;
            drop(keys);
            if timeout.timed_out() {
                interruptible_wait::ask()?;
                if !wanted() {
                    return Ok(None);
                }
            }
        }
    }
}

impl std::fmt::Debug for KeyLocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyLocks")
    }
}

/// The guard of one locked key.
pub(super) struct Held {
    table: Arc<Table>,
    key: Arc<str>,
    generation: u64,
}

impl Held {
    fn new(table: &Arc<Table>, key: Arc<str>) -> Self {
        Held { table: table.clone(), key, generation: fork::generation() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A forked child leaves inherited locks alone: they belong to threads of its parent.
        if self.generation == fork::generation() {
            let mut keys = self.table.keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.held.remove(&self.key);
            if keys.waiting > 0 {
                self.table.released.notify_all();
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn locks_of_one_thing_are_shared_while_somebody_has_them() {
        let first = KeyLocks::shared(0x5eed);
        assert!(Arc::ptr_eq(&first, &KeyLocks::shared(0x5eed)));
        assert!(!Arc::ptr_eq(&first, &KeyLocks::shared(0x5eee)));
    }

    #[test]
    fn one_key_excludes_itself_and_no_other() {
        let locks = KeyLocks::new();
        let first = locks.hold("a").unwrap();
        drop(locks.hold("b").unwrap());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(locks.hold("a").unwrap()));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            drop(first);
            waiter.join().unwrap();
        });
    }
}
