//! Drawing cases, and judging invented explanations.
