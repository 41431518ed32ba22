//! The checks of all fuzz targets of codecs.

use tessarr_engine::codec::{Config, Context};
use tessarr_engine::vlen::{self, HANDLE_BYTES};
use tessarr_engine::Kind;

/// The size limit of decoders of unknown size.
const LIMIT: usize = 1 << 20;

/// Decode `data` with every method; the first two bytes are the expected size.
///
/// # Panics
/// If the methods disagree, or an error for damage is not of the right kind.
pub fn decode(spec: Config, data: &[u8]) {
    let Some((size, input)) = data.split_first_chunk::<2>() else { return };
    let codec = spec.compile().expect("the targets' parameters are right");
    let context = &mut Context::default();
    let mut grown = Vec::new();
    let grew = codec.decode(input, &mut grown, LIMIT, context);
    assert!(grown.len() <= LIMIT);
    for size in [usize::from(u16::from_le_bytes(*size)), grown.len()] {
        let mut exact = vec![0; size];
        match codec.decode_into(input, &mut exact, context) {
            Ok(()) => assert!(grew.is_ok() && exact == grown),
            Err(error) => assert!(error.kind == Kind::Data && (grew.is_err() || size != grown.len())),
        }
        let (start, end) = (size / 3, size - size / 4);
        let mut part = vec![0; end - start];
        match codec.decode_part(input, size, start, &mut part, context) {
            Some(Ok(())) if grew.is_ok() => assert_eq!(part, grown[start..end]),
            Some(Err(error)) => assert_eq!(error.kind, Kind::Data),
            _ => {}
        }
    }
    if let Err(error) = grew {
        assert_eq!(error.kind, Kind::Data);
        return;
    }
    let mut again = Vec::new();
    codec.encode(&grown, &mut again, context).expect("what was decoded can be encoded");
    let mut back = vec![0; grown.len()];
    codec.decode_into(&again, &mut back, context).expect("what was encoded can be decoded");
    assert_eq!(back, grown);
}

/// Decode `data` as the layout of variable-length elements; the first byte is their number.
///
/// # Panics
/// If encoding the decoded elements has another result, or an error for damage is not of the right
/// kind.
pub fn layout(data: &[u8]) {
    let Some((&count, layout)) = data.split_first() else { return };
    let mut items = vec![0; usize::from(count) * HANDLE_BYTES];
    for kind in [(true, 1), (false, 1), (false, 4)] {
        let (is_text, unit_bytes) = kind;
        match vlen::decode(layout, &mut items, vlen::Kind { is_text, unit_bytes }) {
            Ok(()) => {
                let mut again = Vec::new();
                // SAFETY: the elements are in `layout`.
                unsafe { vlen::encode(&items, &mut again) }.expect("what was decoded can be encoded");
                assert_eq!(again, layout);
                // SAFETY: as above.
                let elements = vlen::handles(&items).map(|handle| unsafe { handle.bytes() });
                for element in elements {
                    assert!(!is_text || std::str::from_utf8(element).is_ok());
                    assert_eq!(element.len() % unit_bytes, 0);
                }
            }
            Err(error) => assert_eq!(error.kind, Kind::Data),
        }
    }
}
