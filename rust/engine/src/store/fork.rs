//! Keeps stores usable in a forked child.
//!
//! `fork` copies the memory of a process but only the forking thread: a lock
//! that another thread held stays locked in the child for ever, and what that
//! thread was changing stays half changed. Two means against that:
//!
//! * [`gate`]: whoever is about to change or read shared memory for a short,
//!   bounded time (no I/O, no callback) passes the gate; `fork` waits until
//!   nobody is inside, so that the child finds everything whole and unlocked.
//! * [`generation`]: counts the forks that led to this process. What may be held
//!   for long (a key while its new value is made) remembers the generation and
//!   is forgotten when it differs: in the child its holder does not exist.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
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
pub(super) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
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
