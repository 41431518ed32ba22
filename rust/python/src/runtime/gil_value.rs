//! Python's objects on threads that do not hold the GIL.

/// Something of Python's that is let go with the GIL held. PyO3 would queue what is
/// dropped without it behind a mutex, which a fork at that moment copies locked.
pub(crate) struct GilValue<T>(Option<T>);

impl<T> GilValue<T> {
    pub(crate) fn new(value: T) -> Self {
        GilValue(Some(value))
    }

    /// The value; None never, while this lives.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T> Drop for GilValue<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        // None: Python shuts down, and takes the value with it.
        let _ = crate::runtime::atexit::attached(|_| drop(value));
    }
}
