//! Explanations of scripted packets, whose times are known exactly.

mod ack_policy;
mod advice;
mod answers;
mod capture_gaps;
mod connection_script;
mod control_frames;
mod counters;
mod duplicate_packets;
mod endings;
mod expect_continue;
mod headers_only;
mod incomplete_captures;
mod known_link;
mod pacing;
mod page_load;
mod pair_captures;
mod phases;
mod shared_path;
mod simulated_download;
mod systems;
mod unseen_losses;
