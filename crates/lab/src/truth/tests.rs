//! Drawing cases, reading captures, and judging invented explanations.

mod captures;
mod drawing;
mod judging;

use super::{
    case::{Case, MeasuredCase},
    facts::Facts,
    knobs::KNOBS,
    programs::Installed,
    scenario::{ClientProgram, ServerProgram},
};

/// A machine with all programs.
fn everything() -> Installed {
    use ClientProgram::{Curl, Node, Python, Rclone, Wget};
    Installed {
        servers: vec![ServerProgram::Python, ServerProgram::Nginx, ServerProgram::Apache, ServerProgram::Node],
        clients: vec![Curl, Wget, Python, Node, Rclone],
        has_iperf3: true,
        has_tc: true,
        congestion_controls: vec!["reno".to_owned(), "cubic".to_owned(), "bbr".to_owned()],
        ..Installed::default()
    }
}

/// A case of this knob that took 2 s, and half a second without the knob.
fn measured(knob: &str) -> MeasuredCase {
    let knobs: Vec<_> = KNOBS.iter().filter(|one| one.name == knob).collect();
    let case = Case::draw(1, 0, &knobs, &everything()).expect("all programs are there");
    let facts = |duration_s| Facts {
        duration_s,
        bytes: 1000,
        connections: 1,
        packets: 10,
        is_complete: true,
        emulator_drops: 0,
    };
    MeasuredCase { case, turned: facts(2.0), back: facts(0.5) }
}
