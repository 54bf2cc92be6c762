//! The request target as it may be shown: with its query, but without secrets.
//!
//! Two requests often differ only in their query, so a label without it names neither. But a query may hold a session, a
//! signature or a password, and explanations are attached to tickets. So the values of parameters with such names are
//! replaced, and so is the user information of an absolute URI (RFC 9110 §4.2.4 forbids it, but clients send it).

/// What stands in place of a secret.
const MASK: &str = "…";

/// Words in the names of parameters whose values are secret: `X-Amz-Signature`, `api_key`, `sessionToken`.
const SECRET_WORDS: [&str; 22] = [
    "auth",
    "authorization",
    "code",
    "credential",
    "jwt",
    "key",
    "otp",
    "pass",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "pin",
    "pwd",
    "sas",
    "secret",
    "session",
    "sid",
    "sig",
    "signature",
    "ticket",
    "token",
];

/// Ends of names in which words are not separated: `accesskey`, `PHPSESSID`, `authtoken`.
const SECRET_ENDS: [&str; 10] = [
    "apikey",
    "accesskey",
    "accesskeyid",
    "credentials",
    "password",
    "secret",
    "sessid",
    "sessionid",
    "signature",
    "token",
];

/// The request target without its fragment, and with secret values masked.
pub(super) fn masked(target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let (path, parameters) = target.split_at(target.find(['?', ';']).unwrap_or(target.len()));
    let mut shown = without_user(path);
    let mut rest = parameters;
    // Each parameter begins with its separator; those of a path segment with a semicolon (RFC 3986 §3.3).
    while let Some(separator) = rest.chars().next() {
        let end = rest[1..].find(['?', '&', ';']).map_or(rest.len(), |end| end + 1);
        let parameter = &rest[1..end];
        shown.push(separator);
        match parameter.split_once('=') {
            Some((name, value)) if !value.is_empty() && is_secret(name) => {
                shown.extend([name, "=", MASK]);
                // The rest of a path after a matrix parameter is no part of its value.
                shown.push_str(value.find('/').filter(|_| separator == ';').map_or("", |at| &value[at..]));
            }
            _ => shown.push_str(parameter),
        }
        rest = &rest[end..];
    }
    shown
}

/// An absolute URI without user and password.
fn without_user(path: &str) -> String {
    let Some((scheme, rest)) = path.split_once("://") else { return path.to_owned() };
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) if !scheme.contains('/') => format!("{scheme}://{MASK}{}", &rest[at..]),
        _ => path.to_owned(),
    }
}

/// Whether the value of a parameter with this name is a secret.
fn is_secret(name: &str) -> bool {
    let mut words = String::new();
    let mut after_lower = false;
    for letter in percent_decoded(name).chars() {
        if after_lower && letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { ' ' });
        after_lower = letter.is_ascii_lowercase();
    }
    let joined = words.replace(' ', "");
    words.split_whitespace().any(|word| SECRET_WORDS.contains(&word))
        || SECRET_ENDS.iter().any(|end| joined.ends_with(end))
}

/// A name without percent-encoding: `%74oken` is `token`.
fn percent_decoded(name: &str) -> String {
    let mut parts = name.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some(byte) = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            decoded.push(char::from(byte));
            decoded.push_str(&part[2..]);
        } else {
            decoded.push('%');
            decoded.push_str(part);
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn query_is_kept_when_it_has_no_secrets() {
        for target in ["/", "*", "/a?b=c&d", "/find?q=monkey&page=2&keyword=x", "/a;v=1.2/b?c", "/a?x=%zz%", "/a??b=1"]
        {
            assert_eq!(masked(target), target);
        }
        assert_eq!(masked("/a?b=c#top"), "/a?b=c");
    }

    #[test]
    fn values_of_secret_parameters_are_masked() {
        for (target, shown) in [
            ("/a?token=abc&page=2", "/a?token=…&page=2"),
            ("/a?page=2&ACCESS_TOKEN=abc", "/a?page=2&ACCESS_TOKEN=…"),
            ("/a?sig=a=b==", "/a?sig=…"),
            ("/a?signature=x;key=y", "/a?signature=…;key=…"),
            ("/a?password=&pass", "/a?password=&pass"),
            ("/a?auth=1&session=2&sessionToken=3&PHPSESSID=4", "/a?auth=…&session=…&sessionToken=…&PHPSESSID=…"),
            (
                "/o?X-Amz-Date=1&X-Amz-Signature=2&X-Amz-Credential=3%2F4&X-Amz-Security-Token=5",
                "/o?X-Amz-Date=1&X-Amz-Signature=…&X-Amz-Credential=…&X-Amz-Security-Token=…",
            ),
            ("/a?%74oken=abc&AWSAccessKeyId=x", "/a?%74oken=…&AWSAccessKeyId=…"),
            ("/a;jsessionid=12/b?c=d", "/a;jsessionid=…/b?c=d"),
            ("http://ann:pw@host/a?b=c", "http://…@host/a?b=c"),
        ] {
            assert_eq!(masked(target), shown);
        }
    }
}
