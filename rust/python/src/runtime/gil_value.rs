//! `GilValue`: a Python object that a thread without the GIL may drop.

/// A Python object that is dropped with the GIL held. PyO3 queues an object that a thread without
/// the GIL drops, behind a mutex, which a fork at that moment copies locked.
pub(crate) struct GilValue<T>(Option<T>);

impl<T> GilValue<T> {
    pub(crate) fn new(value: T) -> Self {
        GilValue(Some(value))
    }

    /// Return the value, which exists as long as this object lives.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T> Drop for GilValue<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        // None: Python shuts down and frees the value with its own memory.
        let _ = crate::runtime::atexit::attached(|_| drop(value));
    }
}
