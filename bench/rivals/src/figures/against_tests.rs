//! Differences are reported only if rounds do not overlap.

use super::differences;
use crate::figures::design::Design;
use crate::figures::figure::Figure;
use crate::figures::line::Line;
use crate::figures::work::Work;
use samara_bench::stats::Sample;
use samara_bench::workloads::Case;

fn line(design: Design, rounds: [f64; 3]) -> Line {
    Line::new(
        Figure::RandomMaps,
        &Work::Alone(Case::MunmapMmap).rows()[0],
        (1_024, 1),
        design,
        &Sample::new(rounds.to_vec()),
    )
}

const END: &str = "results differ beyond their noise (no round of one is as fast as one of the other)\n\
                   the runs have 3 and 3 rounds: with few of them, noise alone makes results differ\n";

#[test]
fn beyond_the_noise() {
    let old = [line(Design::Samara, [10.0, 11.0, 12.0]), line(Design::List, [10.0, 20.0, 30.0])];
    let same = [line(Design::Samara, [12.0, 13.0, 14.0]), line(Design::List, [25.0, 26.0, 27.0])];
    assert_eq!(differences(&old, &same), format!("0 of 2 {END}"));
    let slower = [line(Design::Samara, [13.0, 22.0, 23.0]), line(Design::Maple, [1.0, 1.0, 1.0])];
    assert_eq!(
        differences(&old, &slower),
        format!(
            "slower: F1 munmap_mmap, n 1024, threads 1, samara: 22.00 ns, was 11.00 (2.00 times)\n\
             1 of 1 {END}1 results have none to compare with\n"
        )
    );
    // A share is neither fast nor slow.
    let share = |percent| {
        [Line::new(Figure::RandomMaps, &Work::Steps.rows()[1], (64, 1), Design::List, &Sample::new(vec![percent]))]
    };
    assert_eq!(
        differences(&share(10.0), &share(5.0)),
        format!(
            "less: F1 munmap find, n 64, threads 1, list: 5.00 %, was 10.00 (0.50 times)\n1 of 1 {}",
            END.replace("3 and 3", "1 and 1")
        )
    );
}
