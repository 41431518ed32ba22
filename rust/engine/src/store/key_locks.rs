//! Locks by key within a process, for stores without locks.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use super::async_ops::spawn_or_run;
use super::{fork, interruptible_wait};
use crate::error::{Error, Result};

/// A set of locked keys.
///
/// A key stays locked while its new value is computed, which may take long and may call Python or
/// use other keys of the store. Hence a set of keys instead of one mutex per key or stripe.
pub(super) struct KeyLocks(fork::PerProcess<Arc<Table>>);

#[derive(Default)]
struct Table {
    keys: Mutex<LockedKeys>,
    released: Condvar,
}

#[derive(Default)]
struct LockedKeys {
    locked: HashSet<Arc<str>>,
    /// The number of waiting threads: waking is a system call even if no thread waits.
    waiting: usize,
}

impl KeyLocks {
    pub(super) fn new() -> Self {
        KeyLocks(fork::PerProcess::new())
    }

    /// Return the locks for `identity`, shared by all current users: two adapters of one object
    /// must exclude each other.
    pub(super) fn for_identity(identity: usize) -> Arc<Self> {
        static SHARED: Mutex<BTreeMap<usize, Weak<KeyLocks>>> = Mutex::new(BTreeMap::new());
        fork::register();
        let _gate = fork::gate();
        let mut by_identity = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(locks) = by_identity.get(&identity).and_then(Weak::upgrade) {
            return locks;
        }
        by_identity.retain(|_, locks| locks.strong_count() > 0);
        let locks = Arc::new(KeyLocks::new());
        by_identity.insert(identity, Arc::downgrade(&locks));
        locks
    }

    /// Lock `key` while the guard lives; None: it is locked.
    pub(super) fn try_lock(&self, key: &str) -> Option<KeyGuard> {
        let table = self.0.get();
        let key: Arc<str> = key.into();
        let mut keys = table.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.locked.insert(key.clone()).then(|| KeyGuard::new(table, key))
    }

    /// Call `on_locked` with the guard: here, or in a thread that waits for the lock while
    /// `is_active` returns true.
    pub(super) fn lock_async(
        self: &Arc<Self>,
        key: &str,
        is_active: impl Fn() -> bool + Send + 'static,
        on_locked: impl FnOnce(Result<KeyGuard>) + Send + 'static,
    ) {
        if let Some(locked) = self.try_lock(key) {
            return on_locked(Ok(locked));
        }
        let (locks, key) = (self.clone(), key.to_owned());
        spawn_or_run(move || {
            if let Some(locked) = locks.lock_while(&key, is_active).transpose() {
                on_locked(locked);
            }
        });
    }

    /// Wait for the lock of `key`, and hold it while the guard lives.
    pub(super) fn lock(&self, key: &str) -> Result<KeyGuard> {
        let locked = self.lock_while(key, || true)?;
        locked.ok_or_else(|| Error::internal("a key was not locked"))
    }

    /// Like `lock`, while `is_active` returns true; None: it returned false.
    fn lock_while(&self, key: &str, is_active: impl Fn() -> bool) -> Result<Option<KeyGuard>> {
        let table = self.0.get();
        let name: Arc<str> = key.into();
        loop {
            let mut keys = table.keys.lock().unwrap_or_else(PoisonError::into_inner);
            if keys.locked.insert(name.clone()) {
                drop(keys); // an inactive caller releases the lock at once
                return Ok(Some(KeyGuard::new(table, name)).filter(|_| is_active()));
            }
            keys.waiting += 1;
            let locked = |keys: &mut LockedKeys| keys.locked.contains(key);
            let result = table.released.wait_timeout_while(keys, interruptible_wait::CHECK_INTERVAL, locked);
            let (mut keys, timeout) = result.unwrap_or_else(PoisonError::into_inner);
            keys.waiting -= 1;
            drop(keys);
            if timeout.timed_out() {
                interruptible_wait::check_interrupt()?;
                if !is_active() {
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
pub(super) struct KeyGuard {
    table: Arc<Table>,
    key: Arc<str>,
    generation: u64,
}

impl KeyGuard {
    fn new(table: &Arc<Table>, key: Arc<str>) -> Self {
        KeyGuard { table: table.clone(), key, generation: fork::generation() }
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        // A forked child leaves inherited locks alone: they belong to threads of its parent.
        if self.generation == fork::generation() {
            let mut keys = self.table.keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.locked.remove(&self.key);
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
    fn locks_of_one_identity_are_shared_while_in_use() {
        let first = KeyLocks::for_identity(0x5eed);
        assert!(Arc::ptr_eq(&first, &KeyLocks::for_identity(0x5eed)));
        assert!(!Arc::ptr_eq(&first, &KeyLocks::for_identity(0x5eee)));
    }

    #[test]
    fn inactive_caller_leaves_the_key_unlocked() {
        let locks = KeyLocks::new();
        assert!(locks.lock_while("a", || false).unwrap().is_none());
        assert!(locks.try_lock("a").is_some());
    }

    #[test]
    fn lock_excludes_the_same_key_only() {
        let locks = KeyLocks::new();
        let first = locks.lock("a").unwrap();
        drop(locks.lock("b").unwrap());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(locks.lock("a").unwrap()));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            drop(first);
            waiter.join().unwrap();
        });
    }
}
