//! Protection of stores against `fork`.
//!
//! `fork` copies the memory of a process but only the calling thread: a lock of another thread
//! stays locked in the child forever, and its data stays half changed. Two mechanisms prevent
//! that:
//!
//! - [`gate`]: a thread that accesses shared memory for a short, bounded time (no I/O, no callback)
//!   passes the gate. `fork` waits until all threads have left it, so that the child inherits
//!   consistent, unlocked data.
//! - [`PerProcess`]: data that a thread may lock for a long time is created again in the child.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static GATE: RwLock<()> = RwLock::new(());
static GENERATION: AtomicU64 = AtomicU64::new(0);
static REGISTER: Once = Once::new();

thread_local! {
    static FORK_GUARD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Delay `fork` while the guard lives. Not for I/O or callbacks.
///
/// Bind locked data to a variable after the guard: a temporary in the last expression of a block
/// outlives the variables, and so this guard.
pub(crate) fn gate() -> RwLockReadGuard<'static, ()> {
    GATE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Return the number of forks between the first process and this one.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// A value of one process: a forked child gets a new one.
///
/// The copy that the child inherits is leaked: its locks may be locked forever.
pub(super) struct PerProcess<T>(AtomicPtr<ProcessValue<T>>);

/// The value, and the fork generation of its process.
pub(super) struct ProcessValue<T> {
    value: T,
    generation: u64,
}

impl<T> ProcessValue<T> {
    /// Return whether it belongs to this process and not to the parent.
    pub(super) fn is_own(&self) -> bool {
        self.generation == generation()
    }
}

impl<T> Deref for ProcessValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Default> PerProcess<T> {
    pub(super) fn new() -> Self {
        register();
        PerProcess(AtomicPtr::new(Self::new_value()))
    }

    fn new_value() -> *mut ProcessValue<T> {
        Box::into_raw(Box::new(ProcessValue { value: T::default(), generation: generation() }))
    }

    /// Return the value of this process.
    pub(super) fn get(&self) -> &ProcessValue<T> {
        let current = self.0.load(Ordering::Acquire);
        // SAFETY: the pointer comes from `Box::into_raw`; only `drop` frees it, which has the only
        // reference to `self`.
        let value = unsafe { &*current };
        if value.is_own() {
            return value;
        }
        let fresh = Self::new_value();
        match self.0.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as above.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: no other thread has seen `fresh`; `winner` as above.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*winner
                }
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let value = *self.0.get_mut();
        // SAFETY: from `Box::into_raw`, and `&mut self` excludes other borrows.
        unsafe {
            if (*value).is_own() {
                drop(Box::from_raw(value));
            }
        }
    }
}

/// Install the fork handlers once; call it before using the other functions.
pub(crate) fn register() {
    REGISTER.call_once(|| {
        // SAFETY: the handlers are static functions that lock only this module's data and never
        // unwind.
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    });
}

extern "C" fn before() {
    let guard = GATE.write().unwrap_or_else(PoisonError::into_inner);
    FORK_GUARD.with_borrow_mut(|slot| *slot = Some(guard));
}

extern "C" fn after_in_parent() {
    FORK_GUARD.with_borrow_mut(|slot| *slot = None);
}

extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    FORK_GUARD.with_borrow_mut(|slot| *slot = None);
}
