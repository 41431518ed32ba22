//! Codec configurations from metadata: a name and unchecked parameters.

use std::sync::Arc;

use super::{BytesCodec, CODECS};
use crate::error::{Error, Result};

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// true or false.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A name.
    Text(String),
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Boolean(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Integer(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_owned())
    }
}

/// The name of a codec of the engine, and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    name: String,
    values: Vec<(String, Value)>,
}

impl Config {
    /// Return the codec `name`, without parameters.
    pub fn new(name: impl Into<String>) -> Self {
        Config { name: name.into(), values: Vec::new() }
    }

    /// Return the same configuration with one more parameter.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.values.push((name.into(), value.into()));
        self
    }

    /// Return the name of the codec.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Return the compiled codec, or a `Kind::Argument` error that names the invalid parameter.
    pub fn compile(&self) -> Result<Arc<dyn BytesCodec>> {
        let known = CODECS.iter().find(|(name, _)| *name == self.name);
        let (_, compile) =
            known.ok_or_else(|| Error::argument(format!("the engine has no codec '{}'", self.name)))?;
        compile(self)
    }

    /// Return an integer parameter.
    pub fn integer(&self, name: &str) -> Result<i64> {
        match self.get(name)? {
            Value::Integer(value) => Ok(*value),
            other => Err(self.wrong(format!("{name} {other:?} is not an integer"))),
        }
    }

    /// Return a boolean parameter.
    pub fn boolean(&self, name: &str) -> Result<bool> {
        match self.get(name)? {
            Value::Boolean(value) => Ok(*value),
            other => Err(self.wrong(format!("{name} {other:?} is not true or false"))),
        }
    }

    /// Return a text parameter.
    pub fn text(&self, name: &str) -> Result<&str> {
        match self.get(name)? {
            Value::Text(value) => Ok(value),
            other => Err(self.wrong(format!("{name} {other:?} is not text"))),
        }
    }

    /// Return an error about a parameter.
    pub fn wrong(&self, why: impl std::fmt::Display) -> Error {
        Error::argument(format!("{}: {why}", self.name))
    }

    fn get(&self, name: &str) -> Result<&Value> {
        let entry = self.values.iter().find(|(known, _)| known == name);
        entry.map(|(_, value)| value).ok_or_else(|| self.wrong(format!("parameter '{name}' is missing")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn error_names_the_invalid_parameter() {
        for (config, why) in [
            (Config::new("nope"), "no codec 'nope'"),
            (Config::new("gzip"), "'level' is missing"),
            (Config::new("gzip").with("level", "1"), "is not an integer"),
            (Config::new("gzip").with("level", 12), "not within 0 to 9"),
            (Config::new("zstd").with("level", 1).with("checksum", 1), "is not true or false"),
            (Config::new("delta").with("dtype", 1), "is not text"),
        ] {
            let error = config.compile().unwrap_err();
            assert_eq!(error.kind, Kind::Argument);
            assert!(error.message.contains(why), "{error}");
        }
    }
}
