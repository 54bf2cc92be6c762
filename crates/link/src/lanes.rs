//! The elements of a cable, and its two lanes: the stages of each direction.
//!
//! Packets from the client to the server pass the elements in order; packets in the other direction pass them in reverse.

use crate::stage::{Direction, Stage};

/// One element of a cable, with at most one stage in each direction.
#[derive(Default)]
pub struct Element {
    /// Its stage from the client to the server.
    pub up: Option<Box<dyn Stage>>,
    /// Its stage from the server to the client.
    pub down: Option<Box<dyn Stage>>,
}

impl Element {
    /// An element with these stages; `None` if it has none.
    pub(crate) fn of(up: Option<Box<dyn Stage>>, down: Option<Box<dyn Stage>>) -> Option<Self> {
        (up.is_some() || down.is_some()).then_some(Self { up, down })
    }

    /// An element with the same kind of stage in both directions.
    pub(crate) fn both<S: Stage>(stage: impl Fn(Direction) -> S) -> Self {
        Self { up: Some(Box::new(stage(Direction::Up))), down: Some(Box::new(stage(Direction::Down))) }
    }
}

/// The stages of one direction, in the order in which packets pass them.
#[derive(Default)]
pub struct Lane {
    /// The stages, for a [`crate::chain::Chain`].
    pub stages: Vec<Box<dyn Stage>>,
    /// For each stage, the index in the *other* direction's chain at which packets that it sends back enter: just after
    /// the same element.
    pub back: Vec<usize>,
}

/// The stages of both directions of a cable.
#[derive(Default)]
pub struct Lanes {
    /// From the client to the server.
    pub up: Lane,
    /// From the server to the client.
    pub down: Lane,
}

impl From<Vec<Box<dyn Stage>>> for Lane {
    /// A lane whose stages send no packets back.
    fn from(stages: Vec<Box<dyn Stage>>) -> Self {
        Self { back: vec![0; stages.len()], stages }
    }
}

impl Lanes {
    /// The lanes of these elements, which are in order from the client to the server.
    pub fn of(elements: Vec<Element>) -> Self {
        let mut lanes = Self::default();
        // Number of stages from the server to this element, inclusive.
        let mut downs = elements.iter().filter(|element| element.down.is_some()).count();
        for element in elements {
            if let Some(stage) = element.up {
                lanes.up.stages.push(stage);
                lanes.up.back.push(downs);
            }
            if let Some(stage) = element.down {
                lanes.down.stages.push(stage);
                lanes.down.back.push(lanes.up.stages.len());
                downs -= 1;
            }
        }
        lanes.down.stages.reverse();
        lanes.down.back.reverse();
        lanes
    }
}
