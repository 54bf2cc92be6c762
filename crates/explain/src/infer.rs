//! What the packets say about sender, receiver and path.

pub(crate) mod ack_policy;
pub(crate) mod control_frames;
mod dispersion;
pub(crate) mod exchange;
pub(crate) mod expect_continue;
pub(crate) mod loss_response;
pub(crate) mod pacing;
pub(crate) mod send_context;
pub(crate) mod sender_properties;
pub(crate) mod sender_state;
pub(crate) mod shared_link;
pub(crate) mod survey;
pub(crate) mod uncaptured;
pub(crate) mod vantage;
pub(crate) mod window_scale;
