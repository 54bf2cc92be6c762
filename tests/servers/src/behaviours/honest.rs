//! A server without faults.

use crate::behaviour::Behaviour;

pub(super) struct Honest;

impl Behaviour for Honest {}
