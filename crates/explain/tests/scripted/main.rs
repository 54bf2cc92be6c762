//! What scripted packets must be read as, where every packet's time is known.

mod acks;
mod cut;
mod ends;
mod line;
mod page;
mod talk;
