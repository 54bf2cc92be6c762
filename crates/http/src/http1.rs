//! HTTP/1.1 with pipelining, on `httparse`, because existing clients do not pipeline.
//!
//! `head` and `chunks` parse the syntax, `exchange` matches responses to requests, `driver` does the I/O.

mod chunks;
mod driver;
mod exchange;
mod head;

pub(crate) use driver::run;
