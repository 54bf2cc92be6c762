//! A cable's elements, and the lanes that they make: the stages of each direction.
//!
//! The way up passes the elements from the client to the server, the way down in reverse order.

use crate::stage::{Direction, Stage};

/// One element of a cable: what it does to the packets of each direction, if anything.
#[derive(Default)]
pub struct Element {
    /// Its stage on the way from the client to the server.
    pub up: Option<Box<dyn Stage>>,
    /// Its stage on the way from the server to the client.
    pub down: Option<Box<dyn Stage>>,
}

impl Element {
    /// One that does the same in both directions.
    pub(crate) fn both<S: Stage>(stage: impl Fn(Direction) -> S) -> Self {
        Self { up: Some(Box::new(stage(Direction::Up))), down: Some(Box::new(stage(Direction::Down))) }
    }
}

/// The stages of one direction, first passed first.
#[derive(Default)]
pub struct Lane {
    /// The stages, for a [`crate::chain::Chain`].
    pub stages: Vec<Box<dyn Stage>>,
    /// For each stage, the place in the *other* direction's chain at which a packet that it sends
    /// back enters: just past the same element.
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
    /// A lane whose stages send nothing back.
    fn from(stages: Vec<Box<dyn Stage>>) -> Self {
        Self { back: vec![0; stages.len()], stages }
    }
}

impl Lanes {
    /// Those of these elements, given in order from the client to the server.
    pub fn of(elements: Vec<Element>) -> Self {
        let mut lanes = Self::default();
        // The stages of the way down from the server to this element, itself included.
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
