//! `Content-Length`, as strict as RFC 9110 §8.6 allows.

use http::{HeaderMap, header::CONTENT_LENGTH};

/// The body's length in bytes, if the message has a `Content-Length`. Equal repetitions, in one field or in several,
/// count as one (RFC 9110 §8.6).
///
/// # Errors
/// Two different lengths, or one that is not a number. The text continues a sentence that begins with the message's
/// name.
pub fn content_length(headers: &HeaderMap) -> Result<Option<u64>, String> {
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for text in String::from_utf8_lossy(value.as_bytes()).split(',').map(str::trim) {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u64>().ok().filter(|_| digits);
            let number = number.ok_or_else(|| format!("has the Content-Length {text:?}, which is not a number"))?;
            if length.is_some_and(|length| length != number) {
                return Err("has two different values of Content-Length".to_owned());
            }
            length = Some(number);
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(values: &[&'static str]) -> Result<Option<u64>, String> {
        let fields = values.iter().map(|value| (CONTENT_LENGTH, value.parse().unwrap()));
        content_length(&fields.collect())
    }

    #[test]
    fn repeated_equal_lengths_are_one_and_others_are_errors() {
        assert_eq!(told(&[]), Ok(None));
        for values in [&["5"][..], &["5", "5"], &["5, 5"], &["5,05"]] {
            assert_eq!(told(values), Ok(Some(5)), "{values:?}");
        }
        for values in [&["5", "6"][..], &["5, 6"], &["5", "5, 6"]] {
            assert_eq!(told(values), Err("has two different values of Content-Length".to_owned()), "{values:?}");
        }
        for values in [&[""][..], &["+5"], &["-5"], &["5 6"], &["five"], &["5,"], &["18446744073709551616"]] {
            assert!(told(values).is_err_and(|why| why.contains("not a number")), "{values:?}");
        }
    }
}
