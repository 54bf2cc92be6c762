//! Formatting numbers and lists, with significant digits only.

pub(crate) use units::rounded::count as counted;

use crate::stats::Interval;

/// A factor: `1.04×`, `26.4×`, `1240×`.
pub(crate) fn times(factor: f64) -> String {
    format!("{}×", three_digits(factor))
}

/// The interval of a factor: `1.04–1.21`.
pub(crate) fn between(interval: Interval) -> String {
    format!("{}–{}", three_digits(interval.lo), three_digits(interval.hi))
}

/// A factor with its interval: `1.12× (1.04–1.21)`.
pub(crate) fn estimated(factor: f64, interval: Interval) -> String {
    format!("{} ({})", times(factor), between(interval))
}

fn three_digits(number: f64) -> String {
    let decimals = match number {
        number if number < 9.995 => 2,
        number if number < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

/// A list: `a, b and c`.
pub(crate) fn spoken(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// One unit and one number of decimals for the times of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    unit: &'static str,
    factor: f64,
    decimals: usize,
}

impl Scale {
    /// Milliseconds if all times are below a second; enough decimals for three digits of the smallest, at most three.
    pub(crate) fn of(seconds: impl IntoIterator<Item = f64>) -> Self {
        let (least, most) =
            seconds.into_iter().fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), s| (least.min(s), most.max(s)));
        let (unit, factor) = if most < 1.0 { ("ms", 1e3) } else { ("s", 1.0) };
        let decimals = match least * factor {
            least if least >= 100.0 => 0,
            least if least >= 10.0 => 1,
            least if least >= 1.0 => 2,
            _ => 3,
        };
        Self { unit, factor, decimals }
    }

    /// The time without its unit.
    pub(crate) fn number(self, seconds: f64) -> String {
        let Self { factor, decimals, .. } = self;
        format!("{:.decimals$}", seconds * factor)
    }

    /// The time with its unit.
    pub(crate) fn with_unit(self, seconds: f64) -> String {
        format!("{} {}", self.number(seconds), self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_numbers() {
        let said = [0.5, 1.0, 9.994, 9.996, 26.4, 99.94, 99.96, 1240.0].map(times);
        assert_eq!(said, ["0.50×", "1.00×", "9.99×", "10.0×", "26.4×", "99.9×", "100×", "1240×"]);
        assert_eq!(between([1.0, 26.4].into()), "1.00–26.4");
        let (lan, far) = (Scale::of([0.0123, 0.4]), Scale::of([0.23, 152.0]));
        assert_eq!((lan.with_unit(0.0123), lan.number(0.4)), ("12.3 ms".into(), "400.0".into()));
        assert_eq!((far.with_unit(0.23), far.number(152.0)), ("0.230 s".into(), "152.000".into()));
        assert_eq!(spoken(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
