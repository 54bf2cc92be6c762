//! How long a message says its body is.

use http::{HeaderMap, header::CONTENT_LENGTH};

/// The length in bytes that the head of a message tells, if it tells one. The same one told twice, in one field or in
/// two, is one (RFC 9110 §8.6).
///
/// # Errors
/// What is wrong with it, to stand behind the message's name: it tells two different lengths, or one that is no number.
pub fn content_length(headers: &HeaderMap) -> Result<Option<u64>, String> {
    let mut told = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for text in String::from_utf8_lossy(value.as_bytes()).split(',').map(str::trim) {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u64>().ok().filter(|_| digits);
            let number = number.ok_or_else(|| format!("tells the length {text:?}, which is no number of bytes"))?;
            if told.is_some_and(|told| told != number) {
                return Err("tells two different lengths".to_owned());
            }
            told = Some(number);
        }
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(values: &[&'static str]) -> Result<Option<u64>, String> {
        let fields = values.iter().map(|value| (CONTENT_LENGTH, value.parse().unwrap()));
        content_length(&fields.collect())
    }

    #[test]
    fn a_message_has_one_length_however_often_it_is_told() {
        assert_eq!(told(&[]), Ok(None));
        for values in [&["5"][..], &["5", "5"], &["5, 5"], &["5,05"]] {
            assert_eq!(told(values), Ok(Some(5)), "{values:?}");
        }
        for values in [&["5", "6"][..], &["5, 6"], &["5", "5, 6"]] {
            assert_eq!(told(values), Err("tells two different lengths".to_owned()), "{values:?}");
        }
        for values in [&[""][..], &["+5"], &["-5"], &["5 6"], &["five"], &["5,"], &["18446744073709551616"]] {
            assert!(told(values).is_err_and(|why| why.contains("no number")), "{values:?}");
        }
    }
}
