//! A naive model of the whole scheduler, and the scheduler held to it under random operations.

#![allow(clippy::unwrap_used, reason = "a step that fails is a failed test")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the model computes in floats what the crate computes in integers, with small numbers"
)]

mod directed;
mod facts;
mod naive;
mod ops;
mod properties;
mod rules;
mod scale;
mod stickiness;
mod world;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use crate::ops::story;
use crate::world::World;

/// `PROPTEST_CASES` overrides the number of cases.
fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|it| it.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(default),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            "tests/model/regressions.txt",
        ))),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn the_scheduler_does_what_the_model_does(story in story(true)) {
        let mut world = World::new(&story.policy, &story.accounts);
        for op in &story.ops {
            world.apply(op);
        }
    }
}
