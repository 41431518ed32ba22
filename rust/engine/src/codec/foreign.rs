//! Codecs written elsewhere (in Python, by way of the binding), behind the engine's own trait.
//!
//! A foreign codec gives its result as a borrowed slice to a closure, so that
//! it is copied once, straight to where it belongs; sizes are checked first.

use std::fmt;
use std::sync::Arc;

use super::{BytesCodec, Context};
use crate::error::{Error, Kind, Result};
use crate::scratch::reserve;

/// Takes the bytes that a foreign codec made; called exactly once.
pub type Take<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// A codec from bytes to bytes that lives outside of the engine.
pub trait ForeignCodec: Send + Sync {
    /// The name in the metadata, for messages.
    fn name(&self) -> &str;

    /// Encode `input` and give the result to `take`, once; its error is passed on.
    fn encode(&self, input: &[u8], take: Take<'_>) -> Result<()>;

    /// Decode `input` and give the result to `take`, once; its error is passed on.
    /// More than `most` decoded bytes are refused; where the size is known, it is `most`.
    fn decode(&self, input: &[u8], most: usize, take: Take<'_>) -> Result<()>;
}

/// A [`ForeignCodec`] as a codec of the engine.
#[derive(Clone, Debug)]
pub struct Foreign(Arc<dyn ForeignCodec>);

impl Foreign {
    /// Wraps `codec`.
    pub fn new(codec: Arc<dyn ForeignCodec>) -> Self {
        Foreign(codec)
    }

    /// Runs `call` and sees that it gives exactly one result.
    fn once(
        &self,
        mut place: impl FnMut(&[u8]) -> Result<()>,
        call: impl FnOnce(Take<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut results = 0;
        call(&mut |bytes| {
            results += 1;
            place(bytes)
        })?;
        if results == 1 {
            return Ok(());
        }
        Err(Error::new(Kind::Internal, format!("codec '{}' gave {results} results, not one", self.name())))
    }
}

impl fmt::Debug for dyn ForeignCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name())
    }
}

impl BytesCodec for Foreign {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn is_native(&self) -> bool {
        false
    }

    /// A guess: a foreign codec may write more.
    fn bound(&self, decoded: usize) -> usize {
        decoded.saturating_add(decoded / 4).saturating_add(1024)
    }

    fn decode_into(&self, input: &[u8], out: &mut [u8], _context: &mut Context) -> Result<()> {
        let most = out.len();
        self.once(
            |bytes| {
                super::check_size(bytes.len(), out.len())?;
                out.copy_from_slice(bytes);
                Ok(())
            },
            |take| self.0.decode(input, most, take),
        )
    }

    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, _context: &mut Context) -> Result<()> {
        out.clear();
        self.once(
            |bytes| {
                super::check_limit(bytes.len(), limit)?;
                reserve(out, bytes.len())?;
                out.extend_from_slice(bytes);
                Ok(())
            },
            |take| self.0.decode(input, limit, take),
        )
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, _context: &mut Context) -> Result<()> {
        self.once(
            |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            },
            |take| self.0.encode(input, take),
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Reverses the bytes; decoding gives its result `results` times.
    struct Reverse {
        results: usize,
    }

    impl ForeignCodec for Reverse {
        fn name(&self) -> &str {
            "reverse"
        }

        fn encode(&self, input: &[u8], take: Take<'_>) -> Result<()> {
            take(&input.iter().rev().copied().collect::<Vec<_>>())
        }

        fn decode(&self, input: &[u8], _most: usize, take: Take<'_>) -> Result<()> {
            (0..self.results).try_for_each(|_| self.encode(input, take))
        }
    }

    #[test]
    fn results_are_placed_and_their_sizes_checked() {
        let codec = Foreign::new(Arc::new(Reverse { results: 1 }));
        let context = &mut Context::default();
        let mut out = b"old".to_vec();
        codec.encode(b"abc", &mut out, context).unwrap();
        assert_eq!(out, b"oldcba");
        codec.decode(b"cba", &mut out, 3, context).unwrap();
        assert_eq!(out, b"abc");
        assert!(codec.decode(b"cba", &mut out, 2, context).unwrap_err().message.contains("limit of 2"));
        let mut exact = [0; 3];
        codec.decode_into(b"cba", &mut exact, context).unwrap();
        assert_eq!(&exact, b"abc");
        let error = codec.decode_into(b"cb", &mut exact, context).unwrap_err();
        assert_eq!((error.kind, &*error.message), (Kind::Data, "decodes to 2 bytes, expected 3"));
    }

    #[test]
    fn no_result_is_an_internal_error() {
        let codec = Foreign::new(Arc::new(Reverse { results: 0 }));
        let error = codec.decode_into(b"", &mut [], &mut Context::default()).unwrap_err();
        assert_eq!(error.kind, Kind::Internal);
    }
}
