//! Additional request headers (`--header`). Their values may be secrets, so no message quotes them.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers that define a request; another value would make it another request.
const OURS: [HeaderName; 14] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::RANGE,
    header::ACCEPT_ENCODING,
    HeaderName::from_static("destination"),
    HeaderName::from_static("depth"),
];

/// Headers written as `Name: value`.
pub(crate) fn headers<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<HeaderMap, String> {
    let pairs = lines
        .into_iter()
        .map(|line| line.split_once(':').ok_or_else(|| "--header: no `:`; write it as 'Name: value'".to_owned()));
    let mut headers = HeaderMap::new();
    for pair in pairs {
        let (name, value) = pair?;
        add(&mut headers, name, value)?;
    }
    Ok(headers)
}

/// Adds a header.
pub(crate) fn add(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let name: HeaderName = name.trim().parse().map_err(|_| "--header: invalid header name".to_owned())?;
    let is_condition = name.as_str().starts_with("if-") || name == "if" || name == "overwrite" || name == "lock-token";
    if OURS.contains(&name) || is_condition {
        return Err(format!("--header {name}: haul sets this header itself"));
    }
    let mut value =
        HeaderValue::from_str(value.trim()).map_err(|_| format!("--header {name}: invalid character in the value"))?;
    value.set_sensitive(true);
    headers.append(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_has_name_and_value_and_errors_omit_the_value() {
        let made = headers(["X-Key: hunter2", "Cookie:a=b; c=d"]).unwrap();
        assert_eq!((&made["x-key"], &made["cookie"]), (&"hunter2".parse().unwrap(), &"a=b; c=d".parse().unwrap()));
        assert!(!format!("{made:?}").contains("hunter2"));
        for line in
            ["hunter2", "a b: hunter2", "X: hunter2\nY: z", "Host: hunter2", "If-Match: hunter2", "Range: hunter2"]
        {
            let why = headers([line]).unwrap_err();
            assert!(!why.contains("hunter2") && why.starts_with("--header"), "{line}: {why}");
        }
    }
}
