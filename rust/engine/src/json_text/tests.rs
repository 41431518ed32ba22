use super::*;

fn edit(text: &str, path: &[&str], level: usize, order: Order, members: &[(&str, Option<&str>)]) -> String {
    let path: Vec<_> = path.iter().map(|name| name.as_bytes()).collect();
    let chain = ObjectChain::find(text.as_bytes(), &path).unwrap_or(ObjectChain(Vec::new()));
    let members = members
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.map(|value| value.as_bytes().to_vec())))
        .collect();
    let out = chain.edit(text.as_bytes(), &[ObjectEdit { level, order, members }], 2);
    String::from_utf8_lossy(&out).into_owned()
}

const TEXT: &str = "{\n  \"a\": 1,\n  \"b\": {\n    \"x\": [\"}\", {\"x\": 0}],\n    \"z\": null\n  },\n  \"c\": \"\\\"}\"\n}\n";

#[test]
fn edits_without_members_return_the_document() {
    for path in [&[][..], &["b"], &["b", "x"], &["nope"], &["a", "b"]] {
        for level in 0..3 {
            assert_eq!(edit(TEXT, path, level, Order::Path, &[]), TEXT);
        }
    }
}

#[test]
fn members_are_replaced_added_and_removed() {
    let changed = edit(TEXT, &["b"], 1, Order::Path, &[("x", Some("2")), ("y", Some("3")), ("q", None)]);
    assert_eq!(changed, TEXT.replace("[\"}\", {\"x\": 0}]", "2,\n    \"y\": 3"));
    assert_eq!(
        edit(&changed, &["b"], 1, Order::Path, &[("y", None), ("x", Some("[\"}\", {\"x\": 0}]"))]),
        TEXT
    );
}

#[test]
fn all_members_are_removed_and_added() {
    let empty = edit(TEXT, &["b"], 1, Order::Name, &[("x", None), ("z", None)]);
    assert!(empty.contains("\"b\": {},"));
    let filled =
        edit(&empty, &["b"], 1, Order::Name, &[("z", Some("null")), ("x", Some("[\"}\", {\"x\": 0}]"))]);
    assert_eq!(filled, TEXT);
}

#[test]
fn first_and_last_members_are_removed() {
    assert_eq!(edit("{\"a\":1,\"b\":2,\"c\":3}", &[], 0, Order::Name, &[("a", None)]), "{\"b\":2,\"c\":3}");
    assert_eq!(edit("{\"a\":1,\"b\":2,\"c\":3}", &[], 0, Order::Name, &[("c", None)]), "{\"a\":1,\"b\":2}");
    assert_eq!(edit("{ \"b\": 2 }", &[], 0, Order::Name, &[("a", Some("1"))]), "{ \"a\": 1, \"b\": 2 }");
}

#[test]
fn order_determines_the_position() {
    let text = "{\"a\":1,\"a/b\":2,\"a.c\":3}";
    assert_eq!(
        edit(text, &[], 0, Order::Path, &[("a/c", Some("0"))]),
        "{\"a\":1,\"a/b\":2,\"a/c\": 0,\"a.c\":3}"
    );
    assert_eq!(
        edit("{\"b\":1}", &[], 0, Order::Last, &[("c", Some("0")), ("a", Some("0"))]),
        "{\"b\":1,\"c\": 0,\"a\": 0}"
    );
    assert_eq!(edit("{\"b\":1}", &[], 0, Order::Name, &[("a", Some("0"))]), "{\"a\": 0,\"b\":1}");
}

#[test]
fn names_with_escapes_match() {
    let text = "{\"\\u00e9\\ud83d\\ude00\\n\":1,\"é\":2}";
    let changed = edit(text, &[], 0, Order::Name, &[("é😀\n", Some("0"))]);
    assert_eq!(changed, "{\"\\u00e9\\ud83d\\ude00\\n\":0,\"é\":2}");
    assert_eq!(
        edit("{}", &[], 0, Order::Last, &[("é😀\n\"", Some("0"))]),
        "{\n  \"\\u00e9\\ud83d\\ude00\\n\\\"\": 0\n}"
    );
}

#[test]
fn values_and_names_are_read() {
    let chain = ObjectChain::find(TEXT.as_bytes(), &[b"b"]).unwrap_or(ObjectChain(Vec::new()));
    assert_eq!(chain.levels(), 2);
    assert_eq!(chain.value(TEXT.as_bytes(), 1, b"z"), Some(&b"null"[..]));
    assert_eq!(chain.value(TEXT.as_bytes(), 1, b"a"), None);
    assert_eq!(chain.names(TEXT.as_bytes(), 1, b""), [&b"x"[..], b"z"]);
    assert_eq!(chain.names(TEXT.as_bytes(), 0, b"c"), [&b"c"[..]]);
}

#[test]
fn documents_without_end_are_malformed() {
    for text in
        ["{", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":[1", "{\"a\":[\"", "{,}", "{\"a\":1", "{\"b\":1,\"b\":2}"]
    {
        assert!(ObjectChain::find(text.as_bytes(), &[b"b"]).is_err(), "{text}");
    }
    for text in ["", "[]", "1", "null"] {
        assert_eq!(ObjectChain::find(text.as_bytes(), &[]).map(|chain| chain.levels()), Ok(0));
    }
}
