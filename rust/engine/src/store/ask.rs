//! Asking for values without waiting for them.

use std::sync::Arc;
use std::thread::Builder;

use super::{Object, Store, Want};
use crate::error::Result;
use crate::pool::Queued;

/// What [`super::Store::open`] gives.
pub type Opened = Result<Option<Box<dyn Object>>>;

/// Asks for values, as long as it wants them.
pub trait Asker: Send + Sync {
    /// Whether anybody looks at what it has asked for; if not, that need not be asked for (again).
    fn wants(&self) -> bool;
}

/// Is told, once, what was asked for: in any thread, also in one on which every other answer waits.
pub struct Told {
    asker: Arc<dyn Asker>,
    tell: Box<dyn FnOnce(Opened) + Send>,
}

impl Told {
    /// `tell` does neither wait nor work for long.
    pub fn new(asker: Arc<dyn Asker>, tell: impl FnOnce(Opened) + Send + 'static) -> Self {
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

    /// Tell what was opened.
    pub fn tell(self, opened: Opened) {
        (self.tell)(opened);
    }

    /// Stands for this one: does `then`, which tells this one.
    pub fn then(self, then: impl FnOnce(Told, Opened) + Send + 'static) -> Told {
        Told::new(self.asker.clone(), move |opened| then(self, opened))
    }
}

/// A store that is asked for many values by one thread, which waits for none of them.
pub trait Ask: Send + Sync {
    /// Asks for what [`super::Store::open`] gives. `told` may be told before this returns, and by
    /// whoever is told of another answer.
    fn ask(&self, key: &str, want: Want, told: Told);
}

/// Has a thread wait for what `store` opens.
pub(super) fn by_thread(store: Arc<dyn Store>, key: &str, want: Want, told: Told) {
    let key = key.to_owned();
    let opened = Queued::new(move |_| told.tell(store.open(&key, want)));
    let here = opened.clone();
    let thread = Builder::new().name("tessarr-value".to_owned());
    if thread.spawn(move || opened.help()).is_err() {
        here.help();
    }
}
