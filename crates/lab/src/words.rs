//! How numbers are said: as many digits as mean something, and no more.

/// A factor: `1.04×`, `2.4×`, `26×`, `1240×`.
pub(crate) fn times(factor: f64) -> String {
    let decimals = match factor {
        factor if factor < 1.995 => 2,
        factor if factor < 9.95 => 1,
        _ => 0,
    };
    format!("{factor:.decimals$}×")
}

/// `1 request`, `8 requests`.
pub(crate) fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// A list as it is spoken: `a, b and c`.
pub(crate) fn spoken(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_numbers() {
        let said = [0.5, 1.0, 1.994, 1.996, 2.44, 9.94, 9.96, 26.4, 1240.0].map(times);
        assert_eq!(said, ["0.50×", "1.00×", "1.99×", "2.0×", "2.4×", "9.9×", "10×", "26×", "1240×"]);
        assert_eq!((counted(1, "request"), counted(0, "request")), ("1 request".into(), "0 requests".into()));
        assert_eq!(spoken(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
