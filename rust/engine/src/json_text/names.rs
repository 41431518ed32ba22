//! Escapes of names.

/// Return a name without escapes; an invalid escape stays.
pub(super) fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&kind, after)) = rest.split_first() else { break };
        rest = after;
        match kind {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let Some(unit) = hex_unit(rest) else { continue };
                rest = &rest[4..];
                let low = rest.strip_prefix(b"\\u").and_then(hex_unit);
                match low {
                    Some(low) if (0xd800..0xdc00).contains(&unit) && (0xdc00..0xe000).contains(&low) => {
                        rest = &rest[6..];
                        push_code_point(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00), &mut out);
                    }
                    _ => push_code_point(unit, &mut out),
                }
            }
            other => out.push(other),
        }
    }
    out
}

/// Return the number of four hexadecimal digits.
#[must_use]
pub fn hex_unit(text: &[u8]) -> Option<u32> {
    text.get(..4)?.iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
}

/// Append a code point as UTF-8, and a surrogate as in WTF-8.
pub fn push_code_point(code: u32, out: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend([0xe0 | (code >> 12), 0x80 | (code >> 6 & 0x3f), 0x80 | (code & 0x3f)].map(
            |byte| byte as u8, // a surrogate: below 0x10000
        )),
    }
}

/// Append a name as an ASCII string, like `json.dumps`.
pub(super) fn escape(name: &[u8], out: &mut Vec<u8>) {
    use std::io::Write;
    out.push(b'"');
    for char in String::from_utf8_lossy(name).chars() {
        match char {
            '"' | '\\' => out.extend([b'\\', char as u8]),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            ' '..='~' => out.push(char as u8),
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}"); // writing to a vector does not fail
                }
            }
        }
    }
    out.push(b'"');
}
