//! The scheduler held to the naive model in pools of about 2 000 accounts and 40 models.

mod acts;
mod crowd;
mod world;

use account_pool::{Config, Outcome, Scope};
use proptest::prelude::*;

use self::acts::{Act, AskSpec, Op, Slice, Story, story};
use self::world::World;
use crate::cases;

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..cases(30) })]

    #[test]
    fn a_large_pool_does_what_the_model_does(story in story()) {
        let mut world = World::new(&story);
        for op in &story.ops {
            world.apply(op);
        }
    }
}

#[test]
fn of_many_removed_accounts_the_first_are_forgotten() {
    let overloaded = Outcome::Overloaded { scope: Scope::Account, reset: None };
    let all = Slice::OneIn(1);
    let acts = [Act::Observe(None, None, overloaded), Act::Remove, Act::Add];
    let mut world = World::new(&Story::of(1_030, Config::default()));
    for act in acts {
        world.apply(&Op::Each(all, act));
    }
    world.apply(&Op::Select(AskSpec::plain(), None));
}
