//! The critical path of a connection: the chain of events that determined when it ended.
//!
//! Barford and Crovella (SIGCOMM 2000) model a transfer as a graph of packets, in which each packet is released by an
//! earlier one, and examine only the path from the last byte back to the first event: what happens beside the path
//! costs nothing. Their graph needs captures from both ends. Here one is enough, because the sender's state
//! ([`crate::infer::sender_state`]) is reconstructed from any vantage point by shifting acknowledgements in time. What
//! lies between two links of the chain is a [wait](crate::causes::wait), and each [cause](crate::causes) claims its
//! part of it. A full window costs nothing while the path is busy anyway: the time that the bottleneck needs for the
//! transfer's own bytes is set apart first.

pub(crate) mod message_history;
pub(crate) mod timeline;
mod walk;
