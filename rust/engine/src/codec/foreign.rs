//! Foreign codecs (written in Python, called through the binding) as engine codecs.
//!
//! A foreign codec passes its result as a borrowed slice to a closure. The closure checks the size
//! and copies the bytes once, straight to their destination.

use std::fmt;
use std::sync::Arc;

use super::{BytesCodec, Context};
use crate::error::Result;
use crate::scratch::reserve;

/// Receives the bytes that a foreign codec produces; called exactly once.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// A bytes-to-bytes codec outside the engine.
pub trait ForeignCodec: Send + Sync {
    /// Return the name in the metadata, for messages.
    fn name(&self) -> &str;

    /// Encode `input` and pass the result to `sink`, once; return an error of `sink`.
    fn encode(&self, input: &[u8], sink: Sink<'_>) -> Result<()>;

    /// Decode `input` and pass the result to `sink`, once; return an error of `sink`. The codec
    /// rejects more than `max` decoded bytes; a known decoded size equals `max`.
    fn decode(&self, input: &[u8], max: usize, sink: Sink<'_>) -> Result<()>;
}

/// A [`ForeignCodec`] as a codec of the engine.
#[derive(Clone, Debug)]
pub struct Foreign(Arc<dyn ForeignCodec>);

impl Foreign {
    /// Wrap `codec`.
    pub fn new(codec: Arc<dyn ForeignCodec>) -> Self {
        Foreign(codec)
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

    /// Return an estimate: a foreign codec may write more.
    fn bound(&self, decoded: usize) -> usize {
        decoded.saturating_add(decoded / 4).saturating_add(1024)
    }

    fn decode_into(&self, input: &[u8], out: &mut [u8], _context: &mut Context) -> Result<()> {
        self.0.decode(input, out.len(), &mut |bytes| {
            super::check_size(bytes.len(), out.len())?;
            out.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, _context: &mut Context) -> Result<()> {
        out.clear();
        self.0.decode(input, limit, &mut |bytes| {
            super::check_limit(bytes.len(), limit)?;
            reserve(out, bytes.len())?;
            out.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, _context: &mut Context) -> Result<()> {
        self.0.encode(input, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Kind;

    /// Reverses the bytes.
    struct Reverse;

    impl ForeignCodec for Reverse {
        fn name(&self) -> &str {
            "reverse"
        }

        fn encode(&self, input: &[u8], sink: Sink<'_>) -> Result<()> {
            sink(&input.iter().rev().copied().collect::<Vec<_>>())
        }

        fn decode(&self, input: &[u8], _most: usize, sink: Sink<'_>) -> Result<()> {
            self.encode(input, sink)
        }
    }

    #[test]
    fn results_are_copied_and_sizes_checked() {
        let codec = Foreign::new(Arc::new(Reverse));
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
}
