//! Keeps stores usable in a forked child.
//!
//! `fork` copies the memory of a process but only the forking thread: a lock
//! that another thread held stays locked in the child for ever, and what that
//! thread was changing stays half changed. Two means against that:
//!
//! * [`gate`]: whoever is about to change or read shared memory for a short,
//!   bounded time (no I/O, no callback) passes the gate; `fork` waits until
//!   nobody is inside, so that the child finds everything whole and unlocked.
//! * [`Own`]: what may be held for long (a key while its new value is made) is
//!   made anew in the child, where its holder does not exist.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static GATE: RwLock<()> = RwLock::new(());
static GENERATION: AtomicU64 = AtomicU64::new(0);
static REGISTER: Once = Once::new();

thread_local! {
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Keeps `fork` waiting while the guard lives. Not for I/O or callbacks. Bind what
/// is locked inside to a variable after it: a temporary in the last expression of a
/// block lives longer than the variables, so longer than this guard.
pub(crate) fn gate() -> RwLockReadGuard<'static, ()> {
    GATE.read().unwrap_or_else(PoisonError::into_inner)
}

/// How many forks lie between the first process and this one.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// A value of this process: a forked child finds another one, as it was in the beginning.
///
/// The copy that the child inherited is leaked: what it locks may be locked for ever.
pub(super) struct Own<T>(AtomicPtr<Made<T>>);

/// The value of a process.
pub(super) struct Made<T> {
    value: T,
    generation: u64,
}

impl<T> Made<T> {
    /// Whether it is that of this process, and not of the parent.
    pub(super) fn is_own(&self) -> bool {
        self.generation == generation()
    }
}

impl<T> Deref for Made<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Default> Own<T> {
    pub(super) fn new() -> Self {
        register();
        Own(AtomicPtr::new(Self::boxed()))
    }

    fn boxed() -> *mut Made<T> {
        Box::into_raw(Box::new(Made { value: T::default(), generation: generation() }))
    }

    /// The value of this process.
    pub(super) fn get(&self) -> &Made<T> {
        let found = self.0.load(Ordering::Acquire);
        // SAFETY: the pointer comes from `Box::into_raw` and is freed only by `drop`,
        // which has the only reference to `self`.
        let made = unsafe { &*found };
        if made.is_own() {
            return made;
        }
        let fresh = Self::boxed();
        match self.0.compare_exchange(found, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as above.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: nobody else has seen `fresh`; `winner` as above.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*winner
                }
            }
        }
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        let made = *self.0.get_mut();
        // SAFETY: from `Box::into_raw`, and `&mut self` means that nobody borrows it.
        unsafe {
            if (*made).is_own() {
                drop(Box::from_raw(made));
            }
        }
    }
}

/// Installs the handlers, once; call it before the first use of the others.
pub(crate) fn register() {
    REGISTER.call_once(|| {
        // SAFETY: the handlers are static functions that run between the locks
        // of this module and of nothing else; they never unwind.
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    });
}

extern "C" fn before() {
    let guard = GATE.write().unwrap_or_else(PoisonError::into_inner);
    HELD.with_borrow_mut(|held| *held = Some(guard));
}

extern "C" fn after_in_parent() {
    HELD.with_borrow_mut(|held| *held = None);
}

extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    HELD.with_borrow_mut(|held| *held = None);
}
