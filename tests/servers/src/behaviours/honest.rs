//! A server as it should be.

use crate::behaviour::Behaviour;

pub(super) struct Honest;

impl Behaviour for Honest {}
