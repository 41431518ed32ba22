//! The codec `shuffle`: <https://numcodecs.readthedocs.io/en/stable/filter/shuffle.html>.
//!
//! The encoding is the first byte of every item, then the second byte of every item, and so on.

use super::blosc::shuffle::{Kernel, Planes};
use super::{extend_zeroed, BytesCodec, Config, Context};
use crate::error::{Error, Result};

/// The byte shuffle as a separate codec.
#[derive(Debug, Clone, Copy)]
struct Shuffle {
    item_bytes: usize,
}

pub(super) fn compile(config: &Config) -> Result<std::sync::Arc<dyn BytesCodec>> {
    let item_bytes = config.integer("item_bytes")?;
    match usize::try_from(item_bytes) {
        Ok(item_bytes @ 1..) => Ok(std::sync::Arc::new(Shuffle { item_bytes })),
        _ => Err(config.wrong(format!("item_bytes {item_bytes} is not positive"))),
    }
}

impl Shuffle {
    fn check(self, bytes: usize) -> Result<()> {
        if bytes % self.item_bytes == 0 {
            return Ok(());
        }
        Err(Error::size(format!("{bytes} bytes are not whole items of {}", self.item_bytes)))
    }
}

impl BytesCodec for Shuffle {
    fn name(&self) -> &str {
        "shuffle"
    }

    fn fixed_size(&self, decoded: usize) -> Option<usize> {
        Some(decoded)
    }

    fn decode_into(&self, input: &[u8], out: &mut [u8], _context: &mut Context) -> Result<()> {
        super::check_size(input.len(), out.len())?;
        self.check(input.len())?;
        Kernel::detect().unshuffle(self.item_bytes, Planes::Contiguous(input), out);
        Ok(())
    }

    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, context: &mut Context) -> Result<()> {
        super::check_limit(input.len(), limit)?;
        out.clear();
        self.decode_into(input, extend_zeroed(out, input.len())?, context)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, _context: &mut Context) -> Result<()> {
        self.check(input.len())?;
        Kernel::detect().shuffle(self.item_bytes, input, extend_zeroed(out, input.len())?);
        Ok(())
    }
}
