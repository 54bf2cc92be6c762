//! HTTP/1.1 with pipelining, our own on `httparse`, because the clients that exist refuse it.
//!
//! `head` and `chunks` are the syntax, `exchange` tells whose answer came, `driver` moves the bytes.

mod chunks;
mod driver;
mod exchange;
mod head;

pub(crate) use driver::run;
