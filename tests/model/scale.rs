//! The scheduler held to the naive model in pools of about 2 000 accounts and 40 models.

mod acts;
mod crowd;
mod world;

use proptest::prelude::*;

use self::acts::story;
use self::world::World;
use crate::cases;

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..cases(50) })]

    #[test]
    fn a_large_pool_does_what_the_model_does(story in story()) {
        let mut world = World::new(&story);
        for op in &story.ops {
            world.apply(op);
        }
    }
}
