//! What several connections or captures say together: captures of both ends, and page loads.

mod client_time;
pub(crate) mod neighbours;
pub(crate) mod one_way_delay;
pub(crate) mod page_load;
pub(crate) mod pair_captures;
mod spare_connections;
