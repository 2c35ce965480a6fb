//! The scheduler held to the naive model in pools of about 2 000 accounts and 40 models.

mod acts;
mod crowd;
mod world;

use account_pool::{Account, AccountId, Config, Outcome, Request, Scheduler, Scope, Timestamp};
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

/// How many of 3 000 callers move when some accounts leave one by one: those of the accounts, and
/// others.
fn moved(accounts: u32, leaving: u32) -> (u32, u32) {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    let now = Timestamp::from_millis(100);
    for account in 0..accounts {
        scheduler.add(Account::new(format!("a{account}")), now).unwrap();
    }
    let places = |scheduler: &Scheduler| {
        let callers = (0..3_000).map(|caller| format!("user{caller}"));
        let place = |it: String| scheduler.preview(&Request::new().caller(&it), now).unwrap();
        callers.map(|it| place(it).account).collect::<Vec<AccountId>>()
    };
    let (mut own, mut others) = (0, 0);
    let mut before = places(&scheduler);
    for leaving in 0..leaving {
        let leaver = format!("a{}", leaving * 7);
        scheduler.remove(&leaver, now);
        let after = places(&scheduler);
        for (from, _) in before.iter().zip(&after).filter(|(from, to)| from != to) {
            *if *from == *leaver { &mut own } else { &mut others } += 1;
        }
        before = after;
    }
    (own, others)
}

#[test]
fn few_callers_move_when_one_of_many_tied_accounts_leaves() {
    let (own, others) = moved(64, 2);
    assert!(own > 0 && others == 0, "of few: {own} and {others}");
    let (own, others) = moved(200, 4);
    assert!(own > 0 && others < 2 * own, "of many: {own} and {others}");
}
