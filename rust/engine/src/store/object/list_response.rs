//! Responses to list requests: keys that `object_store` refuses would fail the whole listing.

/// Return whether a key is one of a store. Others are folder markers, which end in "/", and those of
/// other programs.
pub(super) fn is_valid_key(key: &str) -> bool {
    let is_valid = |segment: &str| {
        !matches!(segment, "" | "." | "..") && !segment.contains(|c: char| c.is_ascii_control())
    };
    key.split('/').all(is_valid)
}

/// The elements of objects and of common prefixes, and of their names: of S3 and GCS, and of Azure.
const ELEMENTS: [(&str, &str); 4] =
    [("Contents", "Key"), ("CommonPrefixes", "Prefix"), ("Blob", "Name"), ("BlobPrefix", "Name")];

/// Remove objects and common prefixes without a valid key. None: all are valid.
pub(super) fn without_invalid_keys(xml: &str) -> Option<String> {
    let mut removed = Vec::new();
    for (element, name) in ELEMENTS {
        let (start, end) = (format!("<{element}>"), format!("</{element}>"));
        for (first, _) in xml.match_indices(&start) {
            let Some(size) = xml[first..].find(&end) else { break };
            let item = &xml[first..first + size];
            let key = super::connector::element(item, name).unwrap_or_default();
            let key = if element.ends_with("Prefixes") || element.ends_with("Prefix") {
                key.strip_suffix('/').unwrap_or(&key)
            } else {
                &key
            };
            if !is_valid_key(&unescaped(key)) {
                removed.push(first..first + size + end.len());
            }
        }
    }
    if removed.is_empty() {
        return None;
    }
    removed.sort_unstable_by_key(|range| range.start);
    let mut kept = String::with_capacity(xml.len());
    let mut position = 0;
    for range in removed {
        kept.push_str(&xml[position..range.start]);
        position = range.end;
    }
    kept.push_str(&xml[position..]);
    Some(kept)
}

/// Replace the references to control characters and slashes, the characters that matter here.
fn unescaped(key: &str) -> String {
    if !key.contains("&#") {
        return key.to_owned();
    }
    let mut parts = key.split("&#");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(';').unwrap_or((part, ""));
        let code = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        };
        text.extend(code.ok().and_then(char::from_u32));
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_keys_are_removed() {
        let object = |key: &str| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
        let folder = |key: &str| format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>");
        let xml = ["a/b", "a/", "a//b", "/a", "a/../b", "a&#xD;", "a&amp;b"].map(object).concat();
        let xml = format!("<List>{xml}{}{}</List>", folder("a/"), folder("a//"));
        let expected = format!("<List>{}{}{}</List>", object("a/b"), object("a&amp;b"), folder("a/"));
        assert_eq!(without_invalid_keys(&xml), Some(expected.clone()));
        assert_eq!(without_invalid_keys(&expected), None);
    }

    #[test]
    fn invalid_blobs_are_removed() {
        let xml = "<Blobs><Blob><Name>a//b</Name></Blob><Blob><Name>b</Name></Blob></Blobs>";
        let expected = "<Blobs><Blob><Name>b</Name></Blob></Blobs>";
        assert_eq!(without_invalid_keys(xml).as_deref(), Some(expected));
    }
}
