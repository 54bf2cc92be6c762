//! Sizes, rates, times and probabilities: how Longhaul reads and prints them.
//!
//! A quantity has two printed forms, for two readers:
//!
//! - **Exact**: what a person types and a file keeps. `18ms`, `100mbit`, `10KiB`, `0.1%`. [`Size`], [`Rate`],
//!   [`Span`] and [`Percent`] parse this form, and `Display` prints it without rounding, so that a printed value
//!   parses to the same value. The same form is their serde form, as a string.
//! - **Rounded**: what a person reads in a table or a sentence. `93 ms`, `9.5 Mbit/s`, `2.0 MiB`: two or three
//!   digits, with a space before the unit. These are the functions in [`rounded`]; nothing parses them.
//!
//! ```
//! use std::time::Duration;
//! use units::{Rate, Size, Span, rounded};
//!
//! let size: Size = "10KiB".parse()?;
//! let rate: Rate = "100mbit".parse()?;
//! assert_eq!((size.as_bytes(), rate.as_bits_per_second()), (10_240, 100_000_000));
//! assert_eq!(Span(rate.time_for(1_000_000)).to_string(), "80ms");
//! assert_eq!(rounded::time(Duration::from_micros(93_110)), "93 ms");
//! # Ok::<(), units::ParseError>(())
//! ```
//!
//! Types of other crates that have such an exact form, like a queue's length, get it from [`text_form!`].

/// The examples of the README are compiled with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod exact;
pub mod rounded;
pub mod text;

pub use exact::{Percent, Rate, Size, Span};
pub use text::ParseError;
