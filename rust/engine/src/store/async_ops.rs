//! Asking for values, and giving values, without waiting for each.

use std::sync::Arc;
use std::thread::Builder;

use super::{aside, Object, Version, Want};
use crate::error::Result;
use crate::pool::Queued;

/// What [`super::Store::open`] gives.
pub type Opened = Result<Option<Box<dyn Object>>>;

/// Asks for something, as long as it wants that.
pub trait Asker: Send + Sync {
    /// Whether anybody looks at what it has asked for; if not, that need not be asked for (again).
    fn wants(&self) -> bool;
}

/// Is told, once, what became of what was asked for: in any thread, also in one on which every other answer waits.
pub struct Told<T = Option<Box<dyn Object>>> {
    asker: Arc<dyn Asker>,
    tell: Box<dyn FnOnce(Result<T>) + Send>,
}

impl<T: 'static> Told<T> {
    /// `tell` does neither wait nor work for long.
    pub fn new(asker: Arc<dyn Asker>, tell: impl FnOnce(Result<T>) + Send + 'static) -> Self {
        Told { asker, tell: Box::new(tell) }
    }

    /// Whether it is still of use to anybody.
    pub fn is_wanted(&self) -> bool {
        self.asker.wants()
    }

    /// Tells that later, also when it has been told.
    pub fn wanted(&self) -> impl Fn() -> bool + Send + 'static {
        let asker = self.asker.clone();
        move || asker.wants()
    }

    /// Tell what became of it.
    pub fn tell(self, done: Result<T>) {
        (self.tell)(done);
    }

    /// Stands for this one: does `then`, which tells this one.
    pub fn then(self, then: impl FnOnce(Told<T>, Result<T>) + Send + 'static) -> Told<T> {
        Told::new(self.asker.clone(), move |done| then(self, done))
    }
}

/// A store that is asked for many values by one thread, which waits for none of them.
pub trait Ask: Send + Sync {
    /// Asks for what [`super::Store::open`] gives. `told` may be told before this returns, and by
    /// whoever is told of another answer.
    fn ask(&self, key: &str, want: Want, told: Told);
}

/// A store that is given many values by one thread, which waits for none of them.
pub trait Put: Send + Sync {
    /// Replaces the value of a key, whatever it is. Tells the version of the new one, where that is known, as
    /// [`Ask::ask`] does. What has begun is done, also when nobody wants it any more.
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, told: Told<Option<Version>>);
}

/// Has a thread do what waits for a store, if that is wanted, and tell what becomes of it.
pub fn by_thread<T: 'static>(told: Told<T>, work: impl FnOnce() -> Result<T> + Send + 'static) {
    on_thread(move || {
        if told.is_wanted() {
            told.tell(work());
        }
    });
}

/// Does something on a thread of its own; here, where none can be made.
pub(super) fn on_thread(work: impl FnOnce() + Send + 'static) {
    let queued = Queued::new(move |_| work());
    let here = queued.clone();
    let thread = Builder::new().name("tessarr-value".to_owned());
    if thread.spawn(move || queued.help()).is_err() {
        aside(|| here.help());
    }
}
