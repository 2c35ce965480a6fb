//! Journals: a replay ends in the same state by the same answers.
