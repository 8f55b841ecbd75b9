//! Random changes and questions, against a list of all areas.

use crate::rng::Rng;
use crate::{PAGE, seed};
use samara_mm::files::{Counted, FileArea, LinkError, Mapping, NoStats, ReverseMap, Stats};
use samara_mm::{Sleep, SpaceRange, Span};

/// The list, and what it says.
#[derive(Default)]
struct Model(Vec<Mapping>);

impl Model {
    fn find(&self, space: u64, area: FileArea) -> Option<usize> {
        self.0.iter().position(|m| (m.space, m.area.start, m.area.page) == (space, area.start, area.page))
    }
    fn areas(&self, pages: Span<u64>) -> Vec<Mapping> {
        let last = |m: &Mapping| m.area.page + ((m.area.end - m.area.start) / PAGE - 1);
        let hits = |m: &&Mapping| m.area.page <= pages.last && last(m) >= pages.first && !pages.is_empty();
        let mut found: Vec<_> = self.0.iter().filter(hits).copied().collect();
        found.sort_by_key(|m| (m.area.page, m.space, m.area.start));
        found
    }
    /// Page by page.
    fn mapped(&self, pages: Span<u64>) -> Vec<SpaceRange> {
        let mut shown = std::collections::BTreeSet::new();
        for Mapping { space, area } in &self.0 {
            let page_of = |at: u64| area.page + (at - area.start) / PAGE;
            let at = (area.start..area.end).step_by(PAGE as usize);
            shown.extend(at.filter(|at| pages.contains(page_of(*at))).map(|at| (*space, at)));
        }
        let mut ranges: Vec<SpaceRange> = Vec::new();
        for (space, at) in shown {
            match ranges.last_mut() {
                Some(range) if range.space == space && range.end == at => range.end += PAGE,
                _ => ranges.push(SpaceRange { space, start: at, end: at + PAGE }),
            }
        }
        ranges
    }
}

fn draw(rng: &mut Rng) -> FileArea {
    let (at, power) = (rng.below(40), rng.below(5));
    let pages = if rng.one_in(30) { 0 } else { 1 + rng.below(1 << power) };
    let start = at * PAGE + u64::from(rng.one_in(50));
    let page = if rng.one_in(60) { u64::MAX - rng.below(3) } else { rng.below(50) };
    FileArea { start, end: start + pages * PAGE, page, shared_writable: rng.one_in(3) }
}

fn is_good(area: &FileArea) -> bool {
    let pages = (area.end - area.start) / PAGE;
    area.start.is_multiple_of(PAGE) && pages > 0 && u128::from(area.page) + u128::from(pages) <= 1 << 64
}

/// One batch of a space, on both.
fn batch<S: Stats>(rng: &mut Rng, map: &ReverseMap<Sleep, S>, model: &mut Model, refused: &mut [u32; 4]) -> usize {
    let (space, links) = (rng.below(12), rng.below(4) as usize);
    let (mut left, mut changed) = (links, 0);
    let mut batch = map.batch(space, links).unwrap();
    for _ in 0..rng.below(8) {
        let own: Vec<FileArea> = model.0.iter().filter(|m| m.space == space).map(|m| m.area).collect();
        let one = |rng: &mut Rng| if own.is_empty() || rng.one_in(4) { draw(rng) } else { rng.pick(&own) };
        let said = match rng.below(3) {
            0 => {
                let new = if rng.one_in(6) { one(rng) } else { draw(rng) };
                let want = match model.find(space, new) {
                    _ if !is_good(&new) => Err(LinkError::Malformed),
                    _ if left == 0 => Err(LinkError::UsedUp),
                    Some(_) => Err(LinkError::Linked),
                    None => Ok(()),
                };
                assert_eq!(batch.link(new), want, "{space} {new:x?}");
                if want.is_ok() {
                    model.0.push(Mapping { space, area: new });
                    left -= 1;
                }
                want
            }
            1 => {
                let old = one(rng);
                let there = model.find(space, old).filter(|at| model.0[*at].area == old);
                let want = there.map(drop).ok_or(LinkError::NotLinked);
                assert_eq!(batch.unlink(old), want, "{space} {old:x?}");
                if let Some(at) = there {
                    model.0.swap_remove(at);
                    left += 1;
                }
                want
            }
            _ => {
                let old = one(rng);
                // Often a change in place.
                let mut new = if rng.one_in(2) { FileArea { end: old.start + PAGE, ..old } } else { draw(rng) };
                new.shared_writable = rng.one_in(2);
                let there = model.find(space, old).filter(|at| model.0[*at].area == old);
                let other = model.find(space, new).filter(|at| Some(*at) != there);
                let want = match there {
                    _ if !is_good(&new) => Err(LinkError::Malformed),
                    None => Err(LinkError::NotLinked),
                    Some(_) if other.is_some() => Err(LinkError::Linked),
                    Some(_) => Ok(()),
                };
                assert_eq!(batch.replace(old, new), want, "{space} {old:x?} {new:x?}");
                if want.is_ok() {
                    model.0[there.unwrap()].area = new;
                }
                want
            }
        };
        assert_eq!(batch.remaining(), left);
        match said {
            Ok(()) => changed += 1,
            Err(LinkError::Malformed) => refused[0] += 1,
            Err(LinkError::UsedUp) => refused[1] += 1,
            Err(LinkError::Linked) => refused[2] += 1,
            _ => refused[3] += 1,
        }
    }
    changed
}

fn campaign<S: Stats>(shards: usize) {
    let mut rng = Rng(seed(shards as u64));
    let map = ReverseMap::<Sleep, S>::with_shards(shards).unwrap();
    let (mut model, mut refused, mut changed, mut answers) = (Model::default(), [0; 4], 0, 0);
    for round in 0..4000 {
        changed += batch(&mut rng, &map, &mut model, &mut refused);
        let pages = match rng.below(8) {
            0 => Span::FULL,
            1 => Span::new(rng.below(60), u64::MAX),
            _ => Span::new(rng.below(60), rng.below(60)),
        };
        let want = model.areas(pages);
        answers += want.len();
        assert_eq!(map.areas(pages).unwrap(), want, "round {round}: {pages:?}");
        assert_eq!(map.is_mapped(pages), !want.is_empty());
        // The walk without memory gives the same.
        let mut at = None;
        for mapping in want {
            at = map.next_area(pages, at);
            assert_eq!(at, Some(mapping));
        }
        assert_eq!(map.next_area(pages, at).filter(|_| at.is_some()), None);
        if !pages.is_empty() {
            assert_eq!(map.mapped(pages).unwrap(), model.mapped(pages), "round {round}: {pages:?}");
        }
        assert_eq!(map.len(), model.0.len());
        assert_eq!(map.is_empty(), model.0.is_empty());
        assert_eq!(map.shared_writable(), model.0.iter().filter(|m| m.area.shared_writable).count());
        map.check().unwrap();
        // Now and then all areas of a space go.
        if round % 100 == 0 {
            let space = rng.below(12);
            let mut batch = map.batch(space, 0).unwrap();
            model.0.iter().filter(|m| m.space == space).for_each(|m| batch.unlink(m.area).unwrap());
            model.0.retain(|m| m.space != space);
        }
    }
    assert!(changed > 4000 && answers > 20_000, "{changed} {answers}");
    assert!(refused.iter().all(|n| *n > 20), "{refused:?}");
}

#[test]
fn one_shard_answers_as_a_list_does() {
    campaign::<NoStats>(1);
}

#[test]
fn many_shards_answer_as_a_list_does() {
    campaign::<Counted>(16);
}
