//! Speed Index: how long the visible part of a page was missing, on average over its pixels.
//!
//! The definition is Patrick Meenan's (WebPageTest, 2012): the integral of 1 − visual completeness over time, from the
//! first request to the last change. How complete a picture is follows from its colours alone, as there: each channel's
//! histogram lies somewhere between that of the white page before and that of the last picture. Positions do not count, so
//! that a text which moves by a line is not incomplete.
//!
//! Neighbouring values share a bin, so that the noise of a JPEG counts little.

use std::{io::Cursor, time::Duration};

use zune_jpeg::JpegDecoder;

use crate::browser::Frame;

/// The number of bins of a channel.
const BINS: usize = 32;

/// How often each colour value occurs, as a share of the pixels: bins of red, of green, and of blue.
type Histogram = [[f64; BINS]; 3];

/// The Speed Index of a film; none if nothing is painted, or if a picture cannot be read.
pub fn speed_index(film: &[Frame]) -> Option<Duration> {
    let histograms: Vec<Histogram> = film.iter().map(|frame| histogram(&frame.jpeg)).collect::<Option<_>>()?;
    let times: Vec<Duration> = film.iter().map(|frame| frame.at).collect();
    integral(&times, &completeness(&histograms)?)
}

/// The area above the curve of completeness, which starts at 0.
fn integral(times: &[Duration], completeness: &[f64]) -> Option<Duration> {
    let mut missing = Duration::ZERO;
    let (mut since, mut complete) = (Duration::ZERO, 0.0);
    for (time, next) in times.iter().zip(completeness) {
        missing += time.saturating_sub(since).mul_f64(1.0 - complete);
        (since, complete) = (*time, *next);
    }
    (!times.is_empty()).then_some(missing)
}

/// How complete each picture is, from 0 to 1; none if the last one is as white as the page before.
fn completeness(histograms: &[Histogram]) -> Option<Vec<f64>> {
    let last = histograms.last()?;
    let whole = distance(&white(), last);
    let of = |histogram: &Histogram| (1.0 - distance(histogram, last) / whole).clamp(0.0, 1.0);
    (whole > 0.0).then(|| histograms.iter().map(of).collect())
}

fn distance(a: &Histogram, b: &Histogram) -> f64 {
    a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b).abs()).sum()
}

fn white() -> Histogram {
    let mut channel = [0.0; BINS];
    channel[BINS - 1] = 1.0;
    [channel; 3]
}

fn histogram(jpeg: &[u8]) -> Option<Histogram> {
    let mut decoder = JpegDecoder::new(Cursor::new(jpeg));
    let pixels = decoder.decode().ok()?;
    let count = pixels.len() / 3;
    let mut histogram = [[0.0; BINS]; 3];
    for pixel in pixels.chunks_exact(3) {
        for (channel, value) in histogram.iter_mut().zip(pixel) {
            channel[usize::from(*value) * BINS / 256] += 1.0 / count as f64;
        }
    }
    (count > 0).then_some(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// A picture of which this share is black.
    fn black(share: f64) -> Histogram {
        let mut channel = [0.0; BINS];
        (channel[0], channel[BINS - 1]) = (share, 1.0 - share);
        [channel; 3]
    }

    #[test]
    fn half_of_page_at_once_and_half_later_is_the_mean() {
        let complete = completeness(&[black(0.0), black(0.25), black(0.5)]).unwrap();
        assert_eq!(complete, [0.0, 0.5, 1.0]);
        assert_eq!(integral(&[ms(50), ms(100), ms(300)], &complete), Some(ms(200)));
    }

    #[test]
    fn page_that_appears_at_once_has_the_time_of_its_paint() {
        let complete = completeness(&[black(0.5)]).unwrap();
        assert_eq!(integral(&[ms(120)], &complete), Some(ms(120)));
    }

    #[test]
    fn nothing_painted_has_no_index() {
        assert_eq!(completeness(&[black(0.0)]), None);
        assert_eq!((completeness(&[]), speed_index(&[])), (None, None));
        assert_eq!(speed_index(&[Frame { at: ms(1), jpeg: b"no JPEG".to_vec() }]), None);
    }
}
