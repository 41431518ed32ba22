//! PyO3 binding of the engine.
